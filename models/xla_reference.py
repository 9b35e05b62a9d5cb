"""What XLA itself computes from an HLO module, for comparison (needs jax; written for 0.10).

    models/xla_reference.py MODULE.hlo[.gz] INPUTS.npz OUTPUTS.npz

draws inputs, writes them as arg0, arg1, … and XLA's results on the CPU as out0, out1, …:

    weft run MODULE.hlo --inputs INPUTS.npz --expect OUTPUTS.npz
"""

import gzip
import os
import sys
import zlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jaxlib._hlo as hlo
import numpy as np
from jax._src.lib import xla_client


def read_text(path):
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as file:
        return file.read()


def draw(shape, number, seed):
    """Positive floats about 0.3, of which roots and logarithms exist; integers 0 and 1."""
    rng = np.random.default_rng([seed, number])
    dtype = np.dtype(shape.numpy_dtype())
    if np.issubdtype(dtype, np.integer) or dtype == np.bool_:
        return rng.integers(0, 2, shape.dimensions()).astype(dtype)
    return rng.uniform(0.05, 0.55, shape.dimensions()).astype(dtype)


def main(path, inputs_path, outputs_path):
    proto = hlo.hlo_module_from_text(read_text(path)).as_serialized_hlo_module_proto()
    program = hlo.XlaComputation(proto).program_shape()
    seed = zlib.crc32(os.path.basename(path).encode())
    inputs = [draw(shape, i, seed) for i, shape in enumerate(program.parameter_shapes())]
    device = jax.devices()[0]
    executable = device.client.compile_and_load(
        xla_client._xla.mlir.hlo_to_stablehlo(proto),
        xla_client.DeviceList((device,)),
        xla_client.CompileOptions(),
    )
    outputs = executable.execute([jax.device_put(value) for value in inputs])
    np.savez(inputs_path, **{f"arg{i}": value for i, value in enumerate(inputs)})
    np.savez(outputs_path, **{f"out{i}": np.asarray(value) for i, value in enumerate(outputs)})


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

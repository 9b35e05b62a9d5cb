"""HLO modules of models/hlo: their texts, and XLA's own executables of them. Compiling needs JAX."""

import gzip
import os
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "models/hlo"


def name_of(path):
    return path.name.removesuffix(".gz").removesuffix(".hlo")


def paths():
    """Each module once, in its shorter syntax."""
    found = sorted([*FOLDER.glob("*.hlo"), *FOLDER.glob("*.hlo.gz")])
    return [path for path in found if not name_of(path).endswith(".verbose")]


def read(path):
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        return file.read()


def compiled(text):
    """XLA's executable for this CPU, and the device that it runs on."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jaxlib._hlo as hlo
    import jaxlib.lapack
    from jax._src.lib import xla_client

    jax.config.update("jax_enable_x64", True)  # else arguments of 64 bits become such of 32
    jaxlib.lapack.prepare_lapack_call("potrf", np.dtype("float32"))  # loads all of LAPACK
    proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    device = jax.devices()[0]
    executable = device.client.compile_and_load(
        xla_client._xla.mlir.hlo_to_stablehlo(proto),
        xla_client.DeviceList((device,)),
        xla_client.CompileOptions(),
    )
    return executable, device


def put(text, file):
    """Into the file, or to stdout where there is none."""
    if file:
        file.write_text(text)
    else:
        print(text)

"""Times weft and XLA (of JAX, on the CPU) on the same HLO modules, inputs and cores.

    bench/xla_peers.py [MODULE... | FILE.hlo[.gz]...] [--threads 2] [--rounds 5] [--seconds 0.3] [--out FILE]

Needs JAX and onnx in the Python that runs it (pip install "jax[cpu]" onnx). Modules are those of models/hlo, by
default all. Each engine runs in a process of its own on the same cores, XLA's stopped while weft
runs; turns alternate, a figure is the median of the turns' medians. Arguments are random: of floats
normal, rows of matrices and filters of convolutions scaled to keep sums near 1, vectors positive,
of integers small. XLA is called as by
`jax.jit`, arguments on the device and outputs waited for. `apart` is the distance of the outputs,
sqrt(sum (y - e)^2 / sum e^2), of the worst one; an output that is less than a millionth of the
largest one (a gradient that is 0 but for rounding) is compared with that millionth. Loading is the
compilation, without a cache. `bench/jax_networks.py` and `bench/xla_frontends.py` write further modules.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

import hlo_modules
import numpy as np
from peers import Failed, Peer, Weft, geometric_mean, processor

ROOT = Path(__file__).resolve().parent.parent
TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "s32": np.int32,
    "s64": np.int64,
    "u32": np.uint32,
    "s8": np.int8,
    "u8": np.uint8,
    "pred": np.bool_,
}


def parameters(text):
    """Types and shapes of the entry's parameters, by their number."""
    entry = text[re.search(r"^ENTRY ", text, re.M).start() :]
    found = {}
    for type, shape, number in re.findall(r"= (\w+)\[([\d,]*)\]\S* parameter\((\d+)\)", entry):
        found[int(number)] = (TYPES[type], tuple(int(n) for n in shape.split(",") if n))
    return [found[number] for number in sorted(found)]


def random_array(rng, type, shape):
    if type == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if np.issubdtype(type, np.integer):
        return rng.integers(1, 8, shape).astype(type)
    size = int(np.prod(shape))
    if not shape or size == shape[-1]:  # scales and variances
        return rng.uniform(0.5, 1.5, shape).astype(type)
    summed = shape[-2] if len(shape) < 4 else size / max(shape[0], shape[-1])
    return (rng.standard_normal(shape) / np.sqrt(max(summed, 1))).astype(type)


def apart(outputs, expected):
    floor = max(1e-6 * max(map(norm, expected)), 1e-30)

    def distance(value, target):
        if value.shape != target.shape:
            raise Failed(f"wrong: shape {value.shape}, not {target.shape}")
        difference = value.astype(np.float64) - target.astype(np.float64)
        return norm(difference) / max(norm(target), floor)

    return max(map(distance, outputs, expected))


def norm(array):
    return float(np.sqrt(np.square(array.astype(np.float64)).sum()))


class Module:
    """What `peers` calls a case."""

    def __init__(self, path, cores, directory):
        self.name = hlo_modules.name_of(path)
        self.model, self.cores = path, cores
        self.inputs = directory / "inputs.npz"
        rng = np.random.default_rng(0)
        given = parameters(hlo_modules.read(path))
        np.savez(self.inputs, **{f"arg{i}": random_array(rng, *p) for i, p in enumerate(given)})
        self.outputs = 0

    def output_names(self):
        return [f"out{i}" for i in range(self.outputs)]


def measure(path, options, cores):
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        module = Module(path, cores, directory)
        xla = Peer("xla", options, module, directory)
        try:
            expected = xla.outputs()
            module.outputs = len(expected)
            (directory / "weft").mkdir()
            weft = Weft(options, module, directory / "weft", None)
            worst = apart(weft.outputs(), expected)
            turns = {weft: [], xla: []}
            for turn in range(options.rounds):
                for engine in (weft, xla) if turn % 2 else (xla, weft):
                    turns[engine].append(engine.turn(options.seconds)["median_ms"])
        finally:
            xla.close()
    ours, theirs = (statistics.median(turns[engine]) for engine in (weft, xla))
    return {"module": module.name, "weft_ms": ours, "xla_ms": theirs, "ratio": theirs / ours, "apart": worst}


HEADING = """# weft beside XLA on HLO modules, {threads} threads of {processor}

By `bench/xla_peers.py` (JAX {version}): ms of a run, medians of {rounds} alternating turns; `apart` is the distance of the
worst output.

| module | weft ms | XLA ms | weft over XLA | apart |
|---|---|---|---|---|
"""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--weft", default=str(ROOT / "build/release/weft"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.plan, options.processor_time = None, False
    paths = hlo_modules.paths()
    if options.modules:
        by_name = {hlo_modules.name_of(path): path for path in paths}
        paths = [by_name.get(name) or Path(name) for name in options.modules]
    cores = set(sorted(os.sched_getaffinity(0))[: options.threads])
    lines, ratios = [], []
    for path in paths:
        try:
            row = measure(path, options, cores)
        except Failed as failure:
            lines.append(f"| {hlo_modules.name_of(path)} | {failure} | | | |")
        else:
            ratios.append(row["ratio"])
            lines.append("| {module} | {weft_ms:.4g} | {xla_ms:.4g} | {ratio:.2f}x | {apart:.1e} |".format(**row))
        print(lines[-1], file=sys.stderr, flush=True)
    import jax

    text = HEADING.format(version=jax.__version__, processor=processor(), **vars(options))
    text += "\n".join(lines) + "\n"
    if ratios:
        text += f"\nGeometric mean {geometric_mean(ratios):.2f}x over {len(ratios)} modules, least {min(ratios):.2f}x.\n"
    hlo_modules.put(text, options.out)


if __name__ == "__main__":
    main()

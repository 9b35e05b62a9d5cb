"""Times operations without a kernel (sorts, scatters, running sums) beside onnxruntime.

    bench/operations [CASE...] [--threads 2] [--turns 3] [--before WEFT]

Each is a model of one operator. What weft computes is compared with numpy first. Each turn runs
every engine after the other; figures are least medians over turns, in milliseconds. `--before`
times another build of weft, too.
"""

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
WEFT = ROOT / "build/release/weft"
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
random = np.random.default_rng(0)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def indices(below, *shape):
    return random.integers(0, below, shape)


class Operation:
    """A model of these nodes; `expected` gives its outputs."""

    def __init__(self, inputs, nodes, outputs, expected, constants=None):
        self.inputs, self.nodes, self.outputs, self.expected = inputs, nodes, outputs, expected
        self.constants = constants or {}

    def write(self, folder, name):
        def declared(names, values):
            return [
                helper.make_tensor_value_info(n, TYPES[str(v.dtype)], v.shape)
                for n, v in zip(names, values)
            ]

        results = self.expected(**self.inputs)
        graph = helper.make_graph(
            self.nodes,
            name,
            declared(self.inputs, self.inputs.values()),
            declared(self.outputs, results),
            [numpy_helper.from_array(v, n) for n, v in self.constants.items()],
        )
        path = folder / f"{name}.onnx"
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
            path,
        )
        np.savez(folder / f"{name}.npz", **self.inputs)
        np.savez(folder / f"{name}.expected.npz", **dict(zip(self.outputs, results)))
        return path


def scatter(data, index, updates, combine=None, elements=None, expand=False):
    def expected(d, i, u):
        y = d.astype(np.float64)
        if elements is None and not expand:
            at = tuple(i[..., k] for k in range(i.shape[-1]))
        else:
            at = list(np.indices(u.shape, sparse=True))
            at[elements] = i
            at = tuple(at)
        if combine:
            getattr(np, combine).at(y, at, u)
        else:
            for k in range(len(u)):  # the last of equal places wins
                y[tuple(a[k] if a.shape[0] > 1 else a[0] for a in at)] = u[k]
        return [y.astype(np.float32)]

    attributes = {"reduction": {"add": "add", "maximum": "max"}[combine]} if combine else {}
    nodes = []
    if expand:
        nodes.append(helper.make_node("Expand", ["i", "shape"], ["all"]))
    if elements is None:
        nodes.append(helper.make_node("ScatterND", ["d", "i", "u"], ["y"], **attributes))
    else:
        inputs = ["d", "all" if expand else "i", "u"]
        nodes.append(
            helper.make_node("ScatterElements", inputs, ["y"], axis=elements, **attributes)
        )
    constants = {"shape": np.array(updates.shape)} if expand else {}
    return Operation({"d": data, "i": index, "u": updates}, nodes, ["y"], expected, constants)


def top_k(x, k, axis=-1):
    def expected(x):
        order = np.take(np.argsort(-x, axis=axis, kind="stable"), np.arange(k), axis=axis)
        return [np.take_along_axis(x, order, axis), order]

    nodes = [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis)]
    return Operation({"x": x}, nodes, ["v", "i"], expected, {"k": np.array([k])})


def running_sum(x, axis):
    def expected(x):
        return [np.cumsum(x.astype(np.float64), axis).astype(np.float32)]

    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    return Operation({"x": x}, nodes, ["y"], expected, {"axis": np.array(axis)})


CASES = {
    "sort 256x1000": lambda: top_k(floats(256, 1000), 1000),
    "sort 100000": lambda: top_k(floats(100000), 100000),
    "sort 1000x64 along columns": lambda: top_k(floats(1000, 64), 1000, axis=0),
    "top 5 of 256x1000": lambda: top_k(floats(256, 1000), 5),
    "top 2 of 2048x8": lambda: top_k(floats(2048, 8), 2),
    "top 50 of 8x50000": lambda: top_k(floats(8, 50000), 50),
    "top 300 of 8400": lambda: top_k(floats(8400), 300),
    "top 1000 of 100000": lambda: top_k(floats(100000), 1000),
    "top 10 of 8x80x400 along the second": lambda: top_k(floats(8, 80, 400), 10, axis=1),
    "add 10000 rows of 64 to 2000": lambda: scatter(
        floats(2000, 64), indices(2000, 10000, 1), floats(10000, 64), "add"
    ),
    "maxima of 10000 rows of 64 in 2000": lambda: scatter(
        floats(2000, 64), indices(2000, 10000, 1), floats(10000, 64), "maximum"
    ),
    "add 10000 rows, an index an element": lambda: scatter(
        floats(2000, 64), indices(2000, 10000, 1), floats(10000, 64), "add", elements=0, expand=True
    ),
    "add 4096 rows of 128 to 50000": lambda: scatter(
        floats(50000, 128), indices(50000, 4096, 1), floats(4096, 128), "add"
    ),
    "add 100000 numbers to 2000": lambda: scatter(
        floats(2000), indices(2000, 100000, 1), floats(100000), "add"
    ),
    "add 3000x128 along the first of 1000": lambda: scatter(
        floats(1000, 128), indices(1000, 3000, 128), floats(3000, 128), "add", elements=0
    ),
    "put 256x300 along the second of 1000": lambda: scatter(
        floats(256, 1000),
        np.argsort(floats(256, 1000))[:, :300].copy(),
        floats(256, 300),
        elements=1,
    ),
    "sums along 256x4000": lambda: running_sum(floats(256, 4000), 1),
    "sums down 4000x256": lambda: running_sum(floats(4000, 256), 0),
    "sums along the second of 8x500x64": lambda: running_sum(floats(8, 500, 64), 1),
    "sums along 1000000": lambda: running_sum(floats(1000000), 0),
}


def with_weft(weft, path, threads):
    def run():
        inputs = path.with_suffix(".npz")
        command = [weft, "bench", path, "--inputs", inputs, "--threads", str(threads), "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)[
            "median_ms"
        ]

    return run


def with_onnxruntime(path, inputs, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run():
        times, end = [], time.perf_counter() + 0.3
        while time.perf_counter() < end:
            start = time.perf_counter()
            session.run(None, inputs)
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3

    return run


def check(path, threads):
    command = [WEFT, "run", path, "--inputs", path.with_suffix(".npz"), "--threads", str(threads)]
    subprocess.run(
        [
            *command,
            "--expect",
            path.with_suffix(".expected.npz"),
            "--rtol",
            "1e-5",
            "--atol",
            "1e-5",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--before", metavar="WEFT", help="another build")
    arguments = parser.parse_args()
    folder = ROOT / "build/operations"
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["weft", *(["before"] if arguments.before else []), "onnxruntime"]
    print(f"| operation | {' | '.join(columns)} | speed |\n|---|{'---|' * (len(columns) + 1)}")
    speeds = []
    for number, name in enumerate(arguments.cases):
        operation = CASES[name]()
        path = operation.write(folder, f"operation{number}")
        check(path, arguments.threads)
        engines = [with_weft(WEFT, path, arguments.threads)]
        if arguments.before:
            engines.append(with_weft(arguments.before, path, arguments.threads))
        engines.append(with_onnxruntime(path, operation.inputs, arguments.threads))
        turns = [[engine() for engine in engines] for _ in range(arguments.turns)]
        best = [min(times) for times in zip(*turns)]
        speeds.append(best[-1] / best[0])
        print(
            f"| {name} | {' | '.join(f'{ms:.4g}' for ms in best)} | {speeds[-1]:.2f}x |", flush=True
        )
    print(f"\ngeometric mean {statistics.geometric_mean(speeds):.2f}x")


if __name__ == "__main__":
    main()

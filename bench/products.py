"""Times single products and convolutions in float32, bfloat16 and bytes: weft's and its peers'.

    bench/products [CASE...] [--threads 2] [--turns 5] [--target x86-64-v3]

Cases are products 128x768x3072 and 1x768x3072 with a bias, and convolutions of ResNet-50, 3x3 of 128 channels at
28x28 and 1x1 of 256 to 1024 channels at 14x14; of the latter also four with their relu one after another (to 1024 and
back, twice), as they stand in a model, where the ends weigh less. In bytes a model is QuantizeLinear and DequantizeLinear around the
operator, as onnxruntime's quantiser writes it: activations u8 per tensor, weights i8 per channel.

Each turn runs every engine after the other; figures are minima over turns, in milliseconds. "ratio" is weft's float32
over the column. onnxruntime and OpenVINO have as many threads, spinning as they do by default; OpenVINO's float32 has
its hint for that precision. `--target` times weft's code for another processor, alone.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
WEFT = ROOT / "build/release/weft"


class Products:
    """One operator behind the other, each with a bias, all but a single one with relu."""

    def __init__(self, shape, *weights, **attributes):
        self.shape, self.weights, self.attributes = shape, weights, attributes

    def columns(self, weights):
        return weights[0] if self.attributes else weights[1]


CASES = {
    "128x768x3072": Products((128, 768), (768, 3072)),
    "1x768x3072": Products((1, 768), (768, 3072)),
    "conv 3x3 128": Products((1, 128, 28, 28), (128, 128, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "conv 1x1 256-1024": Products((1, 256, 14, 14), (1024, 256, 1, 1), kernel_shape=[1, 1]),
    "four conv 1x1 256-1024-256": Products(
        (1, 256, 14, 14), *[(1024, 256, 1, 1), (256, 1024, 1, 1)] * 2, kernel_shape=[1, 1]
    ),
}


def model_of(case, quantised, path):
    random = np.random.default_rng(0)
    nodes, constants = [], []

    def add(op, inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return f"v{len(nodes) - 1}"

    def constant(value):
        constants.append(numpy_helper.from_array(value, f"c{len(constants)}"))
        return f"c{len(constants) - 1}"

    def through_bytes(x, scale):
        by = [constant(np.float32(scale)), constant(np.uint8(128))]
        return add("DequantizeLinear", [add("QuantizeLinear", [x, *by]), *by])

    def weights_of(shape, columns):
        if not quantised:
            return constant(random.standard_normal(shape).astype(np.float32) / 30)
        q = random.integers(-127, 128, shape).astype(np.int8)
        scales = (random.random(columns).astype(np.float32) + 0.5) / 3000
        zeros = np.zeros(columns, np.int8)
        return add("DequantizeLinear", [constant(q), constant(scales), constant(zeros)], axis=0 if convolves else 1)

    convolves = bool(case.attributes)
    y = through_bytes("x", 0.03) if quantised else "x"
    for shape in case.weights:
        columns = case.columns(shape)
        w = weights_of(shape, columns)
        bias = constant(random.standard_normal(columns).astype(np.float32))
        if convolves:
            y = add("Conv", [y, w, bias], **case.attributes)
        else:
            y = add("Add", [add("MatMul", [y, w]), bias])
        if len(case.weights) > 1:
            y = add("Relu", [y])
        if quantised:
            y = through_bytes(y, 0.05)
    shape = [1, columns, *case.shape[2:]] if convolves else [case.shape[0], columns]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, case.shape)],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, shape)],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)


def weft(path, threads, options=()):
    def run():
        command = [WEFT, "bench", path, "--threads", str(threads), "--json", *options]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["min_ms"]

    return run


def least(call, seconds=0.5):
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def with_onnxruntime(path, shape, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    return lambda: least(lambda: session.run(None, {"x": x}))


def with_openvino(path, shape, threads, precision):
    core = openvino.Core()
    hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(str(path), "CPU", hints).create_infer_request()
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    return lambda: least(lambda: request.infer({0: x}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--target")
    arguments = parser.parse_args()
    names = None
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.cases:
            case, threads = CASES[name], arguments.threads
            plain, bytes_ = Path(folder) / "float.onnx", Path(folder) / "bytes.onnx"
            model_of(case, False, plain)
            model_of(case, True, bytes_)
            own = ["--target", arguments.target] if arguments.target else []
            engines = {"weft f32": weft(plain, threads, own), "weft int8": weft(bytes_, threads, own)}
            if not own:
                engines["weft bf16"] = weft(plain, threads, ["--precision", "bf16"])
                engines["ort f32"] = with_onnxruntime(plain, case.shape, threads)
                engines["ort int8"] = with_onnxruntime(bytes_, case.shape, threads)
                engines["ov f32"] = with_openvino(plain, case.shape, threads, "f32")
                engines["ov bf16"] = with_openvino(plain, case.shape, threads, "bf16")
                engines["ov int8"] = with_openvino(bytes_, case.shape, threads, "f32")
            if names is None:
                names = list(engines)
                print("| case | " + " | ".join(names) + " | int8 ratio | bf16 ratio |")
                print("|---" * (len(names) + 3) + "|")
            best = dict.fromkeys(engines, float("inf"))
            for _ in range(arguments.turns):
                for engine, run in engines.items():
                    best[engine] = min(best[engine], run())
            ratios = [f"{best['weft f32'] / best[e]:.2f}" if e in best else "" for e in ("weft int8", "weft bf16")]
            row = [name, *(f"{ms:.3g}" for ms in best.values()), *ratios]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()

"""Packs what scripts/gpu runs on a machine with a GPU into one folder of at most 64 MiB.

    gpu_kit.py --weft PATH -o FOLDER [--targets h100-sxm,a100-40gb]

    FOLDER/run            runs everything and writes results.json (bench/gpu_run.py: Python alone)
    FOLDER/bin/weft       the command with everything but the C library inside
    FOLDER/models/        reduced models with inputs, expected outputs and artefacts (NAME.weft)
    FOLDER/rows/          softmax, layer norm and RMS norm at full size, with artefacts
    FOLDER/lib/           NVRTC, with --nvrtc

Artefacts hold code for each target, so that the machine needs NVIDIA's driver and nothing else. A
machine of another architecture needs NVRTC: a toolkit, a package of PyTorch, or --nvrtc.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
REDUCED = ROOT / "tests/models"
LIMIT = 64 << 20
SIZES = [(4096, 1024), (8192, 2048), (8192, 4096), (16384, 8192)]


def row_nodes(kind):
    """(nodes, weights) of y = kind(x) along the last axis."""
    if kind == "softmax":
        return [helper.make_node("Softmax", ["x"], ["y"], axis=-1)], []
    if kind == "layernorm":
        nodes = [helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1)]
        return nodes, ["g", "b"]
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["xx"]),
        helper.make_node("ReduceMean", ["xx", "last"], ["m"], keepdims=1),
        helper.make_node("Add", ["m", "eps"], ["v"]),
        helper.make_node("Sqrt", ["v"], ["s"]),
        helper.make_node("Div", ["x", "s"], ["n"]),
        helper.make_node("Mul", ["n", "g"], ["y"]),
    ]
    return nodes, ["g"]


def row_model(kind, rows, columns, dtype):
    nodes, weights = row_nodes(kind)
    values = {name: [1.0 if name == "g" else 0.0] * columns for name in weights}
    tensors = [helper.make_tensor(n, dtype, [columns], v) for n, v in values.items()]
    if kind == "rmsnorm":
        tensors.append(helper.make_tensor("eps", dtype, [], [1e-5]))
        tensors.append(helper.make_tensor("last", TensorProto.INT64, [1], [-1]))
    shape = [rows, columns]
    graph = helper.make_graph(
        nodes,
        kind,
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, shape)],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def compile_artefact(weft, model, artefact, targets, inputs=None):
    words = [weft, "compile", model, "--target", targets, "--no-cache", "-o", artefact]
    if inputs is not None:
        words += ["--inputs", inputs]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        print(f"{model}: no artefact: {done.stderr.strip()}", file=sys.stderr)


def pack_reduced(options, folder):
    folder.mkdir(parents=True)
    for model in sorted(REDUCED.glob("*.onnx")):
        for suffix in ("onnx", "inputs.npz", "expected.npz"):
            shutil.copy(REDUCED / f"{model.stem}.{suffix}", folder)
        inputs = folder / f"{model.stem}.inputs.npz"
        compile_artefact(
            options.weft, model, folder / f"{model.stem}.weft", options.targets, inputs
        )


def pack_rows(options, folder):
    folder.mkdir(parents=True)
    for name, dtype in (("f32", TensorProto.FLOAT), ("f16", TensorProto.FLOAT16)):
        for kind in ("softmax", "layernorm", "rmsnorm"):
            for rows, columns in SIZES:
                path = folder / f"{kind}-{rows}x{columns}-{name}.onnx"
                onnx.save(row_model(kind, rows, columns, dtype), path)
                compile_artefact(options.weft, path, path.with_suffix(".weft"), options.targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--targets", default="h100-sxm,a100-40gb")
    parser.add_argument("--nvrtc", type=Path, help="folder of libnvrtc.so.* to carry too")
    options = parser.parse_args()
    shutil.rmtree(options.output, ignore_errors=True)
    (options.output / "bin").mkdir(parents=True)
    shutil.copy(options.weft, options.output / "bin/weft")
    shutil.copy(ROOT / "bench/gpu_run.py", options.output / "run")
    (options.output / "run").chmod(0o755)
    pack_reduced(options, options.output / "models")
    pack_rows(options, options.output / "rows")
    if options.nvrtc is not None:
        (options.output / "lib").mkdir()
        for file in options.nvrtc.glob("libnvrtc*.so.*"):
            if ".alt." not in file.name:
                shutil.copy(file, options.output / "lib")
    size = sum(p.stat().st_size for p in options.output.rglob("*") if p.is_file())
    print(f"{options.output}: {size / 2**20:.1f} MiB", file=sys.stderr)
    if size > LIMIT and options.nvrtc is None:
        return f"the kit is larger than {LIMIT >> 20} MiB"
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Pages that the command writes, and a browser to look at them."""

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from browser import Browser
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]


def weft(*arguments: object) -> bytes:
    """Chains of products with one weight stay written out."""
    command = [os.environ["WEFT_COMMAND"], *map(str, arguments), "--no-cache", "--unroll"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def explain(model: Path, page: Path, *options: str) -> Path:
    weft("explain", model, "--html", page, *options)
    return page


def write_chain(path: Path, names: list[str], producer: str = "test") -> Path:
    """A chain of products, each with a tanh; node i is called names[i]."""
    nodes = []
    for i, name in enumerate(names):
        op = ["Tanh", "MatMul"][i % 2]
        weights = ["w"] if op == "MatMul" else []
        nodes.append(helper.make_node(op, [f"x{i}", *weights], [f"x{i + 1}"], name=name))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g",
        [value("x0", TensorProto.FLOAT, [4, 8]), value("w", TensorProto.FLOAT, [8, 8])],
        [value(f"x{len(names)}", TensorProto.FLOAT, [4, 8])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 10
    onnx.save(model, path)
    return path


@pytest.fixture(scope="session")
def browser():
    with Browser() as opened:
        yield opened


def explain_case(name: str, folder: Path) -> Path:
    """Of a model whose weights models/materialize.py draws."""
    model = ROOT / f"build/models/{name}.onnx"
    if not model.exists():
        subprocess.run([sys.executable, ROOT / "models/materialize.py", name], check=True)
    return explain(model, folder / "page.html", "--target", "x86-64-v4")  # the same everywhere


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return explain_case("bert-base-s128", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def softmax(tmp_path_factory):
    return explain_case("softmax-4096x1024", tmp_path_factory.mktemp("softmax"))

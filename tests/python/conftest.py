"""Small models, as files."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper


def model_of(nodes, inputs, outputs, initializers=()):
    """An ONNX model; inputs and outputs are (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        list(initializers),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 10
    return model


@pytest.fixture
def add_model():
    """z = x + y, s = sum of z; floats [N, 3]."""
    return model_of(
        [
            helper.make_node("Add", ["x", "y"], ["z"]),
            helper.make_node("ReduceSum", ["z"], ["s"], keepdims=0),
        ],
        [("x", TensorProto.FLOAT, ["N", 3]), ("y", TensorProto.FLOAT, ["N", 3])],
        [("z", TensorProto.FLOAT, ["N", 3]), ("s", TensorProto.FLOAT, [])],
    )


@pytest.fixture
def dense_model():
    """y = softmax(x w + b); x: float [2, 4]."""
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((4, 5), np.float32), rng.standard_normal(5, np.float32)
    return model_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Add", ["h", "b"], ["g"]),
            helper.make_node("Softmax", ["g"], ["y"], axis=-1),
        ],
        [("x", TensorProto.FLOAT, [2, 4])],
        [("y", TensorProto.FLOAT, [2, 5])],
        [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(b, "b")],
    )


@pytest.fixture
def path_of(tmp_path):
    """Writes a model into a file."""

    def write(model, name="m.onnx"):
        onnx.save(model, tmp_path / name)
        return tmp_path / name

    return write

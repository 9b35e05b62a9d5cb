"""A float32 model with its arithmetic in float16: every float32 type, weight and constant of it.

    half.py MODEL.onnx OUT.onnx

Inputs and outputs become float16 too. Values beyond float16's range are clamped into it, so that a
mask of -3e38 stays the lowest number there is.
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def half_tensor(tensor):
    if tensor.data_type != FLOAT:
        return
    limit = float(np.finfo(np.float16).max)
    values = np.clip(numpy_helper.to_array(tensor), -limit, limit).astype(np.float16)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def half_type(info):
    if info.type.tensor_type.elem_type == FLOAT:
        info.type.tensor_type.elem_type = HALF


def half_graph(graph):
    for tensor in graph.initializer:
        half_tensor(tensor)
    for info in [*graph.input, *graph.output, *graph.value_info]:
        half_type(info)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                half_tensor(attribute.t)
            elif attribute.type == onnx.AttributeProto.GRAPH:
                half_graph(attribute.g)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                attribute.i = HALF
        if node.op_type == "ConstantOfShape" and not node.attribute:
            raise SystemExit("ConstantOfShape without a value is float32")


def main():
    model = onnx.load(sys.argv[1])
    half_graph(model.graph)
    onnx.save(model, sys.argv[2])


if __name__ == "__main__":
    main()

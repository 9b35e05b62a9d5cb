"""The values that a model has in float64: what float32 engines are judged by where they disagree."""

import functools

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator


def wide_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        values = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def wide_type(value):
    if value.type.tensor_type.elem_type == TensorProto.FLOAT:
        value.type.tensor_type.elem_type = TensorProto.DOUBLE


def wide_node(node):
    for attribute in node.attribute:
        wide_tensor(attribute.t)
        for graph in [attribute.g, *attribute.graphs]:
            wide_graph(graph)
        # Cast says it as `to`, the makers of constants and random numbers as `dtype`.
        if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            values = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            tensor = numpy_helper.from_array(np.array(values, np.float64))
            attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def wide_graph(graph):
    for tensor in graph.initializer:
        wide_tensor(tensor)
    for value in [*graph.input, *graph.output]:
        wide_type(value)
    del graph.value_info[:]
    for node in graph.node:
        wide_node(node)


def as_float64(path):
    """The model with every float32 in it made float64, exactly."""
    model = onnx.load(path)
    wide_graph(model.graph)
    return model


def wide_inputs(inputs):
    arrays = dict(np.load(inputs))
    return {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in arrays.items()}


@functools.cache
def float64_outputs(path, inputs):
    """The outputs by onnx's reference evaluator, in the model's order."""
    return ReferenceEvaluator(as_float64(path)).run(None, wide_inputs(inputs))

"""Writes ONNX models in a few lines: each operator is a method that takes values or arrays."""

import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Net:
    """A graph in the making. Random numbers follow from its name.

    net = Net("mlp")
    x = net.input("x", 4, 8)
    y = net.Relu(net.MatMul(x, net.weight(8, 3)))
    net.output("y", y)
    """

    def __init__(self, name, opset=17):
        self.name, self.opset = name, opset
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.inputs, self.outputs, self.nodes, self.initializers = [], [], [], []
        self.samples = {}  # a value for each input

    def input(self, name, *shape, symbols=None, sample=None):
        """An input; `symbols` {axis: name} leaves dimensions open, `sample` sets its value."""
        if sample is None:
            sample = self.rng.standard_normal(shape)
        sample = np.asarray(sample)
        if sample.dtype == np.float64:
            sample = sample.astype(np.float32)
        self.samples[name] = sample
        dims = [(symbols or {}).get(axis, extent) for axis, extent in enumerate(sample.shape)]
        dtype = helper.np_dtype_to_tensor_dtype(sample.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def ids(self, name, bound, *shape, **options):
        return self.input(name, sample=self.rng.integers(0, bound, shape), **options)

    def weight(self, *shape, mean=0.0, std=None, dtype=np.float32):
        """Random numbers, by default of a spread that keeps a contraction's results near one."""
        if std is None:
            std = 1 / np.sqrt(max(1, np.prod(shape) // max(shape)))
        return (mean + std * self.rng.standard_normal(shape)).astype(dtype)

    def output(self, name, value):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_empty_tensor_value_info(name))

    def value(self, operand):
        """A value's name; an array or a number (float32 or int64) becomes an initializer."""
        if operand is None:
            return ""
        if isinstance(operand, str):
            return operand
        array = np.asarray(operand)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"constant{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def __getattr__(self, op):
        def add(*operands, results=1, domain="", **attributes):
            index = len(self.nodes)
            names = [f"{op.lower()}{index}" + (f"_{i}" if i else "") for i in range(results)]
            inputs = [self.value(operand) for operand in operands]
            self.nodes.append(
                helper.make_node(op, inputs, names, f"{op}_{index}", domain=domain, **attributes)
            )
            return names[0] if results == 1 else names

        if not op[0].isupper():
            raise AttributeError(op)
        return add

    def model(self):
        graph = helper.make_graph(
            self.nodes, self.name, self.inputs, self.outputs, self.initializers
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=8,
            producer_name="weft models/reduced.py",
        )
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        del model.graph.value_info[:]
        onnx.checker.check_model(model, full_check=True)
        return model

"""Small models of the families that weft is for, with weights: what the fast tests run.

    build/venv/bin/python models/reduced.py [NAME...]

writes tests/models/NAME.onnx, NAME.inputs.npz and NAME.expected.npz (what onnxruntime computes,
unoptimised). Extents avoid multiples of vector widths. Patterns come in every spelling that
exporters use, each between elementwise neighbours.
"""

import math
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from net import Net

OUTPUT = Path(__file__).resolve().parent.parent / "tests" / "models"
FLOAT = onnx.TensorProto.FLOAT
MODELS = {}


def model(*names):
    """Registers build(net) as the model of its name, or build(net, name) as several."""

    def register(build):
        for name in names or (build.__name__.replace("_", "-"),):
            MODELS[name] = lambda name=name: build_model(build, name, bool(names))
        return build

    return register


def build_model(build, name, named):
    net = Net(name)
    build(net, name) if named else build(net)
    return net


# Pieces.


def linear(net, x, fan_in, fan_out):
    return net.Add(net.MatMul(x, net.weight(fan_in, fan_out)), net.weight(fan_out, std=0.1))


def layer_norm(net, x, width):
    """The primitives that exporters before opset 17 wrote."""
    centred = net.Sub(x, net.ReduceMean(x, axes=[-1]))
    variance = net.ReduceMean(net.Pow(centred, 2.0), axes=[-1])
    normal = net.Div(centred, net.Sqrt(net.Add(variance, 1e-5)))
    return net.Add(net.Mul(normal, net.weight(width, mean=1, std=0.1)), net.weight(width, std=0.1))


def gelu_erf(net, x):
    return net.Mul(net.Mul(x, net.Add(net.Erf(net.Div(x, math.sqrt(2))), 1.0)), 0.5)


def gelu_tanh(net, x):
    inner = net.Mul(net.Add(x, net.Mul(net.Pow(x, 3.0), 0.044715)), math.sqrt(2 / math.pi))
    return net.Mul(net.Mul(x, 0.5), net.Add(net.Tanh(inner), 1.0))


def heads(net, x, count, size):
    """[b, length, count * size] -> [b, count, length, size]"""
    return net.Transpose(net.Reshape(x, [0, -1, count, size]), perm=[0, 2, 1, 3])


def merge(net, x, width):
    """[b, count, length, size] -> [b, length, count * size]"""
    return net.Reshape(net.Transpose(x, perm=[0, 2, 1, 3]), [0, -1, width])


def attend(net, q, k, v, size, mask=None):
    scores = net.Div(net.MatMul(q, net.Transpose(k, perm=[0, 1, 3, 2])), math.sqrt(size))
    if mask is not None:
        scores = net.Add(scores, mask)
    return net.MatMul(net.Softmax(scores, axis=-1), v)


def conv(net, x, channels_in, channels_out, window, groups=1, **attributes):
    pad = window // 2
    weight = net.weight(channels_out, channels_in // groups, window, window)
    return net.Conv(
        x,
        weight,
        net.weight(channels_out, std=0.1),
        group=groups,
        kernel_shape=[window, window],
        pads=attributes.pop("pads", [pad] * 4),
        **attributes,
    )


def batch_norm(net, x, channels):
    return net.BatchNormalization(
        x,
        net.weight(channels, mean=1, std=0.1),
        net.weight(channels, std=0.1),
        net.weight(channels, std=0.1),
        np.abs(net.weight(channels, mean=1, std=0.1)),
    )


# Whole networks, cut down.


@model()
def mlp(net):
    x = net.input("x", 5, 13)
    hidden = net.Relu(net.Gemm(x, net.weight(37, 13), net.weight(37, std=0.1), transB=1))
    hidden = net.Tanh(net.Gemm(hidden, net.weight(37, 21), alpha=0.5))
    net.output("y", net.Softmax(linear(net, hidden, 21, 7), axis=-1))


@model()
def mlp_dynamic(net):
    x = net.input("x", 3, 4, 13, symbols={0: "batch", 1: "length"})
    shape = net.Shape(x)
    rows = net.Mul(net.Gather(shape, [0]), net.Gather(shape, [1]))
    flat = net.Reshape(x, net.Concat(rows, np.array([13]), axis=0))
    y = net.Relu(linear(net, flat, 13, 10))
    net.output("y", net.Reshape(y, net.Concat(net.Slice(shape, [0], [2]), np.array([10]), axis=0)))


@model()
def mlp_f16(net):
    x = net.input("x", sample=net.rng.standard_normal((5, 24)).astype(np.float16))
    hidden = net.Relu(
        net.Add(
            net.MatMul(x, net.weight(24, 20, dtype=np.float16)), net.weight(20, dtype=np.float16)
        )
    )
    net.output("y", net.MatMul(hidden, net.weight(20, 7, dtype=np.float16)))


def encoder(
    net, symbols=None, width=40, count=4, vocabulary=50, layers=2, lengths=(11, 7), inner=2
):
    batch, longest = len(lengths), max(lengths)
    ids = net.ids("input_ids", vocabulary, batch, longest, symbols=symbols)
    segments = net.ids("token_type_ids", 2, batch, longest, symbols=symbols)
    kept = np.arange(longest) < np.array(lengths)[:, None]
    mask = net.input("attention_mask", sample=kept, symbols=symbols)
    position = net.Slice(
        net.weight(1, max(16, longest), width, std=0.5), [0], net.Gather(net.Shape(ids), [1]), [1]
    )
    tokens = net.Gather(net.weight(vocabulary, width, std=0.5), ids)
    x = net.Add(net.Add(tokens, net.Gather(net.weight(2, width, std=0.5), segments)), position)
    x = layer_norm(net, x, width)
    keep = net.Cast(net.Unsqueeze(mask, [1, 2]), to=FLOAT)
    bias = net.Mul(net.Sub(1.0, keep), -10000.0)
    for _ in range(layers):
        q, k, v = (
            heads(net, linear(net, x, width, width), count, width // count) for _ in range(3)
        )
        mixed = merge(net, attend(net, q, k, v, width // count, bias), width)
        x = layer_norm(net, net.Add(linear(net, mixed, width, width), x), width)
        hidden = gelu_erf(net, linear(net, x, width, inner * width))
        x = layer_norm(net, net.Add(linear(net, hidden, inner * width, width), x), width)
    net.output("hidden", x)
    net.output("pooled", net.Tanh(linear(net, net.Gather(x, 0, axis=1), width, width)))


@model()
def bert(net):
    encoder(net)


@model()
def bert_dynamic(net):
    encoder(net, symbols={0: "batch", 1: "sequence"})


def decoder(net, length, past, width=40, count=4, vocabulary=50, layers=2):
    """GPT-2: tanh GELU, causal mask from iota, keys and values in and out."""
    size = width // count
    ids = net.ids("ids", vocabulary, 1, length)
    positions = np.arange(past, past + length)[None]
    table = net.weight(vocabulary, width, std=0.5)
    x = net.Add(net.Gather(table, ids), net.Gather(net.weight(64, width, std=0.5), positions))
    rows = np.arange(past, past + length)[:, None]
    visible = net.LessOrEqual(net.Unsqueeze(net.Range(0, past + length, 1), [0]), rows)
    for layer in range(layers):
        normal = net.LayerNormalization(x, net.weight(width, mean=1, std=0.1), net.weight(width))
        q, k, v = net.Split(linear(net, normal, width, 3 * width), [width] * 3, results=3, axis=-1)
        q, k, v = (heads(net, part, count, size) for part in (q, k, v))
        if past:
            k = net.Concat(net.input(f"past_k{layer}", 1, count, past, size), k, axis=2)
            v = net.Concat(net.input(f"past_v{layer}", 1, count, past, size), v, axis=2)
            net.output(f"present_k{layer}", k)
            net.output(f"present_v{layer}", v)
        scores = net.Div(net.MatMul(q, net.Transpose(k, perm=[0, 1, 3, 2])), math.sqrt(size))
        weights = net.Softmax(net.Where(visible, scores, float(np.finfo(np.float32).min)), axis=-1)
        x = net.Add(x, linear(net, merge(net, net.MatMul(weights, v), width), width, width))
        normal = layer_norm(net, x, width)
        hidden = gelu_tanh(net, linear(net, normal, width, 2 * width))
        x = net.Add(x, linear(net, hidden, 2 * width, width))
    net.output("logits", net.MatMul(layer_norm(net, x, width), net.Transpose(table, perm=[1, 0])))


@model()
def gpt2_prefill(net):
    decoder(net, length=9, past=0)


@model()
def gpt2_decode(net):
    decoder(net, length=1, past=10)


def recurrent(net, op, x, fan_in, hidden, gates, directions, **attributes):
    """One recurrent layer; its outputs as (sequence, last states)."""
    name = {1: "forward", 2: "bidirectional"}[directions]
    results = 3 if op == "LSTM" else 2
    states = [net.input(f"{s}0", directions, 3, hidden) for s in "hc"[: results - 1]]
    return getattr(net, op)(
        x,
        net.weight(directions, gates * hidden, fan_in, std=0.2),
        net.weight(directions, gates * hidden, hidden, std=0.2),
        net.weight(directions, 2 * gates * hidden, std=0.1),
        None,
        *states,
        results=results,
        hidden_size=hidden,
        direction=name,
        **attributes,
    )


@model()
def lstm(net):
    y, h, c = recurrent(net, "LSTM", net.input("x", 6, 3, 10), 10, 12, 4, 2)
    sequence = net.Reshape(net.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
    for name, value in (("y", linear(net, sequence, 24, 5)), ("h", h), ("c", c)):
        net.output(name, value)


@model()
def lstm_stack(net):
    """Two layers of batch one, as in streaming: the states go round."""
    x = net.input("x", 9, 1, 20)
    for _layer in range(2):
        x = net.LSTM(
            x,
            net.weight(1, 80, 20, std=0.2),
            net.weight(1, 80, 20, std=0.2),
            net.weight(1, 160, std=0.1),
            hidden_size=20,
        )
        x = net.Squeeze(x, [1])
    net.output("y", x)


@model()
def gru(net):
    y, h = recurrent(net, "GRU", net.input("x", 6, 3, 10), 10, 12, 3, 1, linear_before_reset=1)
    net.output("y", net.Relu(net.Squeeze(y, [1])))
    net.output("h", h)


@model()
def rnn(net):
    y, h = recurrent(net, "RNN", net.input("x", 6, 3, 10), 10, 12, 1, 2)
    net.output("y", y)
    net.output("h", h)


@model()
def lstm_unrolled(net, hidden=12, steps=5):
    """Cells as primitives, their weights shared by the steps."""
    x = net.input("x", steps, 2, 10)
    h, c = net.input("h0", 2, hidden), net.input("c0", 2, hidden)
    w, u, b = (
        net.value(v)
        for v in (
            net.weight(10, 4 * hidden),
            net.weight(hidden, 4 * hidden),
            net.weight(4 * hidden),
        )
    )
    for t in range(steps):
        gates = net.Add(net.Add(net.MatMul(net.Gather(x, t, axis=0), w), net.MatMul(h, u)), b)
        i, f, g, o = net.Split(gates, results=4, axis=-1)
        c = net.Add(net.Mul(net.Sigmoid(f), c), net.Mul(net.Sigmoid(i), net.Tanh(g)))
        h = net.Mul(net.Sigmoid(o), net.Tanh(c))
    net.output("h", h)
    net.output("c", c)


@model()
def resnet(net):
    x = net.Relu(
        batch_norm(net, conv(net, net.input("x", 1, 3, 33, 33), 3, 12, 7, strides=[2, 2]), 12)
    )
    x = net.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inner = net.Relu(batch_norm(net, conv(net, x, 12, 12, 3), 12))
    x = net.Relu(net.Add(batch_norm(net, conv(net, inner, 12, 12, 3), 12), x))
    inner = net.Relu(batch_norm(net, conv(net, x, 12, 24, 3, strides=[2, 2]), 24))
    short = batch_norm(net, conv(net, x, 12, 24, 1, strides=[2, 2]), 24)
    x = net.Relu(net.Add(batch_norm(net, conv(net, inner, 24, 24, 3), 24), short))
    net.output(
        "y", net.Gemm(net.Flatten(net.GlobalAveragePool(x)), net.weight(24, 10), net.weight(10))
    )


@model()
def conv_se(net):
    """EfficientNet's block: expansion, depthwise, squeeze and excitation, projection, residual."""
    x = net.input("x", 2, 10, 14, 14)
    swish = lambda v: net.Mul(v, net.Sigmoid(v))
    y = swish(batch_norm(net, conv(net, x, 10, 30, 1), 30))
    y = swish(batch_norm(net, conv(net, y, 30, 30, 5, groups=30), 30))
    squeezed = net.ReduceMean(y, axes=[2, 3])
    gate = net.Sigmoid(conv(net, swish(conv(net, squeezed, 30, 4, 1)), 4, 30, 1))
    y = batch_norm(net, conv(net, net.Mul(gate, y), 30, 10, 1), 10)
    net.output("y", net.Add(y, x))


@model()
def conv_depthwise(net):
    """A MobileNet block with hard activations; windows, strides and dilations apart."""
    y = conv(net, net.input("x", 1, 9, 17, 15), 9, 20, 1)
    y = net.HardSwish(conv(net, y, 20, 20, 3, groups=20, strides=[2, 1]))
    y = net.Clip(conv(net, y, 20, 20, 3, groups=20, dilations=[2, 2], pads=[2, 2, 2, 2]), 0.0, 6.0)
    y = net.HardSigmoid(conv(net, y, 20, 20, 5, groups=20, pads=[2, 2, 1, 2]), alpha=0.2, beta=0.5)
    net.output("y", conv(net, y, 20, 11, 1))


@model()
def conv_grouped(net):
    y = net.LeakyRelu(conv(net, net.input("x", 2, 12, 9, 11), 12, 18, 3, groups=3), alpha=0.1)
    net.output("y", net.AveragePool(y, kernel_shape=[2, 3], strides=[2, 2]))


@model()
def text_detector(net):
    """A feature pyramid: resize, add, concatenate, transposed convolution."""
    x = net.Relu(
        conv(
            net,
            net.input("x", 1, 3, 16, 24, symbols={2: "height", 3: "width"}),
            3,
            8,
            3,
            strides=[2, 2],
        )
    )
    deep = net.Relu(conv(net, x, 8, 12, 3, strides=[2, 2]))
    up = net.Resize(
        conv(net, deep, 12, 8, 1),
        None,
        np.float32([1, 1, 2, 2]),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    x = net.Concat(net.Add(x, up), up, axis=1)
    net.output(
        "y",
        net.Sigmoid(net.ConvTranspose(x, net.weight(16, 1, 2, 2), net.weight(1), strides=[2, 2])),
    )


@model()
def crnn(net):
    """Text recognition: convolutions, columns as a sequence, a bidirectional LSTM."""
    x = net.Relu(conv(net, net.input("x", 2, 1, 16, 20), 1, 8, 3))
    x = net.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.Relu(batch_norm(net, conv(net, x, 8, 14, 3), 14))
    x = net.MaxPool(x, kernel_shape=[8, 1], strides=[8, 1])
    x = net.Transpose(net.Squeeze(x, [2]), perm=[2, 0, 1])
    y = net.LSTM(
        x,
        net.weight(2, 40, 14, std=0.3),
        net.weight(2, 40, 10, std=0.3),
        net.weight(2, 80, std=0.1),
        hidden_size=10,
        direction="bidirectional",
    )
    y = net.Reshape(net.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
    net.output("y", net.Softmax(linear(net, y, 20, 9), axis=2))


@model()
def vit(net, width=40, patch=4):
    """Patches by convolution, a class token in front, one layer."""
    x = conv(
        net,
        net.input("x", 1, 3, 12, 12),
        3,
        width,
        patch,
        strides=[patch, patch],
        pads=[0, 0, 0, 0],
    )
    x = net.Transpose(net.Reshape(x, [0, width, -1]), perm=[0, 2, 1])
    x = net.Add(net.Concat(net.weight(1, 1, width), x, axis=1), net.weight(1, 10, width))
    normal = net.LayerNormalization(
        x, net.weight(width, mean=1, std=0.1), net.weight(width), epsilon=1e-6
    )
    packed = net.Reshape(linear(net, normal, width, 3 * width), [1, 10, 3, 4, width // 4])
    q, k, v = (net.Gather(net.Transpose(packed, perm=[2, 0, 3, 1, 4]), i, axis=0) for i in range(3))
    x = net.Add(x, linear(net, merge(net, attend(net, q, k, v, width // 4), width), width, width))
    net.output("y", linear(net, net.Gather(x, 0, axis=1), width, 6))


@model()
def swin_block(net, width=24, side=8, window=4, count=3):
    """Shifted windows: roll by slices, partition by transposes, relative bias, region mask."""
    size, area, tiles = width // count, window * window, side // window
    x = net.input("x", 1, side, side, width)
    y = layer_norm(net, x, width)
    for axis in (1, 2):
        y = net.Concat(net.Slice(y, [2], [side], [axis]), net.Slice(y, [0], [2], [axis]), axis=axis)
    y = net.Transpose(
        net.Reshape(y, [1, tiles, window, tiles, window, width]), perm=[0, 1, 3, 2, 4, 5]
    )
    y = net.Reshape(y, [-1, area, width])
    q, k, v = (heads(net, linear(net, y, width, width), count, size) for _ in range(3))
    index = net.rng.integers(0, (2 * window - 1) ** 2, area * area)
    bias = net.Reshape(
        net.Gather(net.weight((2 * window - 1) ** 2, count), index), [area, area, count]
    )
    mask = np.where(net.rng.random((tiles * tiles, 1, area, area)) < 0.3, -100.0, 0.0)
    mask = net.Add(net.Unsqueeze(net.Transpose(bias, perm=[2, 0, 1]), [0]), mask)
    y = linear(net, merge(net, attend(net, q, k, v, size, mask), width), width, width)
    y = net.Reshape(y, [1, tiles, tiles, window, window, width])
    y = net.Reshape(net.Transpose(y, perm=[0, 1, 3, 2, 4, 5]), [1, side, side, width])
    for axis in (1, 2):
        y = net.Concat(
            net.Slice(y, [-2], [side], [axis]), net.Slice(y, [0], [-2], [axis]), axis=axis
        )
    net.output("y", net.Add(x, y))


@model()
def mmoe(net, experts=4, units=6):
    """Mixture of experts with a gate for each of two tasks."""
    x = net.input("x", 3, 17)
    each = net.Relu(
        net.Add(
            net.MatMul(net.Unsqueeze(x, [0]), net.weight(experts, 17, units)),
            net.weight(experts, 1, units),
        )
    )
    for task in range(2):
        gate = net.Softmax(net.MatMul(x, net.weight(17, experts)), axis=1)
        gate = net.Unsqueeze(net.Transpose(gate, perm=[1, 0]), [2])
        net.output(f"task{task}", net.ReduceSum(net.Mul(each, gate), [0], keepdims=0))


@model()
def recommender(net, steps=5, width=12):
    """DIEN in little: embeddings, GRU, attention over its states with a length mask."""
    table = net.value(net.weight(40, width, std=0.5))
    item, past = net.ids("item", 40, 3), net.ids("history", 40, 3, steps)
    lengths = net.input("lengths", sample=np.array([5, 2, 4]))
    target, history = net.Gather(table, item), net.Gather(table, past)
    y = net.GRU(
        net.Transpose(history, perm=[1, 0, 2]),
        net.weight(1, 3 * width, width, std=0.3),
        net.weight(1, 3 * width, width, std=0.3),
        net.weight(1, 6 * width, std=0.1),
        hidden_size=width,
    )
    states = net.Transpose(net.Squeeze(y, [1]), perm=[1, 0, 2])
    wide = net.Expand(net.Unsqueeze(target, [1]), [3, steps, width])
    pairs = net.Concat(states, wide, net.Sub(states, wide), net.Mul(states, wide), axis=-1)
    scores = net.Squeeze(linear(net, net.Sigmoid(linear(net, pairs, 4 * width, 8)), 8, 1), [2])
    inside = net.Less(np.arange(steps)[None], net.Unsqueeze(lengths, [1]))
    scores = net.Softmax(net.Where(inside, scores, -(2.0**31)), axis=1)
    interest = net.ReduceSum(net.Mul(states, net.Unsqueeze(scores, [2])), [1], keepdims=0)
    y = net.PRelu(linear(net, net.Concat(target, interest, axis=1), 2 * width, 10), net.weight(10))
    net.output("y", net.Sigmoid(linear(net, y, 10, 1)))


@model()
def if_folds(net):
    """An If whose condition is shape arithmetic, as in speech models: it must vanish."""
    x = net.input("x", 2, 6)
    condition = net.Equal(net.Gather(net.Shape(x), 1), 6)
    outputs = [onnx.helper.make_empty_tensor_value_info("taken")]
    branches = [
        onnx.helper.make_graph([onnx.helper.make_node(op, [x], ["taken"])], op, [], outputs)
        for op in ("Exp", "Neg")
    ]
    net.output("y", net.If(condition, then_branch=branches[0], else_branch=branches[1]))


@model()
def quantised(net):
    """QuantizeLinear and DequantizeLinear around a product, an integer product, a convolution."""
    x = net.input("x", 4, 12)
    sparse = net.DequantizeLinear(net.QuantizeLinear(x, 0.02, np.uint8(120)), 0.02, np.uint8(120))
    weight = net.rng.integers(-127, 128, (12, 9)).astype(np.int8)
    net.output("qdq", net.MatMul(sparse, net.DequantizeLinear(weight, 0.01, np.int8(0))))
    quantised_x, scale, zero = net.DynamicQuantizeLinear(x, results=3)
    product = net.Cast(net.MatMulInteger(quantised_x, weight, zero, np.int8(0)), to=FLOAT)
    net.output("dynamic", net.Mul(product, net.Mul(scale, 0.01)))
    image = net.QuantizeLinear(net.input("image", 1, 3, 7, 7), 0.03, np.uint8(128))
    window = net.rng.integers(-127, 128, (5, 3, 3, 3)).astype(np.int8)
    y = net.QLinearConv(
        image,
        0.03,
        np.uint8(128),
        window,
        0.005,
        np.int8(0),
        0.05,
        np.uint8(100),
        kernel_shape=[3, 3],
    )
    net.output("conv", net.DequantizeLinear(y, 0.05, np.uint8(100)))


@model()
def gemm_chain(net):
    a, b, d = net.input("a", 2, 33, 20), net.input("b", 2, 20, 41), net.input("d", 2, 41, 18)
    net.output("y", net.MatMul(net.MatMul(a, b), d))


@model()
def elementwise(net):
    x, y = net.input("x", 37, 50), net.input("y", 50)
    z = net.Mul(net.Add(x, y), net.Sigmoid(x))
    z = net.Div(net.Sub(z, 0.3), net.Add(net.Abs(y), 1.0))
    net.output("z", net.Max(net.Sqrt(net.Exp(net.Neg(z))), net.Log(net.Add(net.Softplus(x), 1.0))))


# Patterns in every spelling, each between elementwise neighbours.


def between(net, x, pattern, width):
    y = pattern(net.Add(x, net.weight(width, std=0.1)))
    net.output("y", net.Mul(net.Tanh(y), 1.5))


SOFTMAX = (
    "max-div",
    "max-reciprocal",
    "plain-div",
    "axis0",
    "log-primitives",
    "log",
    "operator",
    "commuted",
)


@model(*(f"softmax-{form}" for form in SOFTMAX))
def softmax(net, name):
    form = name.removeprefix("softmax-")
    axis = 0 if form == "axis0" else -1

    def pattern(x):
        if form == "operator":
            return net.Softmax(x, axis=-1)
        if form == "log":
            return net.LogSoftmax(x, axis=-1)
        if form != "plain-div":
            x = net.Sub(x, net.ReduceMax(x, axes=[axis]))
        powers = net.Exp(x)
        total = net.ReduceSum(powers, [axis])
        if form == "log-primitives":
            return net.Sub(x, net.Log(total))
        if form == "max-reciprocal":
            return net.Mul(powers, net.Reciprocal(total))
        if form == "commuted":
            return net.Mul(net.Div(1.0, total), powers)
        return net.Div(powers, total)

    between(net, net.input("x", 19, 37), pattern, 37)


NORM = (
    "pow-sqrt-div",
    "mul-sqrt-div",
    "square-mean",
    "reciprocal",
    "power",
    "commuted",
    "operator",
)


@model(*(f"layernorm-{form}" for form in NORM), *(f"rmsnorm-{form}" for form in NORM[:-1]))
def row_norm(net, name):
    family, form = name.split("-", 1)
    width = 37

    def pattern(x):
        scale, shift = net.weight(width, mean=1, std=0.1), net.weight(width, std=0.1)
        if form == "operator":
            return net.LayerNormalization(x, scale, shift, axis=-1)
        mean = net.ReduceMean(x, axes=[-1])
        centred = net.Sub(x, mean) if family == "layernorm" else x
        if form == "square-mean":
            variance = net.ReduceMean(net.Mul(x, x), axes=[-1])
            if family == "layernorm":
                variance = net.Sub(variance, net.Mul(mean, mean))
        else:
            square = net.Pow(centred, 2.0) if form == "pow-sqrt-div" else net.Mul(centred, centred)
            variance = net.ReduceMean(square, axes=[-1])
        variance = net.Add(1e-5, variance) if form == "commuted" else net.Add(variance, 1e-5)
        if form == "reciprocal":
            y = net.Mul(centred, net.Reciprocal(net.Sqrt(variance)))
        elif form == "power":
            y = net.Mul(centred, net.Pow(variance, -0.5))
        elif form == "commuted":
            y = net.Mul(net.Div(1.0, net.Sqrt(variance)), centred)
        else:
            y = net.Div(centred, net.Sqrt(variance))
        y = net.Mul(scale, y) if form == "commuted" else net.Mul(y, scale)
        return y if family == "rmsnorm" else net.Add(y, shift)

    between(net, net.input("x", 3, 11, width), pattern, width)


@model("groupnorm-instance", "groupnorm-primitives")
def group_norm(net, name, channels=12, groups=3):
    def pattern(x):
        if name.endswith("instance"):  # as PyTorch exports it
            flat = net.Reshape(x, [0, groups, -1])
            ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
            normal = net.Reshape(net.InstanceNormalization(flat, ones, zeros), [2, channels, 5, 7])
        else:
            grouped = net.Reshape(x, [2, groups, channels // groups, 5, 7])
            centred = net.Sub(grouped, net.ReduceMean(grouped, axes=[2, 3, 4]))
            variance = net.ReduceMean(net.Mul(centred, centred), axes=[2, 3, 4])
            normal = net.Div(centred, net.Sqrt(net.Add(variance, 1e-5)))
            normal = net.Reshape(normal, [2, channels, 5, 7])
        return net.Add(net.Mul(normal, net.weight(channels, 1, 1)), net.weight(channels, 1, 1))

    between(net, net.input("x", 2, channels, 5, 7), pattern, 7)


GELU = {
    "erf": gelu_erf,
    "erf-half-first": lambda n, x: n.Mul(
        n.Mul(0.5, x), n.Add(1.0, n.Erf(n.Mul(x, math.sqrt(0.5))))
    ),
    "erf-half-inside": lambda n, x: n.Mul(x, n.Mul(n.Add(n.Erf(n.Div(x, math.sqrt(2))), 1.0), 0.5)),
    "erf-commuted": lambda n, x: n.Mul(n.Mul(n.Add(1.0, n.Erf(n.Mul(math.sqrt(0.5), x))), x), 0.5),
    "tanh": gelu_tanh,
    "tanh-products": lambda n, x: n.Mul(
        n.Mul(0.5, x),
        n.Add(
            1.0,
            n.Tanh(n.Mul(math.sqrt(2 / math.pi), n.Add(x, n.Mul(0.044715, n.Mul(n.Mul(x, x), x))))),
        ),
    ),
    "tanh-horner": lambda n, x: n.Mul(
        x,
        n.Mul(
            0.5,
            n.Add(
                n.Tanh(
                    n.Mul(
                        n.Mul(x, math.sqrt(2 / math.pi)), n.Add(n.Mul(n.Mul(x, x), 0.044715), 1.0)
                    )
                ),
                1.0,
            ),
        ),
    ),
    "sigmoid": lambda n, x: n.Mul(x, n.Sigmoid(n.Mul(x, 1.702))),
}


@model(*(f"gelu-{form}" for form in GELU))
def gelu(net, name):
    between(net, net.input("x", 19, 37), lambda x: GELU[name.removeprefix("gelu-")](net, x), 37)


ATTENTION = (
    "div",
    "mul",
    "scaled-query",
    "mask-before-scale",
    "mask-after-scale",
    "where",
    "causal",
    "transposed-key",
    "grouped",
    "no-max",
)


@model(*(f"attention-{form}" for form in ATTENTION))
def attention(net, name, count=3, size=10, rows=13, columns=21):
    form = name.removeprefix("attention-")
    if form == "causal":
        rows = columns
    q = net.input("q", 2, count, rows, size)
    k = net.input(
        "k", 2, count, *((size, columns) if form == "transposed-key" else (columns, size))
    )
    v = net.input("v", 2, count, columns, size)
    if form == "grouped":  # several heads of queries share one of keys
        k, v = (net.Slice(t, [0], [1], [1]) for t in (k, v))
    scale = 1 / math.sqrt(size)
    if form == "scaled-query":
        q = net.Mul(q, scale)
    scores = net.MatMul(q, k if form == "transposed-key" else net.Transpose(k, perm=[0, 1, 3, 2]))
    keep = np.arange(columns) < np.array([columns, 9])[:, None, None, None]
    if form == "mask-before-scale":
        scores = net.Add(scores, np.where(keep, 0.0, -1e4))
    if form == "div":
        scores = net.Div(scores, math.sqrt(size))
    elif form != "scaled-query":
        scores = net.Mul(scale, scores)
    if form == "mask-after-scale":
        scores = net.Add(np.where(keep, 0.0, -np.inf), scores)
    elif form == "where":
        scores = net.Where(net.input("mask", sample=keep), scores, -1e9)
    elif form == "causal":
        scores = net.Add(
            scores, net.Trilu(np.full((rows, columns), -np.inf, np.float32), 1, upper=1)
        )
    if form == "no-max":
        powers = net.Exp(scores)
        weights = net.Div(powers, net.ReduceSum(powers, [-1]))
    else:
        weights = net.Softmax(scores, axis=-1)
    net.output("y", merge(net, net.MatMul(weights, v), count * size))


def write(name):
    net = MODELS[name]()
    serialised = net.model().SerializeToString()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(serialised, options)
    values = session.run(None, net.samples)
    expected = {output.name: value for output, value in zip(session.get_outputs(), values)}
    assert all(np.isfinite(value).all() for value in values), f"{name}: not all finite"
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / f"{name}.onnx").write_bytes(serialised)
    np.savez_compressed(OUTPUT / f"{name}.inputs.npz", **net.samples)
    np.savez_compressed(OUTPUT / f"{name}.expected.npz", **expected)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        write(name)

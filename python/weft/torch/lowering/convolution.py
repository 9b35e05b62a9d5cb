"""Convolutions, and their gradients as convolutions."""

from collections.abc import Iterable, Sequence
from typing import Any

from weft.torch.extents import Dim, difference
from weft.torch.lowering.emitter import Emitter, Value
from weft.torch.lowering.registry import lowers
from weft.torch.refused import Refused


def _per_axis(values: Any, count: int) -> list[int]:
    values = [values] if isinstance(values, int) else list(values)
    values = values * count if len(values) == 1 else values
    if not all(isinstance(value, int) for value in values):
        raise Refused("its window is open")
    return values


def _fixed(dims: Iterable[Any]) -> list[int]:
    dims = list(dims)
    if not all(isinstance(dim, int) for dim in dims):
        raise Refused("the extents of its image are open")
    return dims


def _conv(
    e: Emitter, x: Value, w: Value, shape: tuple[Dim, ...], *, strides: list[int],
    low: list[int], high: list[int], dilations: list[int], input_dilations: Sequence[int] = (),
    groups: int = 1,
) -> Value:  # fmt: skip
    wide = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
    made = e.b.convolution(
        x.tensor, w.tensor, strides, low, high, dilations, list(input_dilations), groups, wide
    )
    return e.convert(Value(made, wide, shape), x.dtype)


def _flipped(e: Emitter, w: Value, groups: int) -> Value:
    """[A, B, window…] to [groups * B, A / groups, window…], the windows in reverse."""
    a, b, window = w.shape[0], w.shape[1], w.shape[2:]
    for axis in range(2, w.rank):
        w = e.slice(w, axis, w.shape[axis] - 1, w.shape[axis], -1)
    split = e.reshape(w, (groups, a // groups, b, *window))
    return e.reshape(e.swap(split, 1, 2), (groups * b, a // groups, *window))


def _transposed(
    e: Emitter, x: Value, w: Value, shape: tuple[Dim, ...], strides: list[int], padding: list[int],
    dilations: list[int], high_extra: list[int], groups: int,
) -> Value:  # fmt: skip
    spans = [(k - 1) * d for k, d in zip(_fixed(w.shape[2:]), dilations)]
    low = [span - p for span, p in zip(spans, padding)]
    high = [lo + extra for lo, extra in zip(low, high_extra)]
    ones = [1] * len(low)
    flipped = _flipped(e, w, groups)
    return _conv(
        e, x, flipped, shape, strides=ones, low=low, high=high, dilations=dilations,
        input_dilations=strides, groups=groups,
    )  # fmt: skip


@lowers("aten.convolution.default")
def _convolution(
    e: Emitter, x: Value, w: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
    is_transposed: bool, output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    if x.rank != w.rank:
        raise Refused("its image has no batch")
    count = x.rank - 2
    strides, amounts = _per_axis(stride, count), _per_axis(padding, count)
    dilations = _per_axis(dilation, count)
    if is_transposed:
        extra = _per_axis(output_padding, count)
        made = _transposed(e, x, w, e.shape, strides, amounts, dilations, extra, groups)
    else:
        made = _conv(
            e, x, w, e.shape, strides=strides, low=amounts, high=amounts, dilations=dilations,
            groups=groups,
        )  # fmt: skip
    if bias is None:
        return made
    return e.add(made, e.reshape(bias, (bias.shape[0], *[1] * count)))


@lowers("aten.convolution_backward.default")
def _backward(
    e: Emitter, grad: Value, x: Value, w: Value, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, is_transposed: bool, output_padding: Any, groups: int, mask: list[bool],
) -> tuple[Value | None, ...]:  # fmt: skip
    count = x.rank - 2
    strides, amounts = _per_axis(stride, count), _per_axis(padding, count)
    dilations = _per_axis(dilation, count)
    # A transposed one is the gradient of a convolution that makes its image of its result.
    image, made = (grad, x) if is_transposed else (x, grad)
    # What of the padded image no window reached, whatever its extents.
    rest = _fixed(
        difference(size + 2 * p - (d * (k - 1) + 1), (out - 1) * s)
        for size, p, d, k, out, s in zip(
            image.shape[2:], amounts, dilations, _fixed(w.shape[2:]), made.shape[2:], strides
        )
    )
    for_x = for_w = for_bias = None
    if mask[0] and is_transposed:
        high = [p - r for p, r in zip(amounts, rest)]
        for_x = _conv(
            e, grad, w, x.shape, strides=strides, low=amounts, high=high, dilations=dilations,
            groups=groups,
        )  # fmt: skip
    elif mask[0]:
        for_x = _transposed(e, grad, w, x.shape, strides, amounts, dilations, rest, groups)
    if mask[1]:
        for_w = _weights(e, made, image, w, strides, amounts, dilations, rest, groups)
    if mask[2]:
        for_bias = e.reduce("sum", grad, [0, *range(2, grad.rank)])
    return for_x, for_w, for_bias


def _weights(
    e: Emitter, grad: Value, x: Value, w: Value, strides: list[int], padding: list[int],
    dilations: list[int], rest: list[int], groups: int,
) -> Value:  # fmt: skip
    """The image's channels stand for its batch, and the gradient is the window:
    [C / G, G * N, image…] with [O, N, out…] in G groups makes [C / G, O, window…]."""
    n, c, image = x.shape[0], x.shape[1], x.shape[2:]
    split = e.reshape(x, (n, groups, c // groups, *image))
    axes = list(range(split.rank))
    moved = e.permute(split, [2, 1, 0, *axes[3:]])
    as_batch = e.reshape(moved, (c // groups, groups * n, *image))
    made = _conv(
        e, as_batch, e.swap(grad, 0, 1), (c // groups, w.shape[0], *w.shape[2:]),
        strides=dilations, low=padding, high=[p - r for p, r in zip(padding, rest)],
        dilations=strides, groups=groups,
    )  # fmt: skip
    return e.swap(made, 0, 1)

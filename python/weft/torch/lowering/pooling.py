"""Windows that slide over images."""

import math
from typing import Any

from weft.torch.extents import Dim, plain
from weft.torch.lowering.emitter import Emitter, Value
from weft.torch.lowering.registry import lowers
from weft.torch.refused import Refused


class _Windows:
    """Windows over the last axes of an image."""

    def __init__(
        self, x: Value, made: tuple[Dim, ...], size: Any, stride: Any, padding: Any,
        dilation: Any, ceil: bool,
    ) -> None:  # fmt: skip
        def per_axis(values: Any) -> list[int]:
            values = [values] if isinstance(values, int) else list(values)
            return values * self.count if len(values) == 1 else values

        self.count = 1 if isinstance(size, int) else len(size)
        self.window = per_axis(size)
        self.strides = per_axis(stride) if stride else self.window
        self.low = per_axis(padding)
        self.dilations = per_axis(dilation)
        self.lead = x.rank - self.count
        self.high = list(self.low)
        if ceil:
            self.high = [self._reached(x, made, i) for i in range(self.count)]

    def _reached(self, x: Value, made: tuple[Dim, ...], i: int) -> int:
        size, out = x.shape[self.lead + i], made[self.lead + i]
        if not isinstance(size, int) or not isinstance(out, int):
            raise Refused("the extents of its image are open, and it rounds up")
        span = (out - 1) * self.strides[i] + (self.window[i] - 1) * self.dilations[i] + 1
        return span - size - self.low[i]

    def reduce(self, e: Emitter, combiner: str, x: Value, shape: tuple[Dim, ...]) -> Value:
        ones, zeros = [1] * self.lead, [0] * self.lead
        made = e.b.reduce_window(
            combiner, x.tensor, ones + self.window, ones + self.strides, ones + self.dilations,
            zeros + self.low, zeros + self.high,
        )  # fmt: skip
        return Value(made, x.dtype, shape)


@lowers("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def _max_pool(
    e: Emitter, x: Value, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil: bool = False,
) -> tuple[Value, Value | None]:  # fmt: skip
    shape = e.shape
    windows = _Windows(x, shape, size, stride, padding, dilation, ceil)
    values = windows.reduce(e, "max", x, shape)
    wanted = any(user.args[1] == 1 and user.users for user in e.node.users)
    return values, _positions(e, x, windows, shape) if wanted else None


def _positions(e: Emitter, x: Value, w: _Windows, shape: tuple[Dim, ...]) -> Value:
    """Where in its image each window has its largest element, the first of several."""
    lowest = -math.inf if x.is_float else -(2**31)
    lead = [0] * w.lead
    padded = e.pad(x, lead + w.low, lead + w.high, lowest)
    total = math.prod(w.window)
    candidates, places = [], []
    for k in range(total):
        at, offsets = k, []
        for i in reversed(range(w.count)):
            offsets.insert(0, at % w.window[i])
            at //= w.window[i]
        candidate, place = padded, e.full(0, "int64", shape)
        for i, offset in enumerate(offsets):
            axis, first = w.lead + i, offset * w.dilations[i]
            candidate = e.slice(candidate, axis, first, shape[axis], w.strides[i])
            along = e.mul(e.iota("int64", shape, axis), w.strides[i])
            along = e.add(along, first - w.low[i])
            place = e.add(e.mul(place, plain(x.shape[axis])), along)
        candidates.append(candidate)
        places.append(place)
    best, where = candidates[0], places[0]
    for candidate, place in zip(candidates[1:], places[1:]):
        better = e.compare("gt", candidate, best)
        best, where = e.select(better, candidate, best), e.select(better, place, where)
    return where


@lowers("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def _avg_pool(
    e: Emitter, x: Value, size: Any, stride: Any = (), padding: Any = 0, ceil: bool = False,
    count_padding: bool = True, divisor: int | None = None,
) -> Value:  # fmt: skip
    shape = e.shape
    windows = _Windows(x, shape, size, stride, padding, 1, ceil)
    total = windows.reduce(e, "sum", x, shape)
    if divisor is not None:
        return e.div(total, divisor)
    uneven = any(windows.low) or any(windows.high)
    if not uneven or (count_padding and not ceil):
        return e.div(total, math.prod(windows.window))
    if count_padding:
        raise Refused("it counts padding, and rounds up")
    counts = windows.reduce(e, "sum", e.full(1, x.dtype, x.shape), shape)
    return e.div(total, counts)

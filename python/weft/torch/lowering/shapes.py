"""Operations that move elements."""

from collections.abc import Sequence
from typing import Any

from weft.torch.extents import (
    Dim,
    dense_order,
    dim_of,
    dims_of,
    floor_div,
    plain,
    product,
    strides_of,
)
from weft.torch.lowering.emitter import Emitter, Value
from weft.torch.lowering.indexing import windows
from weft.torch.lowering.registry import lowers
from weft.torch.refused import Refused
from weft.torch.saved_layouts import traced


@lowers(
    "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.squeeze",
    "aten.unsqueeze.default", "aten.view_copy.default", "prims.squeeze.default",
)  # fmt: skip
def _reshape(e: Emitter, x: Value, *_: Any) -> Value:
    return e.reshape(x, e.shape)


@lowers("aten.expand.default")
def _expand(e: Emitter, x: Value, *_: Any, **__: Any) -> Value:
    return e.broadcast(x, e.shape)


@lowers("prims.broadcast_in_dim.default")
def _broadcast_in_dim(e: Emitter, x: Value, shape: Any, dims: Any) -> Value:
    place: list[Dim] = [1] * len(shape)
    for axis, dim in zip(dims, x.shape):
        place[axis] = dim
    return e.broadcast(e.reshape(x, place), e.shape)


@lowers("aten.permute.default", "prims.transpose.default")
def _permute(e: Emitter, x: Value, axes: list[int]) -> Value:
    return e.permute(x, axes)


@lowers("aten.transpose.int")
def _transpose(e: Emitter, x: Value, a: int, b: int) -> Value:
    return e.swap(x, a, b) if x.rank else x


@lowers("aten.t.default")
def _t(e: Emitter, x: Value) -> Value:
    return e.permute(x, range(x.rank)[::-1])


def begin_of(start: Any, size: Dim) -> Dim:
    """A start of torch's, which may count from the end, within the axis."""
    if start is None:
        return 0
    start = dim_of(start)
    if isinstance(start, int) and start < 0:
        start = plain(size + start)
    if isinstance(start, int) and isinstance(size, int):
        return min(max(start, 0), size)
    return start


@lowers("aten.slice.Tensor")
def _slice(
    e: Emitter, x: Value, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    axis %= x.rank
    return e.slice(x, axis, begin_of(start, x.shape[axis]), e.shape[axis], step)


@lowers("aten.select.int")
def _select(e: Emitter, x: Value, axis: int, index: Any) -> Value:
    axis %= x.rank
    return e.reshape(e.slice(x, axis, begin_of(index, x.shape[axis]), 1), e.shape)


def _pieces(e: Emitter, x: Value, axis: int) -> tuple[Value, ...]:
    axis %= x.rank
    pieces, start = [], 0
    for _, shape in e.node_outputs:
        pieces.append(e.slice(x, axis, start, shape[axis]))
        start = plain(start + shape[axis])
    return tuple(pieces)


@lowers("aten.split_with_sizes.default", "aten.split.Tensor")
def _split(e: Emitter, x: Value, sizes: Any, axis: int = 0) -> tuple[Value, ...]:
    return _pieces(e, x, axis)


@lowers("aten.unbind.int")
def _unbind(e: Emitter, x: Value, axis: int = 0) -> tuple[Value, ...]:
    axis %= x.rank
    return tuple(
        e.reshape(e.slice(x, axis, i, 1), shape) for i, (_, shape) in enumerate(e.node_outputs)
    )


@lowers("aten.cat.default")
def _cat(e: Emitter, xs: list[Value], axis: int = 0) -> Value:
    full = [e.convert(x, e.dtype) for x in xs if not (x.rank == 1 and x.shape[0] == 0)]
    return e.concat(full, axis) if full else e.convert(xs[0], e.dtype)


@lowers("aten.stack.default")
def _stack(e: Emitter, xs: list[Value], axis: int = 0) -> Value:
    axis %= len(e.shape)
    return e.concat([e.unsqueeze(e.convert(x, e.dtype), axis) for x in xs], axis)


@lowers("aten.flip.default")
def _flip(e: Emitter, x: Value, axes: list[int]) -> Value:
    for axis in axes:
        axis %= x.rank
        x = e.slice(x, axis, plain(x.shape[axis] - 1), x.shape[axis], -1)
    return x


@lowers("aten.repeat.default")
def _repeat(e: Emitter, x: Value, repeats: list[Any]) -> Value:
    x = e.reshape(x, (1,) * (len(repeats) - x.rank) + x.shape)
    between = [d for dim in x.shape for d in (1, dim)]
    spread = [d for dim, count in zip(x.shape, repeats) for d in (dim_of(count), dim)]
    return e.reshape(e.broadcast(e.reshape(x, between), spread), e.shape)


@lowers("aten.constant_pad_nd.default")
def _pad(e: Emitter, x: Value, amounts: list[Any], value: Any = 0) -> Value:
    low: list[Dim] = [0] * x.rank
    high: list[Dim] = [0] * x.rank
    for i in range(len(amounts) // 2):
        low[x.rank - 1 - i] = dim_of(amounts[2 * i])
        high[x.rank - 1 - i] = dim_of(amounts[2 * i + 1])
    return e.pad(x, low, high, value)


@lowers("aten.slice_scatter.default")
def _slice_scatter(
    e: Emitter, x: Value, source: Value, axis: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Value:  # fmt: skip
    axis %= x.rank
    source = e.convert(source, x.dtype)
    begin, size = begin_of(start, x.shape[axis]), x.shape[axis]
    if step != 1:
        return _write_strided(e, x, source, axis, begin, step)
    after = plain(begin + source.shape[axis])
    parts = [e.slice(x, axis, 0, begin)] if begin != 0 else []
    parts.append(source)
    if after != size:
        parts.append(e.slice(x, axis, after, plain(size - after)))
    return e.concat(parts, axis)


def _write_strided(
    e: Emitter, x: Value, source: Value, axis: int, begin: Dim, step: int
) -> Value:
    """Every element looks whether the slice has it, and where."""
    at = e.sub(e.iota("int64", (x.shape[axis],)), begin)
    place = e.apply("div", at, e.scalar(step, "int64"))
    inside = e.apply("and", e.compare("ge", at, 0), e.compare("lt", place, source.shape[axis]))
    inside = e.apply("and", inside, e.compare("eq", e.mul(place, step), at))
    last = plain(source.shape[axis] - 1)
    place = e.apply("min", e.apply("max", place, e.scalar(0, "int64")), e.scalar(last, "int64"))
    read = Value(e.b.gather(source.tensor, place.tensor, axis), x.dtype, x.shape)
    column = e.reshape(inside, (x.shape[axis], *[1] * (x.rank - 1 - axis)))
    return e.select(column, read, x)


@lowers("aten.diagonal.default")
def _diagonal(e: Emitter, x: Value, offset: int = 0, a: int = 0, b: int = 1) -> Value:
    a, b = a % x.rank, b % x.rank
    rest = [axis for axis in range(x.rank) if axis not in (a, b)]
    front = e.permute(x, [a, b, *rest])
    line = e.iota("int64", (e.shape[-1],))
    rows, columns = e.add(line, max(-offset, 0)), e.add(line, max(offset, 0))
    places = e.concat([e.unsqueeze(rows, 1), e.unsqueeze(columns, 1)], 1)
    made = Value(
        e.b.gather_nd(front.tensor, places.tensor), x.dtype, (e.shape[-1], *e.shape[:-1])
    )
    return e.permute(made, [*range(1, made.rank), 0])


@lowers("aten.diagonal_scatter.default")
def _diagonal_scatter(
    e: Emitter, x: Value, source: Value, offset: int = 0, a: int = 0, b: int = 1
) -> Value:
    a, b = a % x.rank, b % x.rank
    rest = [axis for axis in range(x.rank) if axis not in (a, b)]
    order = [a, b, *rest]
    front = e.permute(x, order)
    line = e.iota("int64", (source.shape[-1],))
    rows, columns = e.add(line, max(-offset, 0)), e.add(line, max(offset, 0))
    places = e.concat([e.unsqueeze(rows, 1), e.unsqueeze(columns, 1)], 1)
    updates = e.permute(e.convert(source, x.dtype), [source.rank - 1, *range(source.rank - 1)])
    made = Value(
        e.b.scatter_nd(front.tensor, places.tensor, updates.tensor, None), x.dtype, front.shape
    )
    return e.permute(made, [order.index(axis) for axis in range(x.rank)])


@lowers("aten.select_scatter.default")
def _select_scatter(e: Emitter, x: Value, source: Value, axis: int, index: Any) -> Value:
    axis %= x.rank
    return _slice_scatter(e, x, e.unsqueeze(source, axis), axis, begin_of(index, x.shape[axis]))


@lowers("aten.as_strided.default")
def _as_strided(e: Emitter, x: Value, size: Any, stride: Any, offset: Any = None) -> Value:
    read = traced(e.node.args[0])
    if not offset and product(e.shape) == product(x.shape):
        if read.is_contiguous() and _is_row_major(e.shape, stride):
            return e.reshape(x, e.shape)
        if dense_order(e.shape, dims_of(stride)) is not None:
            return _by_memory(e, x, strides_of(read), e.shape, dims_of(stride))
    return _windows_of(e, x, strides_of(read), dims_of(stride), offset or 0)


def _windows_of(
    e: Emitter, x: Value, strides: Sequence[Dim], wanted: Sequence[Dim], offset: Dim
) -> Value:
    """Elements of x, which lies by `strides`, at an offset and by the strides that are wanted:
    frames of a signal, say. Each axis of the result runs along the axis of x with the longest
    stride that divides its own."""
    if not all(isinstance(n, int) for n in (*x.shape, *strides, *e.shape, *wanted, offset)):
        raise Refused("it reads elements by their places in memory")
    along: dict[int, list[int]] = {}
    for k, step in enumerate(wanted):
        fits = [a for a in range(x.rank) if strides[a] and step and step % strides[a] == 0]
        if fits:
            along.setdefault(max(fits, key=lambda a: strides[a]), []).append(k)
        elif step:
            raise Refused("it reads elements by their places in memory")
    outermost_first = sorted(range(x.rank), key=lambda a: -strides[a])
    begins = {}
    for a in outermost_first:
        begins[a], offset = divmod(offset, strides[a]) if strides[a] else (0, offset)
    x = e.permute(x, outermost_first)
    for place, a in reversed(list(enumerate(outermost_first))):
        ks = along.get(a, [])
        counts, steps = tuple(e.shape[k] for k in ks), tuple(wanted[k] // strides[a] for k in ks)
        if begins[a] + sum(s * (n - 1) for s, n in zip(steps, counts)) >= x.shape[place]:
            raise Refused("it reads elements by their places in memory")
        x = windows(e, x, place, counts, steps, begins[a])
    made = [k for a in outermost_first for k in along.get(a, ())]
    made += [k for k, step in enumerate(wanted) if step == 0]
    x = e.reshape(x, (*x.shape, *[1] * (len(made) - x.rank)))
    return e.broadcast(e.permute(x, [made.index(k) for k in range(len(made))]), e.shape)


def _is_row_major(shape: Sequence[Dim], strides: Any) -> bool:
    dense = product(shape)
    for dim, step in zip(shape, strides):
        dense = floor_div(dense, dim)
        if dim != 1 and dim_of(step) != dense:
            return False
    return True


def _by_memory(
    e: Emitter, x: Value, strides: Sequence[Dim], shape: Sequence[Dim], wanted: Sequence[Dim]
) -> Value:
    """The elements of x, which lie by `strides`, in the order of memory, as a tensor of a shape
    that lies by the strides that are wanted."""
    order, made = dense_order(x.shape, strides), dense_order(shape, wanted)
    if order is None or made is None:
        raise Refused("it reads elements by their places in memory")
    there = e.reshape(e.permute(x, order), [shape[axis] for axis in made])
    return e.permute(there, [made.index(axis) for axis in range(len(made))])


@lowers("aten.as_strided_scatter.default")
def _as_strided_scatter(
    e: Emitter, x: Value, source: Value, size: Any, stride: Any, offset: Any = None
) -> Value:
    """All of x written anew, as gradients of as_strided do."""
    into = traced(e.node.args[0])
    if offset or product(source.shape) != product(x.shape):
        raise Refused("it writes elements by their places in memory")
    return _by_memory(e, source, dims_of(stride), x.shape, strides_of(into))

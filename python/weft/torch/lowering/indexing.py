"""Elements by positions that tensors hold."""

import math
from typing import Any

import numpy as np
import torch

from weft.torch.extents import product
from weft.torch.lowering.emitter import Emitter, Value, broadcast_shape, torch_type
from weft.torch.lowering.registry import lowers
from weft.torch.refused import Refused


def _wrapped(e: Emitter, indices: Value, size: Any) -> Value:
    """Positions that count from the end where they are negative."""
    indices = e.convert(indices, "int64")
    return e.select(e.compare("lt", indices, 0), e.add(indices, size), indices)


def _gather(e: Emitter, data: Value, indices: Value, axis: int) -> Value:
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    return Value(e.b.gather(data.tensor, indices.tensor, axis), data.dtype, shape)


def windows(e: Emitter, x: Value, axis: int, counts: tuple[int, ...], steps: tuple[int, ...],
            begin: int = 0) -> Value:
    """Elements begin + the sum of i[k] * steps[k] of one axis, which becomes several."""
    at = e.full(begin, "int64", counts)
    for k, step in enumerate(steps):
        at = e.add(at, e.mul(e.iota("int64", counts, k), step))
    return _gather(e, x, at, axis)


@lowers("aten.unfold.default", "aten.unfold_copy.default")
def _unfold(e: Emitter, x: Value, axis: int, size: int, step: int) -> Value:
    if x.rank == 0:
        return e.reshape(x, e.shape)
    axis %= x.rank
    made = windows(e, x, axis, (e.shape[axis], size), (step, 1))
    order = [i for i in range(made.rank) if i != axis + 1]
    return e.permute(made, [*order, axis + 1])


@lowers("aten.embedding.default")
def _embedding(e: Emitter, weight: Value, indices: Value, *_: Any, **__: Any) -> Value:
    return _gather(e, weight, e.convert(indices, "int64"), 0)


@lowers("aten.embedding_dense_backward.default")
def _embedding_backward(
    e: Emitter, grad: Value, indices: Value, rows: Any, padding: int, by_frequency: bool
) -> Value:
    if by_frequency:
        raise Refused("it scales gradients by frequency")
    indices = e.convert(indices, "int64")
    if padding >= 0:
        kept = e.unsqueeze(e.compare("ne", indices, padding), -1)
        grad = e.select(kept, grad, e.scalar(0, grad.dtype))
    flat = e.reshape(indices, (product(indices.shape), 1))
    updates = e.reshape(grad, (flat.shape[0], grad.shape[-1]))
    zeros = e.full(0, grad.dtype, e.shape)
    return _scatter_nd(e, zeros, flat, updates, "sum")


@lowers("aten.index_select.default")
def _index_select(e: Emitter, x: Value, axis: int, indices: Value) -> Value:
    if x.rank == 0:
        return x
    axis %= x.rank
    indices = e.reshape(indices, (e.shape[axis],))
    return _gather(e, x, _wrapped(e, indices, x.shape[axis]), axis)


@lowers("aten.gather.default")
def _gather_elements(e: Emitter, x: Value, axis: int, indices: Value, **_: Any) -> Value:
    if x.rank == 0:
        return x
    axis %= x.rank
    indices = e.convert(indices, "int64")
    for i, (have, want) in enumerate(zip(x.shape, indices.shape)):
        if i != axis and have != want:
            x = e.slice(x, i, 0, want)
    made = e.b.gather_elements(x.tensor, indices.tensor, axis)
    return Value(made, x.dtype, indices.shape)


class _Places:
    """What x[i, :, j] addresses: the indexed axes come first, in x and in the result."""

    def __init__(self, e: Emitter, x: Value, indices: list[Value | None]) -> None:
        self.axes = [i for i, index in enumerate(indices) if index is not None]
        given = [index for index in indices if index is not None]
        if any(index.dtype in ("bool", "uint8") for index in given):
            raise Refused("it picks by a mask")
        self.shape: tuple[Any, ...] = ()
        for index in given:
            self.shape = broadcast_shape(self.shape, index.shape)
        self.rest = [i for i in range(x.rank) if i not in self.axes]
        wrapped = [_wrapped(e, index, x.shape[i]) for index, i in zip(given, self.axes)]
        columns = [e.unsqueeze(e.broadcast(index, self.shape), -1) for index in wrapped]
        self.indices = e.concat(columns, -1)
        # The axes of the indices stand where the first indexed axis was, if they are neighbours.
        together = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        self.at = self.axes[0] if together else 0

    def to_front(self) -> list[int]:
        """Axes of the result in the order: indices, rest."""
        inner, count = len(self.rest), len(self.shape)
        before = list(range(self.at))
        middle = list(range(self.at, self.at + count))
        return [*middle, *before, *range(self.at + count, inner + count)]


def _inverse(axes: list[int]) -> list[int]:
    return [axes.index(i) for i in range(len(axes))]


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(e: Emitter, x: Value, indices: list[Value | None]) -> Value:
    given = [i for i, index in enumerate(indices) if index is not None]
    if len(given) == 1 and indices[given[0]].dtype not in ("bool", "uint8"):
        axis = given[0]
        return _gather(e, x, _wrapped(e, indices[axis], x.shape[axis]), axis)
    places = _Places(e, x, indices)
    front = e.permute(x, [*places.axes, *places.rest])
    shape = (*places.shape, *[x.shape[i] for i in places.rest])
    made = Value(e.b.gather_nd(front.tensor, places.indices.tensor), x.dtype, shape)
    return e.permute(made, _inverse(places.to_front())) if places.at else made


@lowers("aten.index_put.default", "aten._unsafe_index_put.default")
def _index_put(
    e: Emitter, x: Value, indices: list[Value | None], values: Value, accumulate: bool = False
) -> Value:
    given = [index for index in indices if index is not None]
    if len(given) == 1 and given[0].dtype == "bool" and indices[0] is given[0]:
        return _masked(e, x, given[0], values, accumulate)
    places = _Places(e, x, indices)
    order = [*places.axes, *places.rest]
    front = e.permute(x, order)
    rest = [x.shape[i] for i in places.rest]
    at, count = places.at, len(places.shape)
    shape = (*rest[:at], *places.shape, *rest[at:])
    updates = e.broadcast(e.convert(values, x.dtype), shape)
    updates = e.permute(updates, places.to_front()) if at and count else updates
    made = _scatter_nd(e, front, places.indices, updates, "sum" if accumulate else None)
    return e.permute(made, _inverse(order))


def _masked(e: Emitter, x: Value, mask: Value, values: Value, accumulate: bool) -> Value:
    """x[mask] = a number."""
    if accumulate or any(dim != 1 for dim in values.shape):
        raise Refused("it writes several values by a mask")
    number = e.reshape(e.convert(values, x.dtype), ())
    wide = e.reshape(mask, (*mask.shape, *[1] * (x.rank - mask.rank)))
    return e.select(wide, number, x)


def _scatter_nd(
    e: Emitter, data: Value, indices: Value, updates: Value, combiner: str | None
) -> Value:
    made = e.b.scatter_nd(data.tensor, indices.tensor, updates.tensor, combiner)
    return Value(made, data.dtype, data.shape)


def _scatter(
    e: Emitter, x: Value, axis: int, indices: Value, updates: Value, combiner: str | None
) -> Value:
    axis = axis % x.rank if x.rank else 0
    for i, (have, want) in enumerate(zip(updates.shape, indices.shape)):
        updates = e.slice(updates, i, 0, want) if have != want else updates
    indices = e.convert(indices, "int64")
    made = e.b.scatter_elements(
        x.tensor, indices.tensor, e.convert(updates, x.dtype).tensor, axis, combiner
    )
    return Value(made, x.dtype, x.shape)


@lowers("aten.tril_indices.default", "aten.triu_indices.default")
def _triangle(e: Emitter, rows: Any, columns: Any, offset: int = 0, **_: Any) -> Value:
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Refused("the extents of its triangle are open")
    lower = e.node.target.__name__.startswith("tril")
    places = (np.tril_indices if lower else np.triu_indices)(rows, offset, columns)
    made = e.b.constant(np.stack(places).astype(np.int64))
    return e.convert(Value(made, "int64", e.shape), e.dtype)


@lowers("aten.scatter.src")
def _scatter_src(e: Emitter, x: Value, axis: int, indices: Value, source: Value) -> Value:
    return _scatter(e, x, axis, indices, source, None)


@lowers("aten.scatter.value")
def _scatter_value(e: Emitter, x: Value, axis: int, indices: Value, value: Any) -> Value:
    return _scatter(e, x, axis, indices, e.full(value, x.dtype, indices.shape), None)


@lowers("aten.scatter_add.default")
def _scatter_add(e: Emitter, x: Value, axis: int, indices: Value, source: Value) -> Value:
    return _scatter(e, x, axis, indices, source, "sum")


@lowers("aten.scatter_reduce.two")
def _scatter_reduce(
    e: Emitter, x: Value, axis: int, indices: Value, source: Value, reduce: str, *,
    include_self: bool = True,
) -> Value:  # fmt: skip
    combiner = {"sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min"}[reduce]
    if include_self and reduce != "mean":
        return _scatter(e, x, axis, indices, source, combiner)
    if reduce == "mean" and not x.is_float:
        raise Refused("it scatters means of integers")
    ones = e.full(1, "int64", source.shape)
    begin = e.full(1 if include_self else 0, "int64", x.shape)
    counts = _scatter(e, begin, axis, indices, ones, "sum")
    hit = e.compare("ne", counts, 0)
    neutral = {"sum": 0, "prod": 1, "max": _least(x.dtype), "min": _most(x.dtype)}[combiner]
    into = x if include_self else e.select(hit, e.full(neutral, x.dtype, x.shape), x)
    made = _scatter(e, into, axis, indices, source, combiner)
    if reduce != "mean":
        return made
    return e.div(made, e.convert(e.apply("max", counts, e.scalar(1, "int64")), x.dtype))


def _least(dtype: str) -> Any:
    return -math.inf if "float" in dtype else torch.iinfo(torch_type(dtype)).min


def _most(dtype: str) -> Any:
    return math.inf if "float" in dtype else torch.iinfo(torch_type(dtype)).max

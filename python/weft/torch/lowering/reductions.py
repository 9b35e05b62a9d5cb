"""Reductions, running combinations, sorting."""

from typing import Any

from weft.torch.extents import dim_of
from weft.torch.lowering.emitter import Emitter, Value
from weft.torch.lowering.registry import lowers
from weft.torch.refused import Refused


def axes_of(x: Value, axes: Any) -> list[int]:
    """All axes where none are given."""
    if isinstance(axes, int):
        axes = [axes]
    if not axes:
        return list(range(x.rank))
    return [axis % x.rank for axis in axes] if x.rank else []


def mean(e: Emitter, x: Value, axes: list[int], keep: bool) -> Value:
    return e.div(e.reduce("sum", x, axes, keep), e.count(x, axes))


@lowers("aten.sum.dim_IntList", "aten.sum.default", "prims.sum.default")
def _sum(
    e: Emitter, x: Value, axes: Any = None, keep: bool = False, *, dtype: Any = None, **_: Any
) -> Value:
    return e.reduce("sum", e.convert(x, e.dtype), axes_of(x, axes), keep)


@lowers("aten.mean.dim", "aten.mean.default")
def _mean(e: Emitter, x: Value, axes: Any = None, keep: bool = False, **_: Any) -> Value:
    return mean(e, e.convert(x, e.dtype), axes_of(x, axes), keep)


@lowers("aten.amax.default", "aten.max.default", "prims.amax.default")
def _amax(e: Emitter, x: Value, axes: Any = None, keep: bool = False) -> Value:
    return _ordered(e, "max", x, axes_of(x, axes), keep)


@lowers("aten.amin.default", "aten.min.default", "prims.amin.default")
def _amin(e: Emitter, x: Value, axes: Any = None, keep: bool = False) -> Value:
    return _ordered(e, "min", x, axes_of(x, axes), keep)


def _ordered(e: Emitter, combiner: str, x: Value, axes: list[int], keep: bool) -> Value:
    if x.dtype == "bool":
        return e.reduce("or" if combiner == "max" else "and", x, axes, keep)
    return e.reduce(combiner, x, axes, keep)


@lowers("aten.any.default", "aten.any.dim", "aten.any.dims")
def _any(e: Emitter, x: Value, axes: Any = None, keep: bool = False) -> Value:
    return e.convert(e.reduce("or", e.convert(x, "bool"), axes_of(x, axes), keep), e.dtype)


@lowers("aten.all.default", "aten.all.dim", "aten.all.dims")
def _all(e: Emitter, x: Value, axes: Any = None, keep: bool = False) -> Value:
    return e.convert(e.reduce("and", e.convert(x, "bool"), axes_of(x, axes), keep), e.dtype)


@lowers("aten.prod.default", "aten.prod.dim_int")
def _prod(e: Emitter, x: Value, axes: Any = None, keep: bool = False, **_: Any) -> Value:
    axes = list(range(x.rank)) if axes is None else [axes]
    return e.reduce("prod", e.convert(x, e.dtype), axes_of(x, axes), keep)


def variance(e: Emitter, x: Value, axes: list[int], keep: bool, correction: Any) -> Value:
    centred = e.sub(x, mean(e, x, axes, True))
    total = e.reduce("sum", e.mul(centred, centred), axes, keep)
    count = e.scalar(e.count(x, axes), x.dtype)
    return e.div(total, e.sub(count, 1 if correction is None else correction))


@lowers("aten.var.correction", "aten.var.dim")
def _var(
    e: Emitter, x: Value, axes: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    return variance(e, x, axes_of(x, axes), keepdim, correction)


@lowers("aten.var_mean.correction")
def _var_mean(
    e: Emitter, x: Value, axes: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    over = axes_of(x, axes)
    return variance(e, x, over, keepdim, correction), mean(e, x, over, keepdim)


def _position(e: Emitter, which: str, x: Value, axis: Any, keep: bool) -> Value:
    if x.dtype == "bool":
        x = e.convert(x, "uint8")
    if axis is None:
        x, axis = e.reshape(x, (e.count(x, range(x.rank)),)), 0
    if x.rank == 0:
        return e.full(0, "int64", ())
    made = e.b.arg_reduce(which, x.tensor, axis % x.rank, keep)
    shape = [1 if i == axis % x.rank else d for i, d in enumerate(x.shape)]
    if not keep:
        del shape[axis % x.rank]
    return Value(made, "int64", tuple(shape))


@lowers("aten.argmax.default")
def _argmax(e: Emitter, x: Value, axis: Any = None, keep: bool = False) -> Value:
    return e.reshape(_position(e, "max", x, axis, keep), e.shape)


@lowers("aten.argmin.default")
def _argmin(e: Emitter, x: Value, axis: Any = None, keep: bool = False) -> Value:
    return e.reshape(_position(e, "min", x, axis, keep), e.shape)


@lowers("aten.max.dim")
def _max_dim(e: Emitter, x: Value, axis: int, keep: bool = False) -> tuple[Value, Value]:
    return _ordered(e, "max", x, axes_of(x, axis), keep), _position(e, "max", x, axis, keep)


@lowers("aten.min.dim")
def _min_dim(e: Emitter, x: Value, axis: int, keep: bool = False) -> tuple[Value, Value]:
    return _ordered(e, "min", x, axes_of(x, axis), keep), _position(e, "min", x, axis, keep)


@lowers("aten.cumsum.default")
def _cumsum(e: Emitter, x: Value, axis: int, **_: Any) -> Value:
    return _cumulative(e, "sum", x, axis)


@lowers("aten.cumprod.default")
def _cumprod(e: Emitter, x: Value, axis: int, **_: Any) -> Value:
    return _cumulative(e, "prod", x, axis)


def _cumulative(e: Emitter, combiner: str, x: Value, axis: int) -> Value:
    x = e.convert(x, e.dtype)
    if x.rank == 0:
        return x
    return Value(e.b.cumulative(combiner, x.tensor, axis % x.rank), x.dtype, x.shape)


@lowers("aten.sort.default", "aten.sort.stable")
def _sort(
    e: Emitter, x: Value, axis: int = -1, descending: bool = False, *, stable: Any = None,
    dim: int | None = None,
) -> tuple[Value, Value]:  # fmt: skip
    axis = axis if dim is None else dim
    values, positions = e.b.sort(x.tensor, axis % x.rank, descending)
    return Value(values, x.dtype, x.shape), Value(positions, "int64", x.shape)


@lowers("aten.topk.default")
def _topk(
    e: Emitter, x: Value, k: Any, axis: int = -1, largest: bool = True, is_sorted: bool = True
) -> tuple[Value, Value]:
    k = dim_of(k)
    if not isinstance(k, int):
        raise Refused("the number of elements it keeps is open")
    values, positions = e.b.top_k(x.tensor, k, axis % x.rank, largest)
    shape = e.shape
    return Value(values, x.dtype, shape), Value(positions, "int64", shape)

"""Extents of torch's symbolic shapes: as extents of weft's graph builder, and as Python source.

An extent is an int, or a sympy expression over torch's symbols; a symbol is an open dimension of
its name.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import (
    CeilToInt,
    CleanDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Mod,
    PythonMod,
    ToFloat,
    TruncToInt,
)

from weft import Extent
from weft.torch.refused import Refused

Dim = int | sympy.Expr


def dim_of(value: Any) -> Dim:
    """An int, or a SymInt's expression."""
    expression = value.node.expr if isinstance(value, torch.SymInt) else value
    if isinstance(expression, sympy.Expr) and expression.has(ToFloat, IntTrueDiv):
        expression = expression.replace(_is_rounded, _in_integers)
    return plain(expression)


def hint_of(extent: Any) -> int:
    """A number, or what torch has seen in its place."""
    hint = extent.node.hint if isinstance(extent, torch.SymInt) else extent
    return 2 if hint is None else int(hint)


#: Of numerator and denominator, up to which products of floats are exact and rounding does what
#: integers do.
_MOST = 2**10


def _is_rounded(e: sympy.Expr) -> bool:
    return isinstance(e, (TruncToInt, FloorToInt, CeilToInt)) and _fraction_of(e) is not None


def _in_integers(e: sympy.Expr) -> sympy.Expr:
    """TruncToInt(0.5 * ToFloat(s))  ->  s // 2;  CeilToInt(IntTrueDiv(s, 3) + 1.0)  ->  (s + 5) // 3"""
    fraction = _fraction_of(e)
    assert fraction is not None
    above, below = fraction
    if isinstance(e, CeilToInt):
        above += below - 1
    return above if below == 1 else FloorDiv(above, sympy.Integer(below))


def _fraction_of(e: sympy.Expr) -> tuple[sympy.Expr, int] | None:
    """What is rounded as a quotient of integers, where floats round to the same: a size times a
    fraction, or by a number, and a number beside. Of a quotient that is cut, no less than 0."""
    beside = sympy.Integer(0)
    sized = []
    for term in sympy.Add.make_args(e.args[0]):
        if term.is_number and term.is_real:
            beside += sympy.Rational(term)
        else:
            sized.append(_sized(term))
    if len(sized) != 1 or sized[0] is None or (isinstance(e, TruncToInt) and beside < 0):
        return None
    size, ratio = sized[0]
    below = int(sympy.ilcm(ratio.q, beside.q))
    if ratio.p <= 0 or max(ratio.p, below, abs(beside.p)) > _MOST:
        return None
    return size * int(ratio * below) + int(beside * below), below


def _sized(term: sympy.Expr) -> tuple[sympy.Expr, sympy.Rational] | None:
    ratio = sympy.Integer(1)
    sizes = []
    for factor in sympy.Mul.make_args(term):
        if isinstance(factor, ToFloat):
            sizes.append((factor.args[0], 1))
        elif isinstance(factor, IntTrueDiv) and factor.args[1].is_Integer:
            sizes.append((factor.args[0], int(factor.args[1])))
        elif factor.is_number and factor.is_real:
            ratio *= sympy.Rational(factor)
        else:
            return None
    # Of a quotient that was rounded before no multiple is exact.
    if len(sizes) != 1 or (sizes[0][1] != 1 and ratio != 1) or sizes[0][1] <= 0:
        return None
    return sizes[0][0], ratio / sizes[0][1]


def dims_of(values: Iterable[Any]) -> tuple[Dim, ...]:
    return tuple(dim_of(value) for value in values)


def dense_order(shape: Sequence[Dim], strides: Sequence[Dim]) -> tuple[int, ...] | None:
    """The axes from the outermost in memory to the innermost, as they are where that is one such
    order; None where elements do not lie side by side, or extents or strides are open.
    """
    as_it_is = tuple(range(len(shape)))
    if not all(isinstance(dim, int) for dim in (*shape, *strides)):
        return None

    def is_dense(order: Sequence[int]) -> bool:
        step = 1
        for axis in reversed(order):
            if shape[axis] != 1 and strides[axis] != step:
                return False
            step *= shape[axis]
        return True

    by_stride = tuple(sorted(as_it_is, key=lambda axis: -strides[axis]))
    return next((order for order in (as_it_is, by_stride) if is_dense(order)), None)


def strides_of(tensor: torch.Tensor) -> tuple[Dim, ...]:
    """Strides, where torch's guard against axes of no elements is left out: such have no place."""

    def is_guarded(e: sympy.Expr) -> bool:
        return isinstance(e, (Max, sympy.Max)) and len(e.args) == 2 and 1 in e.args

    def unguarded(e: sympy.Expr) -> sympy.Expr:
        return next(arg for arg in e.args if arg != 1)

    strides = []
    for dim in dims_of(tensor.stride()):
        if not isinstance(dim, int):
            dim = plain(dim.replace(is_guarded, unguarded))
        strides.append(dim)
    return tuple(strides)


def plain(dim: Any) -> Dim:
    """An expression that is a number as an int."""
    if isinstance(dim, int):
        return dim
    return int(dim) if dim.is_Integer else dim


def product(dims: Iterable[Dim]) -> Dim:
    total: Any = 1
    for dim in dims:
        total = total * dim
    return plain(sympy.sympify(total))


def difference(a: Dim, b: Dim) -> Dim:
    """Its terms written out: equal ones are none."""
    return plain(sympy.expand(sympy.sympify(a) - b))


def floor_div(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return plain(FloorDiv(a, b))


def symbols_of(dims: Iterable[Dim]) -> set[str]:
    return {s.name for dim in dims if not isinstance(dim, int) for s in dim.free_symbols}


def extent_of(dim: Dim) -> int | Extent:
    """As the graph builder takes it."""
    return dim if isinstance(dim, int) else _evaluate(dim, Extent.open)


def source_of(dim: Dim) -> str:
    """A Python expression over variables of the symbols' names."""
    return str(dim) if isinstance(dim, int) else str(_evaluate(dim, _Source))


class _Source:
    """Python source that is put together by arithmetic."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Any) -> "_Source":
        return _Source(f"({self} + {other})")

    def __radd__(self, other: Any) -> "_Source":
        return _Source(f"({other} + {self})")

    def __sub__(self, other: Any) -> "_Source":
        return _Source(f"({self} - {other})")

    def __mul__(self, other: Any) -> "_Source":
        return _Source(f"({self} * {other})")

    def __rmul__(self, other: Any) -> "_Source":
        return _Source(f"({other} * {self})")

    def __floordiv__(self, other: Any) -> "_Source":
        return _Source(f"({self} // {other})")

    def __rfloordiv__(self, other: Any) -> "_Source":
        return _Source(f"({other} // {self})")


def _evaluate(e: sympy.Expr, leaf: Any) -> Any:
    if e.is_Integer:
        return int(e)
    if isinstance(e, sympy.Symbol):
        return leaf(e.name)
    args = [_evaluate(arg, leaf) for arg in e.args if not arg.is_Rational or arg.is_Integer]
    if isinstance(e, sympy.Add) and len(args) == len(e.args):
        total = args[0]
        for arg in args[1:]:
            total = total + arg
        return total
    if isinstance(e, sympy.Mul):
        return _product(e, args)
    if isinstance(e, sympy.Pow) and isinstance(args[-1], int) and args[-1] > 0:
        total = args[0]
        for _ in range(args[1] - 1):
            total = total * args[0]
        return total
    if isinstance(e, (FloorDiv, CleanDiv)):
        return args[0] // args[1]
    if isinstance(e, (Mod, PythonMod)):
        return args[0] - args[1] * (args[0] // args[1])
    raise Refused(f"the size {e} is none that weft's extents express")


def _product(e: sympy.Expr, args: list[Any]) -> Any:
    total: Any = 1
    for arg in args:
        total = arg if isinstance(total, int) and total == 1 else total * arg
    if len(args) == len(e.args):
        return total
    (ratio,) = [arg for arg in e.args if arg.is_Rational and not arg.is_Integer]
    return total * int(ratio.p) // int(ratio.q)

"""The graph builder with types and shapes at hand."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloatTrueDiv, IntTrueDiv, ToFloat

from weft import GraphBuilder
from weft._weft import GraphTensor
from weft.torch.extents import Dim, extent_of, plain, product
from weft.torch.refused import Refused

_NAMES = {
    torch.bool: "bool",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}
_TORCH_TYPES = {name: dtype for dtype, name in _NAMES.items()}


def type_name(dtype: torch.dtype) -> str:
    """weft's name of an element type; refuses those that weft lacks."""
    name = _NAMES.get(dtype)
    if name is None:
        raise Refused(f"weft has no elements of {dtype}")
    return name


def part_type(dtype: torch.dtype) -> str:
    """The same of the parts of complex numbers."""
    return type_name(dtype.to_real() if dtype.is_complex else dtype)


def torch_type(name: str) -> torch.dtype:
    return _TORCH_TYPES[name]


@dataclass(frozen=True)
class Value:
    """A tensor of the graph that is built."""

    tensor: GraphTensor
    dtype: str
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype


@dataclass(frozen=True)
class Complex:
    """Complex numbers: their parts, of one type and shape."""

    real: Value
    imaginary: Value

    @property
    def dtype(self) -> str:
        """Of the parts."""
        return self.real.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.real.shape

    @property
    def rank(self) -> int:
        return self.real.rank


Operand = Value | int | float | bool | sympy.Expr


class Emitter:
    """Operations on Values. Operands of one operation have one type and broadcast."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.b = builder
        self.node: Any = None
        #: Type and shape of each result of the node that is lowered.
        self.node_outputs: list[Any] = []
        #: Of random numbers; None: weft draws it.
        self.seed: Value | None = None

    # What the node makes.
    @property
    def dtype(self) -> str:
        return self.node_outputs[0][0]

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.node_outputs[0][1]

    # Values.
    def input(self, name: str, dtype: str, shape: Sequence[Dim]) -> Value:
        extents = [extent_of(dim) for dim in shape]
        return Value(self.b.input(name, dtype, extents), dtype, tuple(shape))

    def scalar(self, value: Any, dtype: str) -> Value:
        if isinstance(value, sympy.Expr) and value.has(ToFloat, IntTrueDiv, FloatTrueDiv):
            return self.convert(self._real(value), dtype)
        if isinstance(value, sympy.Expr) and not value.is_number:
            whole = Value(self.b.value_of(extent_of(value)), "int64", ())
            return self.convert(whole, dtype)
        if isinstance(value, sympy.Expr):
            value = int(value) if value.is_Integer else float(value)
        if isinstance(value, bool):
            value = int(value)
        if isinstance(value, complex):
            raise Refused("it has a complex number")
        if isinstance(value, float) and "int" in dtype:
            value = int(value)
        return Value(self.b.scalar(dtype, value), dtype, ())

    def _real(self, value: sympy.Expr) -> Value:
        """What torch computes of sizes in Python's floats."""
        if value.is_number:
            return self.scalar(float(value), "float64")
        parts = [] if isinstance(value, sympy.Symbol) else value.args
        if isinstance(value, ToFloat):
            return self.scalar(value.args[0], "float64")
        if isinstance(value, IntTrueDiv):
            above, below = (self.scalar(part, "float64") for part in parts)
            return self.apply("div", above, below)
        if isinstance(value, FloatTrueDiv):
            return self.apply("div", *map(self._real, parts))
        if isinstance(value, (sympy.Add, sympy.Mul)):
            op = "add" if isinstance(value, sympy.Add) else "mul"
            return functools.reduce(lambda a, b: self.apply(op, a, b), map(self._real, parts))
        raise Refused(f"it reads {value}, which weft does not compute")

    def full(self, value: Any, dtype: str, shape: Sequence[Dim]) -> Value:
        return self.broadcast(self.scalar(value, dtype), shape)

    def iota(self, dtype: str, shape: Sequence[Dim], axis: int = 0) -> Value:
        extents = [extent_of(dim) for dim in shape]
        return Value(self.b.iota(dtype, extents, axis), dtype, tuple(shape))

    def declare_seed(self) -> None:
        """The seed is an input, the last one so far."""
        self.seed = self.input("random seed", "int64", ())

    def random(self, distribution: str, dtype: str, shape: Sequence[Dim]) -> Value:
        """ "uniform" in [0, 1), "normal" of variance 1."""
        extents = [extent_of(dim) for dim in shape]
        seed = None if self.seed is None else self.seed.tensor
        return Value(self.b.random(distribution, dtype, extents, seed), dtype, tuple(shape))

    def of(self, operand: Operand, dtype: str) -> Value:
        """A number or a Value, converted."""
        if isinstance(operand, Value):
            return self.convert(operand, dtype)
        return self.scalar(operand, dtype)

    # Elementwise.
    def convert(self, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        return Value(self.b.convert(x.tensor, dtype), dtype, x.shape)

    def apply(self, op: str, *operands: Value, dtype: str | None = None) -> Value:
        """`dtype`: of the result, where it is another than the operands'."""
        shape: tuple[Dim, ...] = ()
        for operand in operands:
            shape = broadcast_shape(shape, operand.shape)
        made = self.b.elementwise(op, [operand.tensor for operand in operands])
        return Value(made, dtype or operands[-1].dtype, shape)

    def add(self, a: Value, b: Operand) -> Value:
        return self.apply("add", a, self.of(b, a.dtype))

    def sub(self, a: Value, b: Operand) -> Value:
        return self.apply("sub", a, self.of(b, a.dtype))

    def mul(self, a: Value, b: Operand) -> Value:
        return self.apply("mul", a, self.of(b, a.dtype))

    def div(self, a: Value, b: Operand) -> Value:
        return self.apply("div", a, self.of(b, a.dtype))

    def compare(self, op: str, a: Value, b: Operand) -> Value:
        return self.apply(op, a, self.of(b, a.dtype), dtype="bool")

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        return self.apply("select", condition, then, otherwise)

    # Movement.
    def broadcast(self, x: Value, shape: Sequence[Dim]) -> Value:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        extents = [extent_of(dim) for dim in shape]
        return Value(self.b.broadcast_to(x.tensor, extents), x.dtype, shape)

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        shape = tuple(plain(dim) for dim in shape)
        if x.shape == shape:
            return x
        return Value(self.b.reshape(x.tensor, [extent_of(d) for d in shape]), x.dtype, shape)

    def permute(self, x: Value, axes: Sequence[int]) -> Value:
        axes = [axis % x.rank for axis in axes]
        if axes == list(range(x.rank)):
            return x
        shape = tuple(x.shape[axis] for axis in axes)
        return Value(self.b.transpose(x.tensor, axes), x.dtype, shape)

    def swap(self, x: Value, a: int, b: int) -> Value:
        axes = list(range(x.rank))
        axes[a], axes[b] = axes[b], axes[a]
        return self.permute(x, axes)

    def unsqueeze(self, x: Value, axis: int) -> Value:
        axis = axis % (x.rank + 1)
        return self.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))

    def slice(self, x: Value, axis: int, start: Dim, extent: Dim, step: int = 1) -> Value:
        """Elements start + k * step of one axis, `extent` of them."""
        if start == 0 and step == 1 and extent == x.shape[axis]:
            return x
        starts: list[Dim] = [0] * x.rank
        steps, extents = [1] * x.rank, list(x.shape)
        starts[axis], steps[axis], extents[axis] = start, step, extent
        made = self.b.slice(
            x.tensor, [extent_of(d) for d in starts], steps, [extent_of(d) for d in extents]
        )
        return Value(made, x.dtype, tuple(extents))

    def pad(self, x: Value, low: Sequence[Dim], high: Sequence[Dim], fill: Any = 0) -> Value:
        if all(amount == 0 for amount in (*low, *high)):
            return x
        scalar = self.scalar(fill, x.dtype).tensor
        lows, highs = [extent_of(d) for d in low], [extent_of(d) for d in high]
        shape = tuple(plain(d + lo + hi) for d, lo, hi in zip(x.shape, low, high))
        return Value(self.b.pad(x.tensor, scalar, lows, highs), x.dtype, shape)

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        axis = axis % xs[0].rank
        if len(xs) == 1:
            return xs[0]
        total: Any = 0
        for x in xs:
            total = total + x.shape[axis]
        shape = (*xs[0].shape[:axis], plain(total), *xs[0].shape[axis + 1 :])
        return Value(self.b.concat([x.tensor for x in xs], axis), xs[0].dtype, shape)

    # Complex numbers in memory: the parts of each beside each other.
    def parts_of(self, x: Value) -> Complex:
        """Of x [..., 2]."""
        at = lambda i: self.reshape(self.slice(x, x.rank - 1, i, 1), x.shape[:-1])
        return Complex(at(0), at(1))

    def in_memory(self, made: Value | Complex) -> Value:
        return self.interleave(made) if isinstance(made, Complex) else made

    def interleave(self, z: Complex) -> Value:
        return self.concat([self.unsqueeze(part, -1) for part in (z.real, z.imaginary)], -1)

    # Reductions and products.
    def reduce(self, combiner: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        axes = sorted({axis % x.rank for axis in axes}) if x.rank else []
        if not axes:
            return x
        shape = tuple(
            1 if i in axes else dim for i, dim in enumerate(x.shape) if keep or i not in axes
        )
        return Value(self.b.reduce(combiner, x.tensor, axes, keep), x.dtype, shape)

    def dot(
        self,
        a: Value,
        b: Value,
        contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> Value:
        """Halves are summed as float32 and rounded to what they are."""
        wide = "float32" if a.dtype in ("float16", "bfloat16") else a.dtype
        made = self.b.dot_general(
            a.tensor, b.tensor, contract[0], contract[1], batch[0], batch[1], wide
        )
        shape = [a.shape[i] for i in batch[0]]
        shape += [d for i, d in enumerate(a.shape) if i not in (*contract[0], *batch[0])]
        shape += [d for i, d in enumerate(b.shape) if i not in (*contract[1], *batch[1])]
        return self.convert(Value(made, wide, tuple(shape)), a.dtype)

    def count(self, x: Value, axes: Sequence[int]) -> Dim:
        return product(x.shape[axis] for axis in axes)


def broadcast_shape(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(y if x == 1 else x for x, y in zip(a, b))

"""Complex numbers, as two tensors: their real and imaginary parts."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy

from weft.torch.lowering.emitter import Complex, Emitter, Operand, Value
from weft.torch.lowering.products import bmm, mm, mv, plus
from weft.torch.lowering.registry import lowering_of, lowers_complex
from weft.torch.refused import Refused

#: What moves or adds up numbers does so to each part. Their arguments that are numbers of the
#: result's kind, by their places; those of others are one, the first.
_MOVES = (
    "view", "reshape", "_unsafe_view", "view_copy", "squeeze", "unsqueeze", "expand", "permute",
    "transpose", "t", "slice", "select", "split_with_sizes", "split", "unbind", "flip", "repeat",
    "diagonal", "as_strided", "unfold", "clone", "alias", "detach", "lift_fresh_copy", "index",
    "_unsafe_index", "index_select", "gather", "embedding", "sum", "mean", "cumsum", "neg",
    "zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided",
    "new_empty_strided", "empty_permuted", "cat", "stack",
)  # fmt: skip
_PLACES = {
    "add": (0, 1), "sub": (0, 1), "rsub": (0, 1), "where": (1, 2), "copy": (0, 1),
    "slice_scatter": (0, 1), "select_scatter": (0, 1), "diagonal_scatter": (0, 1),
    "as_strided_scatter": (0, 1), "index_put": (0, 2), "_unsafe_index_put": (0, 2),
    "scatter_add": (0, 3), "constant_pad_nd": (0, 2), "full": (1,), "full_like": (1,),
    "new_full": (2,), "scalar_tensor": (0,),
}  # fmt: skip


def _part(e: Emitter, operand: Any, imaginary: bool) -> Any:
    """Of an operand: a tensor, a list of them, or a number."""
    if isinstance(operand, (list, tuple)):
        return [_part(e, each, imaginary) for each in operand]
    if isinstance(operand, Complex):
        return operand.imaginary if imaginary else operand.real
    if isinstance(operand, complex):
        return operand.imag if imaginary else operand.real
    if not imaginary or operand is None:
        return operand
    return e.full(0, e.dtype, operand.shape) if isinstance(operand, Value) else 0


def _joined(real: Any, imaginary: Any) -> Any:
    if isinstance(real, tuple):
        return tuple(map(_joined, real, imaginary))
    return Complex(real, imaginary)


def _by_parts(places: Sequence[int]) -> Callable[..., Any]:
    def lower(e: Emitter, *args: Any, **kwargs: Any) -> Any:
        function = lowering_of(e.node)

        def part(imaginary: bool) -> Any:
            given = [_part(e, a, imaginary) if i in places else a for i, a in enumerate(args)]
            return function(e, *given, **kwargs)

        return _joined(part(False), part(True))

    return lower


for _name in _MOVES:
    lowers_complex(f"aten.{_name}")(_by_parts((0,)))
for _name, _places in _PLACES.items():
    lowers_complex(f"aten.{_name}")(_by_parts(_places))


def _lifted(e: Emitter, operand: Any, dtype: str) -> Complex:
    """An operand as complex numbers whose parts have the type."""
    if isinstance(operand, Complex):
        return Complex(e.convert(operand.real, dtype), e.convert(operand.imaginary, dtype))
    if isinstance(operand, complex):
        return Complex(e.scalar(operand.real, dtype), e.scalar(operand.imag, dtype))
    real = e.of(operand, dtype)
    return Complex(real, e.full(0, dtype, real.shape))


def _is_real(operand: Any) -> bool:
    return isinstance(operand, (Value, int, float, bool, sympy.Expr))


@lowers_complex("aten.ones", "aten.ones_like", "aten.new_ones")
def _ones(e: Emitter, *_: Any, **__: Any) -> Complex:
    return Complex(e.full(1, e.dtype, e.shape), e.full(0, e.dtype, e.shape))


@lowers_complex("aten._to_copy.default", "prims.convert_element_type.default")
def _to_copy(e: Emitter, x: Complex | Value, *args: Any, **kwargs: Any) -> Complex | Value:
    copied = lambda part: lowering_of(e.node)(e, part, *args, **kwargs)
    if not e.node.meta["val"].is_complex():
        assert isinstance(x, Complex)
        return copied(x.real)
    z = _lifted(e, x, e.dtype)
    return Complex(copied(z.real), copied(z.imaginary))


# Parts.
@lowers_complex("aten.view_as_real.default", "aten.view_as_real_copy.default")
def _view_as_real(e: Emitter, z: Complex) -> Value:
    return e.interleave(z)


@lowers_complex("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def _view_as_complex(e: Emitter, x: Value) -> Complex:
    return e.parts_of(x)


@lowers_complex("aten.real.default")
def _real(e: Emitter, z: Complex) -> Value:
    return z.real


@lowers_complex("aten.imag.default")
def _imag(e: Emitter, z: Complex) -> Value:
    return z.imaginary


@lowers_complex("aten.complex.default")
def _complex(e: Emitter, real: Value, imaginary: Value) -> Complex:
    return Complex(e.broadcast(real, e.shape), e.broadcast(imaginary, e.shape))


@lowers_complex("aten.polar.default")
def _polar(e: Emitter, size: Value, angle: Value) -> Complex:
    cosine, sine = e.apply("cos", angle), e.apply("sin", angle)
    return Complex(e.apply("mul", size, cosine), e.apply("mul", size, sine))


@lowers_complex("aten._conj", "aten._conj_physical", "aten.conj_physical", "aten.resolve_conj")
def _conj(e: Emitter, z: Complex | complex) -> Complex:
    x = _lifted(e, z, e.dtype)
    if e.node.target.__name__.startswith("resolve"):
        return x
    return Complex(x.real, e.apply("neg", x.imaginary))


# Arithmetic.
def _times(e: Emitter, x: Complex, y: Complex, product: Any) -> Complex:
    """By some kind of product of their parts."""
    return Complex(
        e.apply("sub", product(x.real, y.real), product(x.imaginary, y.imaginary)),
        e.apply("add", product(x.real, y.imaginary), product(x.imaginary, y.real)),
    )


def _each_part(z: Complex, change: Callable[[Value], Value]) -> Complex:
    return Complex(change(z.real), change(z.imaginary))


@lowers_complex("aten.mul.Tensor", "aten.mul.Scalar", "prims.mul.default")
def _mul(e: Emitter, a: Any, b: Any) -> Complex:
    if _is_real(a):
        a, b = b, a
    if _is_real(b):
        factor = e.of(b, e.dtype)
        return _each_part(_lifted(e, a, e.dtype), lambda part: e.apply("mul", part, factor))
    product = lambda x, y: e.apply("mul", x, y)
    return _times(e, _lifted(e, a, e.dtype), _lifted(e, b, e.dtype), product)


def _larger_part(e: Emitter, z: Complex) -> Value:
    return e.apply("max", e.apply("abs", z.real), e.apply("abs", z.imaginary))


def _divided(e: Emitter, x: Complex, y: Complex) -> Complex:
    """The divisor's larger part becomes 1, so that its square neither overflows nor vanishes."""
    size = _larger_part(e, y)
    unit = _each_part(y, lambda part: e.apply("div", part, size))
    square = e.add(e.mul(unit.real, unit.real), e.mul(unit.imaginary, unit.imaginary))
    turned = Complex(unit.real, e.apply("neg", unit.imaginary))
    z = _times(e, x, turned, lambda a, b: e.apply("mul", a, b))
    return _each_part(z, lambda part: e.apply("div", e.apply("div", part, square), size))


@lowers_complex("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide")
def _div(e: Emitter, a: Any, b: Any) -> Complex:
    x = _lifted(e, a, e.dtype)
    if _is_real(b):
        return _each_part(x, lambda part: e.apply("div", part, e.of(b, e.dtype)))
    return _divided(e, x, _lifted(e, b, e.dtype))


@lowers_complex("aten.reciprocal.default")
def _reciprocal(e: Emitter, z: Complex) -> Complex:
    return _divided(e, _lifted(e, 1.0, e.dtype), z)


@lowers_complex("aten.abs.default", "prims.abs.default")
def _abs(e: Emitter, z: Complex) -> Value:
    """sqrt(re^2 + im^2) without the squares' overflow."""
    large = _larger_part(e, z)
    small = e.apply("min", e.apply("abs", z.real), e.apply("abs", z.imaginary))
    ratio = e.apply("div", small, large)
    root = e.apply("sqrt", e.add(e.mul(ratio, ratio), 1))
    infinite = e.apply("is_inf", large, dtype="bool")
    as_it_is = e.apply("or", e.compare("eq", large, 0), infinite)
    return e.select(as_it_is, large, e.mul(large, root))


@lowers_complex("aten.angle.default")
def _angle(e: Emitter, z: Complex) -> Value:
    return e.apply("atan2", z.imaginary, z.real)


@lowers_complex("aten.sgn.default")
def _sgn(e: Emitter, z: Complex) -> Complex:
    size = _abs(e, z)
    nothing, zero = e.compare("eq", size, 0), e.scalar(0, e.dtype)
    return _each_part(z, lambda part: e.select(nothing, zero, e.div(part, size)))


@lowers_complex("aten.exp.default")
def _exp(e: Emitter, z: Complex) -> Complex:
    return _polar(e, e.apply("exp", z.real), z.imaginary)


@lowers_complex("aten.log.default")
def _log(e: Emitter, z: Complex) -> Complex:
    return Complex(e.apply("log", _abs(e, z)), _angle(e, z))


@lowers_complex("aten.pow.Tensor_Scalar")
def _pow(e: Emitter, z: Complex, power: Any) -> Complex:
    if not isinstance(power, (int, float)) or power != int(power) or not 1 <= power <= 4:
        raise Refused(f"it raises complex numbers to the power {power}")
    product = lambda a, b: e.apply("mul", a, b)
    return functools.reduce(lambda x, _: _times(e, x, z, product), range(int(power) - 1), z)


@lowers_complex("aten.eq", "aten.ne")
def _equal(e: Emitter, a: Operand | Complex, b: Operand | Complex) -> Value:
    like = a if isinstance(a, Complex) else b
    assert isinstance(like, Complex)
    x, y = _lifted(e, a, like.dtype), _lifted(e, b, like.dtype)
    is_ne = e.node.target.__name__.startswith("ne")
    parts = [
        e.compare("ne" if is_ne else "eq", left, right)
        for left, right in ((x.real, y.real), (x.imaginary, y.imaginary))
    ]
    return e.apply("or" if is_ne else "and", *parts)


# Products.
def _product(e: Emitter, a: Complex | Value, b: Complex | Value, product: Any) -> Any:
    of = functools.partial(product, e)
    if isinstance(a, Value):
        assert isinstance(b, Complex)
        return _each_part(b, lambda part: of(a, part))
    if isinstance(b, Value):
        return _each_part(a, lambda part: of(part, b))
    return _times(e, a, b, of)


for _name, _kind in {"mm": mm, "bmm": bmm, "mv": mv, "dot": mv}.items():
    lowers_complex(f"aten.{_name}.default")(functools.partial(_product, product=_kind))


def _plus_product(kind: Any) -> Any:
    def lower(e: Emitter, c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Complex:
        made, added = _product(e, a, b, kind), _lifted(e, c, e.dtype)
        return Complex(
            plus(e, added.real, made.real, beta, alpha),
            plus(e, added.imaginary, made.imaginary, beta, alpha),
        )

    return lower


for _name, _kind in {"addmm": mm, "baddbmm": bmm, "addmv": mv}.items():
    lowers_complex(f"aten.{_name}.default")(_plus_product(_kind))


# Fourier transforms.
def _transformed(
    e: Emitter, z: Complex | Value, axis: int, inverse: bool, bins: int = 0
) -> Complex:
    real, imaginary = (z.real, z.imaginary) if isinstance(z, Complex) else (z, None)
    given = None if imaginary is None else imaginary.tensor
    made = e.b.fourier(real.tensor, given, axis, inverse, bins)
    shape = list(real.shape)
    shape[axis] = bins or shape[axis]
    return Complex(*(Value(part, real.dtype, tuple(shape)) for part in made))


def _points(x: Complex | Value, axes: Sequence[int]) -> list[int]:
    points = [x.shape[axis] for axis in axes]
    if not all(isinstance(count, int) for count in points):
        raise Refused("the length of its Fourier transform is open")
    return points  # type: ignore[return-value]


def _factor(points: Sequence[int], normalization: int, done: float) -> float:
    """What is left to multiply by, where `done` is what the transforms did: torch's 0 is 1, 1 the
    root of 1 / n, 2 is 1 / n."""
    count = math.prod(points)
    return (1.0, count**-0.5, 1 / count)[normalization] / done


def _scaled(e: Emitter, x: Value, factor: float) -> Value:
    return x if factor == 1 else e.mul(x, factor)


@lowers_complex("aten._fft_r2c.default")
def _fft_r2c(e: Emitter, x: Value, axes: list[int], norm: int, onesided: bool) -> Complex:
    axes = [axis % x.rank for axis in axes]
    points = _points(x, axes)
    z = _transformed(e, x, axes[-1], False, points[-1] // 2 + 1 if onesided else 0)
    for axis in axes[:-1]:
        z = _transformed(e, z, axis, False)
    return _each_part(z, lambda part: _scaled(e, part, _factor(points, norm, 1)))


@lowers_complex("aten._fft_c2c.default")
def _fft_c2c(e: Emitter, z: Complex, axes: list[int], norm: int, forward: bool) -> Complex:
    axes = [axis % z.rank for axis in axes]
    points = _points(z, axes)
    for axis in axes:
        z = _transformed(e, z, axis, not forward)
    factor = _factor(points, norm, 1 if forward else 1 / math.prod(points))
    return _each_part(z, lambda part: _scaled(e, part, factor))


@lowers_complex("aten._fft_c2r.default")
def _fft_c2r(e: Emitter, z: Complex, axes: list[int], norm: int, length: int) -> Value:
    axes = [axis % z.rank for axis in axes]
    points = [*_points(z, axes)[:-1], length]
    for axis in axes[:-1]:
        z = _transformed(e, z, axis, True)
    made = e.b.real_fourier_inverse(z.real.tensor, z.imaginary.tensor, axes[-1], length)
    signal = Value(made, z.dtype, e.shape)
    return _scaled(e, signal, _factor(points, norm, 1 / math.prod(points)))

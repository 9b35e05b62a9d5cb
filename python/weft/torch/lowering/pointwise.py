"""Operations element by element."""

import math
from typing import Any

from weft.torch.lowering.emitter import Emitter, Operand, Value, type_name
from weft.torch.lowering.promotion import promoted
from weft.torch.lowering.registry import lowers
from weft.torch.refused import Refused

_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
    "atan": "atan", "atanh": "atanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf",
    "exp": "exp", "expm1": "expm1", "floor": "floor", "log": "log", "log1p": "log1p", "neg": "neg",
    "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sign": "sign", "sin": "sin", "sinh": "sinh",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip


def _unary(op: str) -> Any:
    def lower(e: Emitter, x: Value) -> Value:
        x = e.convert(x, e.dtype)
        if not x.is_float and op in ("ceil", "floor", "trunc"):
            return x
        return e.apply(op, x)

    return lower


for _name, _op in _UNARY.items():
    lowers(f"aten.{_name}.default", f"prims.{_name}.default")(_unary(_op))


@lowers("aten.round.default", "prims.round.default")
def _round(e: Emitter, x: Value) -> Value:
    return e.apply("round_even", x) if x.is_float else x


@lowers("aten.log2.default", "aten.log10.default", "aten.exp2.default")
def _other_base(e: Emitter, x: Value) -> Value:
    x = e.convert(x, e.dtype)
    name = e.node.target.__name__.split(".")[0]
    if name == "exp2":
        return e.apply("exp", e.mul(x, math.log(2)))
    return e.mul(e.apply("log", x), 1 / math.log(2 if name == "log2" else 10))


@lowers("aten.reciprocal.default")
def _reciprocal(e: Emitter, x: Value) -> Value:
    return e.div(e.scalar(1, e.dtype), e.convert(x, e.dtype))


@lowers("aten.relu.default")
def _relu(e: Emitter, x: Value) -> Value:
    return e.apply("max", x, e.scalar(0, x.dtype))


@lowers("aten.logical_not.default")
def _logical_not(e: Emitter, x: Value) -> Value:
    return e.apply("not", e.convert(x, "bool"))


@lowers("aten.bitwise_not.default")
def _bitwise_not(e: Emitter, x: Value) -> Value:
    return e.apply("not", x)


@lowers("aten.isnan.default")
def _isnan(e: Emitter, x: Value) -> Value:
    return e.compare("ne", x, x) if not x.is_float else e.apply("is_nan", x, dtype="bool")


@lowers("aten.isinf.default")
def _isinf(e: Emitter, x: Value) -> Value:
    return e.compare("ne", x, x) if not x.is_float else e.apply("is_inf", x, dtype="bool")


@lowers("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
def _sum(e: Emitter, a: Operand, b: Operand, alpha: Any = 1) -> Value:
    op = "sub" if "sub" in e.node.target.__name__ else "add"
    right = e.of(b, e.dtype)
    if alpha != 1:
        right = e.mul(right, alpha)
    if e.dtype == "bool":
        op = "or"
    return e.apply(op, e.of(a, e.dtype), right)


@lowers("aten.rsub.Scalar", "aten.rsub.Tensor")
def _rsub(e: Emitter, a: Value, b: Operand, alpha: Any = 1) -> Value:
    left = e.of(a, e.dtype)
    if alpha != 1:
        left = e.mul(left, alpha)
    return e.apply("sub", e.of(b, e.dtype), left)


@lowers("aten.mul.Tensor", "aten.mul.Scalar", "prims.mul.default")
def _mul(e: Emitter, a: Operand, b: Operand) -> Value:
    op = "and" if e.dtype == "bool" else "mul"
    return e.apply(op, e.of(a, e.dtype), e.of(b, e.dtype))


@lowers("aten.div", "aten.true_divide")
def _div(e: Emitter, a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    left, right = e.of(a, e.dtype), e.of(b, e.dtype)
    if rounding_mode is None:
        return e.apply("div", left, right)
    if "float" in e.dtype:
        rounded = "floor" if rounding_mode == "floor" else "trunc"
        return e.apply(rounded, e.apply("div", left, right))
    if rounding_mode == "floor":
        return _floor_divide(e, left, right)
    return e.apply("div", left, right)


def _floor_divide(e: Emitter, a: Value, b: Value) -> Value:
    quotient, rest = e.apply("div", a, b), e.apply("rem", a, b)
    opposite = e.compare("lt", e.apply("xor", rest, b), 0)
    inexact = e.apply("and", e.compare("ne", rest, 0), opposite)
    return e.sub(quotient, e.convert(inexact, quotient.dtype))


@lowers("aten.floor_divide.default", "aten.floor_divide.Scalar")
def _floor_divide_node(e: Emitter, a: Operand, b: Operand) -> Value:
    return _div(e, a, b, "floor")


@lowers("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def _remainder(e: Emitter, a: Operand, b: Operand) -> Value:
    left, right = e.of(a, e.dtype), e.of(b, e.dtype)
    rest = e.apply("rem", left, right)
    negative = lambda x: e.compare("lt", x, 0)
    differs = e.apply("xor", negative(rest), negative(right))
    wraps = e.apply("and", e.compare("ne", rest, 0), differs)
    return e.select(wraps, e.apply("add", rest, right), rest)


@lowers("aten.fmod.Tensor", "aten.fmod.Scalar")
def _fmod(e: Emitter, a: Operand, b: Operand) -> Value:
    return e.apply("rem", e.of(a, e.dtype), e.of(b, e.dtype))


_BINARY = {
    "maximum": "max",
    "minimum": "min",
    "atan2": "atan2",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_left_shift": "shl",
    "bitwise_right_shift": "shr",
    "__lshift__": "shl",
    "__rshift__": "shr",
}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _binary(op: str) -> Any:
    return lambda e, a, b: e.apply(op, e.of(a, e.dtype), e.of(b, e.dtype))


def _logical(op: str) -> Any:
    return lambda e, a, b: e.apply(op, e.of(a, "bool"), e.of(b, "bool"))


def _comparison(op: str) -> Any:
    def lower(e: Emitter, a: Operand, b: Operand) -> Value:
        dtype = promoted(a, b)
        if dtype == "bool":
            dtype = "uint8"
        return e.apply(op, e.of(a, dtype), e.of(b, dtype), dtype="bool")

    return lower


for _name, _op in _BINARY.items():
    lowers(f"aten.{_name}")(_binary(_op))
for _name, _op in _LOGICAL.items():
    lowers(f"aten.{_name}.default")(_logical(_op))
for _name in _COMPARISONS:
    lowers(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar", f"prims.{_name}.default")(
        _comparison(_name)
    )


@lowers("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def _pow(e: Emitter, a: Operand, b: Operand) -> Value:
    if isinstance(a, Value) and isinstance(b, (int, float)):
        x = e.convert(a, e.dtype)
        if b == 1:
            return x
        if b in (2, 3):
            square = e.mul(x, x)
            return square if b == 2 else e.mul(square, x)
        if x.is_float and b in (0.5, -0.5, -1):
            simple = {0.5: "sqrt", -0.5: "rsqrt"}
            return e.apply(simple[b], x) if b != -1 else e.div(e.scalar(1, x.dtype), x)
    return e.apply("pow", e.of(a, e.dtype), e.of(b, e.dtype))


@lowers("aten.clamp.default", "aten.clamp.Tensor", "aten.hardtanh.default")
def _clamp(e: Emitter, x: Value, low: Any = None, high: Any = None) -> Value:
    if e.node.target.__name__.startswith("hardtanh"):
        low, high = -1.0 if low is None else low, 1.0 if high is None else high
    made = e.convert(x, e.dtype)
    if low is not None:
        made = e.apply("max", made, e.of(low, e.dtype))
    if high is not None:
        made = e.apply("min", made, e.of(high, e.dtype))
    return made


@lowers("aten.clamp_min.default", "aten.clamp_min.Tensor")
def _clamp_min(e: Emitter, x: Value, low: Operand) -> Value:
    return e.apply("max", e.convert(x, e.dtype), e.of(low, e.dtype))


@lowers("aten.clamp_max.default", "aten.clamp_max.Tensor")
def _clamp_max(e: Emitter, x: Value, high: Operand) -> Value:
    return e.apply("min", e.convert(x, e.dtype), e.of(high, e.dtype))


@lowers("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def _where(e: Emitter, condition: Value, then: Operand, otherwise: Operand) -> Value:
    condition = e.convert(condition, "bool")
    return e.select(condition, e.of(then, e.dtype), e.of(otherwise, e.dtype))


@lowers("aten._to_copy.default", "prims.convert_element_type.default", "prims.device_put.default")
def _to_copy(e: Emitter, x: Value, *_: Any, device: Any = None, **__: Any) -> Value:
    if device is not None and getattr(device, "type", str(device)) not in ("cpu",):
        raise Refused(f"it copies to {device}")
    return e.convert(x, e.dtype)


@lowers(
    "aten.clone.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.lift_fresh_copy.default",
    "aten.contiguous.default",
    "aten.copy.default",
)
def _same(e: Emitter, x: Value, source: Value | None = None, *_: Any, **__: Any) -> Value:
    if source is None or not isinstance(source, Value):
        return x
    return e.broadcast(e.convert(source, e.dtype), e.shape)


@lowers("aten.gelu.default")
def _gelu(e: Emitter, x: Value, approximate: str = "none") -> Value:
    half = e.mul(x, 0.5)
    if approximate == "none":
        inner = e.apply("erf", e.mul(x, math.sqrt(0.5)))
    else:
        cube = e.mul(e.mul(x, x), x)
        inner = e.apply("tanh", e.mul(e.add(x, e.mul(cube, 0.044715)), math.sqrt(2 / math.pi)))
    return e.mul(half, e.add(inner, 1))


@lowers("aten.leaky_relu.default")
def _leaky_relu(e: Emitter, x: Value, slope: float = 0.01) -> Value:
    return e.select(e.compare("gt", x, 0), x, e.mul(x, slope))


@lowers("aten.elu.default")
def _elu(
    e: Emitter, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Value:
    below = e.mul(e.apply("expm1", e.mul(x, input_scale)), alpha * scale)
    return e.select(e.compare("gt", x, 0), e.mul(x, scale), below)


@lowers("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def _full(e: Emitter, _: Any, value: Any, *rest: Any, **__: Any) -> Value:
    value = rest[0] if e.node.target.__name__.startswith("new_full") else value
    return e.full(value, e.dtype, e.shape)


@lowers(
    "aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default",
    "aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default",
    "aten.empty_strided.default", "aten.new_empty_strided.default", "aten.empty_permuted.default",
)  # fmt: skip
def _zeros(e: Emitter, *_: Any, **__: Any) -> Value:
    return e.full(0, e.dtype, e.shape)


@lowers("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def _ones(e: Emitter, *_: Any, **__: Any) -> Value:
    return e.full(1, e.dtype, e.shape)


@lowers("aten.scalar_tensor.default")
def _scalar_tensor(e: Emitter, value: Any, **_: Any) -> Value:
    return e.scalar(value, e.dtype)


@lowers("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
def _arange(e: Emitter, first: Any, end: Any = None, step: Any = 1, **_: Any) -> Value:
    return _line(e, 0 if end is None else first, step)


@lowers("prims.iota.default")
def _iota(e: Emitter, length: Any, *, start: Any, step: Any, **_: Any) -> Value:
    return _line(e, start, step)


def _line(e: Emitter, start: Any, step: Any) -> Value:
    line = e.iota(e.dtype, e.shape)
    line = line if step == 1 else e.mul(line, step)
    return line if start == 0 else e.add(line, start)


@lowers("aten.bernoulli.p", "aten.rand.default", "aten.randn.default", "aten.native_dropout")
def _random(e: Emitter, *args: Any, **_: Any) -> Any:
    if e.node.target.__name__.startswith("native_dropout") and args[2] is False:
        return args[0], e.full(1, "bool", args[0].shape)
    raise Refused("torch draws its random numbers")


@lowers("aten.view.dtype")
def _bitcast(e: Emitter, x: Value, dtype: Any) -> Value:
    name = type_name(dtype)
    if name == "bool" or e.shape != x.shape:
        raise Refused("it views elements as such of another width")
    return Value(e.b.bitcast(x.tensor, name), name, x.shape)

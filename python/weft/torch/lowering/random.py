"""Operations that draw random numbers.

They are functions of a seed, which torch's generator draws in each run, and of the element's place.
"""

from typing import Any

from weft.torch.lowering.emitter import Emitter, Operand, Value
from weft.torch.lowering.registry import lowers
from weft.torch.refused import Refused


def _drawn(e: Emitter, distribution: str) -> Value:
    if "float" not in e.dtype:
        raise Refused(f"its random numbers are {e.dtype}")
    return e.random(distribution, e.dtype, e.shape)


@lowers("aten.rand.default", "aten.rand_like.default")
def _rand(e: Emitter, *_: Any, **__: Any) -> Value:
    return _drawn(e, "uniform")


@lowers("aten.randn.default", "aten.randn_like.default")
def _randn(e: Emitter, *_: Any, **__: Any) -> Value:
    return _drawn(e, "normal")


@lowers("aten.uniform.default")
def _uniform(e: Emitter, _: Value, low: float = 0.0, high: float = 1.0, **__: Any) -> Value:
    return e.add(e.mul(_drawn(e, "uniform"), high - low), low)


@lowers("aten.normal_functional.default")
def _normal(e: Emitter, _: Value, mean: float = 0.0, scale: float = 1.0, **__: Any) -> Value:
    return e.add(e.mul(_drawn(e, "normal"), scale), mean)


def _happens(e: Emitter, probability: Operand) -> Value:
    """A bool of the node's shape."""
    is_wide = isinstance(probability, Value) and probability.dtype == "float64"
    drawn = e.random("uniform", "float64" if is_wide else "float32", e.shape)
    return e.compare("lt", drawn, probability)


@lowers("aten.bernoulli.default")
def _bernoulli(e: Emitter, probability: Value, **__: Any) -> Value:
    return e.convert(_happens(e, probability), e.dtype)


@lowers("aten.bernoulli.p")
def _bernoulli_of(e: Emitter, _: Value, probability: float = 0.5, **__: Any) -> Value:
    return e.convert(_happens(e, probability), e.dtype)


@lowers("aten.native_dropout.default")
def _dropout(e: Emitter, x: Value, probability: float, train: bool | None) -> tuple[Value, Value]:
    if train is False or probability == 0:
        return x, e.full(True, "bool", x.shape)
    kept = _happens(e, 1.0 - probability)
    scale = 0.0 if probability == 1 else 1.0 / (1.0 - probability)
    return e.select(kept, e.mul(x, scale), e.scalar(0, x.dtype)), kept

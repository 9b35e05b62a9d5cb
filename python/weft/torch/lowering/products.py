"""Matrix products."""

from typing import Any

from weft.torch.lowering.emitter import Emitter, Value
from weft.torch.lowering.registry import lowers


@lowers("aten.mm.default")
def mm(e: Emitter, a: Value, b: Value) -> Value:
    return e.dot(a, b, ([1], [0]))


@lowers("aten.bmm.default")
def bmm(e: Emitter, a: Value, b: Value) -> Value:
    return e.dot(a, b, ([2], [1]), ([0], [0]))


@lowers("aten.mv.default", "aten.dot.default")
def mv(e: Emitter, a: Value, b: Value) -> Value:
    return e.dot(a, b, ([a.rank - 1], [0]))


def plus(e: Emitter, added: Value, made: Value, beta: Any, alpha: Any) -> Value:
    if alpha != 1:
        made = e.mul(made, alpha)
    if beta == 0:
        return made
    return e.add(made, added if beta == 1 else e.mul(added, beta))


@lowers("aten.addmm.default")
def _addmm(e: Emitter, c: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    return plus(e, c, mm(e, a, b), beta, alpha)


@lowers("aten.baddbmm.default")
def _baddbmm(e: Emitter, c: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    return plus(e, c, bmm(e, a, b), beta, alpha)


@lowers("aten.addmv.default")
def _addmv(e: Emitter, c: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    return plus(e, c, mv(e, a, b), beta, alpha)

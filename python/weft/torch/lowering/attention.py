"""torch's attention on the CPU, forward and backward, as products and a softmax."""

import math
from typing import Any

from weft.torch.extents import Dim, floor_div, product
from weft.torch.lowering.emitter import Emitter, Value
from weft.torch.lowering.registry import lowers
from weft.torch.refused import Refused

_HEADS = ((0, 1), (0, 1))


def _product(
    e: Emitter, a: Value, b: Value, contract: tuple[list[int], list[int]],
    shape: tuple[Dim, ...],
) -> Value:  # fmt: skip
    """[N, H, rows, …] by [N, H or fewer, …]: where several heads of `a` share one of `b`'s, their
    rows stand one behind another."""
    if a.shape[1] != b.shape[1]:
        shared = floor_div(a.shape[1], b.shape[1])
        rows = product((shared, a.shape[2]))
        a = e.reshape(a, (a.shape[0], b.shape[1], rows, *a.shape[3:]))
    return e.reshape(e.dot(a, b, contract, _HEADS), shape)


def _scores(e: Emitter, q: Value, k: Value, causal: bool, mask: Value | None, scale: Any) -> Value:
    """[N, H, L, S], in float32 where the operands are halves."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    shape = (*q.shape[:3], k.shape[2])
    scores = e.mul(_product(e, q, k, ([3], [3]), shape), scale)
    if q.dtype in ("float16", "bfloat16"):
        scores = e.convert(scores, "float32")
    if causal:
        shape = scores.shape[-2:]
        below = e.apply("ge", e.iota("int64", shape, 0), e.iota("int64", shape, 1), dtype="bool")
        scores = e.select(below, scores, e.scalar(-math.inf, scores.dtype))
    if mask is None:
        return scores
    if mask.dtype == "bool":
        return e.select(mask, scores, e.scalar(-math.inf, scores.dtype))
    return e.add(scores, mask)


def _checked(dropout: Any) -> None:
    if dropout:
        raise Refused("torch draws its random numbers")


@lowers("aten._scaled_dot_product_flash_attention_for_cpu.default")
def _forward(
    e: Emitter, q: Value, k: Value, v: Value, dropout: float = 0.0, causal: bool = False, *,
    attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Value, Value]:  # fmt: skip
    _checked(dropout)
    if not isinstance(q.shape[-1], int) and scale is None:
        raise Refused("the width of its heads is open")
    scores = _scores(e, q, k, causal, attn_mask, scale)
    largest = e.reduce("max", scores, [3], True)
    exponents = e.apply("exp", e.sub(scores, largest))
    total = e.reduce("sum", exponents, [3], True)
    weights = e.convert(e.div(exponents, total), q.dtype)
    result = _product(e, weights, v, ([3], [2]), (*q.shape[:3], v.shape[3]))
    log_sum = e.add(e.apply("log", total), largest)
    return result, e.convert(e.reshape(log_sum, q.shape[:3]), e.node_outputs[1][0])


@lowers("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def _backward(
    e: Emitter, grad: Value, q: Value, k: Value, v: Value, out: Value, log_sum: Value,
    dropout: float, causal: bool, *, attn_mask: Value | None = None, scale: float | None = None,
) -> tuple[Value, Value, Value]:  # fmt: skip
    _checked(dropout)
    if q.shape[1] != k.shape[1]:
        raise Refused("its heads share keys")
    scores = _scores(e, q, k, causal, attn_mask, scale)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    wide = scores.dtype
    column = e.convert(e.unsqueeze(log_sum, 3), wide)
    weights = e.apply("exp", e.sub(scores, column))
    for_v = e.dot(e.convert(weights, q.dtype), grad, ([2], [2]), _HEADS)
    for_weights = e.convert(e.dot(grad, v, ([3], [3]), _HEADS), wide)
    products = e.mul(e.convert(grad, wide), e.convert(out, wide))
    rows = e.reduce("sum", products, [3], True)
    for_scores = e.mul(e.mul(weights, e.sub(for_weights, rows)), scale)
    for_scores = e.convert(for_scores, q.dtype)
    for_q = e.dot(for_scores, k, ([3], [2]), _HEADS)
    for_k = e.dot(for_scores, q, ([2], [2]), _HEADS)
    return for_q, for_k, for_v

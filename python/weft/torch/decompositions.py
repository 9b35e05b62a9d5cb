"""Which operations torch takes apart before weft sees them."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as f
from torch._decomp import core_aten_decompositions, get_decompositions

aten = torch.ops.aten

#: Lowered as they are.
_KEPT = (
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten.gelu.default,
    aten.addmm.default,
    aten.baddbmm.default,
    aten.addmv.default,
    aten.stack.default,
)
#: Beyond the core: taken apart, because weft makes one kernel of the parts.
_MORE = (
    aten.native_layer_norm,
    aten.native_group_norm,
    aten.native_batch_norm,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten._native_batch_norm_legit.no_stats,
    aten._softmax,
    aten._log_softmax,
    aten._adaptive_avg_pool2d,
    aten.upsample_bilinear2d.vec,
    aten.upsample_nearest2d.vec,
    aten.max_pool2d_with_indices_backward,
    aten.grid_sampler_2d,
)


def _encoder_layer(
    x: torch.Tensor, width: int, heads: int, in_weight: torch.Tensor, in_bias: torch.Tensor,
    out_weight: torch.Tensor, out_bias: torch.Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: torch.Tensor, norm_bias_1: torch.Tensor, norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor, weight_1: torch.Tensor, bias_1: torch.Tensor,
    weight_2: torch.Tensor, bias_2: torch.Tensor, mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """What nn.TransformerEncoderLayer is in eval mode without gradients."""
    if mask is not None or x.dim() != 3:
        return NotImplemented

    def normed_1(y: torch.Tensor) -> torch.Tensor:
        return f.layer_norm(y, (width,), norm_weight_1, norm_bias_1, eps)

    def normed_2(y: torch.Tensor) -> torch.Tensor:
        return f.layer_norm(y, (width,), norm_weight_2, norm_bias_2, eps)

    def attended(y: torch.Tensor) -> torch.Tensor:
        split = f.linear(y, in_weight, in_bias).unflatten(-1, (3, heads, width // heads))
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.softmax(q @ k.transpose(-1, -2) * (width // heads) ** -0.5, -1)
        return f.linear((scores @ v).transpose(1, 2).flatten(2), out_weight, out_bias)

    def fed_forward(y: torch.Tensor) -> torch.Tensor:
        y = f.linear(y, weight_1, bias_1)
        return f.linear(f.gelu(y) if use_gelu else f.relu(y), weight_2, bias_2)

    if norm_first:
        x = x + attended(normed_1(x))
        return x + fed_forward(normed_2(x))
    x = normed_1(x + attended(x))
    return normed_2(x + fed_forward(x))


def _weight_norm_backward(
    grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of g v / |v|, where |v| is over all axes but one."""
    others = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    along = (grad * v).sum(others, keepdim=True) / norms
    return g / norms * (grad - v * (along / norms)), along


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    table = dict(core_aten_decompositions())
    table.update(get_decompositions(_MORE))
    for op in _KEPT:
        table.pop(op, None)
    table[aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    table[aten._weight_norm_interface_backward.default] = _weight_norm_backward
    return table

"""Which operations torch takes apart before weft sees them."""

import functools
from collections.abc import Callable
from typing import Any

import torch
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


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    table = dict(core_aten_decompositions())
    table.update(get_decompositions(_MORE))
    for op in _KEPT:
        table.pop(op, None)
    return table

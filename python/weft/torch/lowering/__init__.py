"""ATen operations as operations of weft's graph builder."""

# These register what they lower.
from weft.torch.lowering import (  # noqa: F401
    attention,
    complex,
    control_flow,
    convolution,
    indexing,
    pointwise,
    pooling,
    products,
    random,
    reductions,
    shapes,
)
from weft.torch.lowering.emitter import Complex, Emitter, Value, part_type, type_name
from weft.torch.lowering.registry import lower, lower_node

__all__ = ["Complex", "Emitter", "Value", "lower", "lower_node", "part_type", "type_name"]

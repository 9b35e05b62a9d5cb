"""ATen operations as operations of weft's graph builder."""

# These register what they lower.
from weft.torch.lowering import (  # noqa: F401
    attention,
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
from weft.torch.lowering.emitter import Emitter, Value, type_name
from weft.torch.lowering.registry import lower, lower_node

__all__ = ["Emitter", "Value", "lower", "lower_node", "type_name"]

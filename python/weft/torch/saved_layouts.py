"""How tensors lie that a forward graph saves for its backward one.

Nobody else sees them: images lie channels last, as weft's convolutions make and read them, so that
no kernel turns them around on the way out and in again.
"""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext

#: Fewer channels do not fill a vector.
_LEAST_CHANNELS = 16
#: meta: the tensor as it was traced, of a node whose strides are others here.
_TRACED = "weft_traced"


def traced(node: fx.Node) -> torch.Tensor:
    """What torch traced in the node's place: its strides are those that as_strided means."""
    return node.meta.get(_TRACED, node.meta["val"])


def lies_otherwise(node: fx.Node) -> bool:
    """Whether an input does not lie as it was traced."""
    return node.op == "placeholder" and _TRACED in node.meta


def in_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """A copy, for calls of torch's that were traced with these strides."""
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def lie_as_given(graph: fx.Graph, examples: Sequence[Any]) -> None:
    """The graph's inputs have the strides of these."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node, example in zip(placeholders, examples):
        made = node.meta.get("val")
        if not isinstance(made, torch.Tensor) or not isinstance(example, torch.Tensor):
            continue
        if made.dim() == example.dim() and made.stride() != example.stride():
            _set_strides(node, example.stride())


def lay_out_saved(graph: fx.Graph, by_torch: Collection[fx.Node]) -> None:
    """The images among what a forward graph saves lie channels last, but those that torch makes or
    reads. To be called again where more is torch's."""
    saved = _saved_outputs(graph)
    for node in saved:
        if _TRACED in node.meta:
            node.meta["val"] = node.meta.pop(_TRACED)
    images = _images_of_convolutions(graph) if saved else set()
    for node in saved & images:
        is_torchs = node in by_torch or any(user in by_torch for user in node.users)
        if not is_torchs and not any(_reads_places(user) for user in node.users):
            n, c, *size = node.meta["val"].shape
            _set_strides(node, torch.empty(n, *size, c, device="meta").movedim(-1, 1).stride())


def report_strides(graph: fx.Graph) -> None:
    """Tells torch how the outputs lie, for the backward graph."""
    context = TracingContext.try_get()
    reported = getattr(context, "output_strides", None)
    if reported is None or reported:
        return
    for node in graph.output_node().args[0][_tokens(context) :]:
        made = node.meta.get("val") if isinstance(node, fx.Node) else None
        reported.append(tuple(made.stride()) if isinstance(made, torch.Tensor) else None)


def _set_strides(node: fx.Node, strides: Sequence[Any]) -> None:
    made = node.meta["val"]
    node.meta.setdefault(_TRACED, made)
    node.meta["val"] = made.as_strided(made.shape, strides)


def _saved_outputs(graph: fx.Graph) -> set[fx.Node]:
    """What a forward graph returns for the backward one alone."""
    context = TracingContext.try_get()
    if getattr(context, "output_strides", None) is None:
        return set()
    returned = getattr(getattr(context, "fw_metadata", None), "num_forward", None)
    if returned is None:
        return set()
    outputs = [node for node in graph.output_node().args[0] if isinstance(node, fx.Node)]
    seen = set(graph.output_node().args[0][: _tokens(context) + returned])
    return {node for node in outputs if node.op == "call_function"} - seen


def _tokens(context: Any) -> int:
    """How many of a graph's outputs come first that torch does not count among them: what orders
    calls with effects, as the one that looks whether a matrix was singular."""
    if torch._functorch.config.unlift_effect_tokens:
        return 0
    return len(getattr(getattr(context, "fw_metadata", None), "tokens", ()))


def _reads_places(node: fx.Node) -> bool:
    return node.op == "call_function" and "as_strided" in str(node.target)


def _is_image(node: fx.Node) -> bool:
    made = node.meta.get("val")
    return (
        isinstance(made, torch.Tensor)
        and made.dim() in (4, 5)
        and made.device.type == "cpu"
        and all(isinstance(extent, int) for extent in made.shape)
        and made.shape[1] >= _LEAST_CHANNELS
        and made.is_contiguous()
    )


def _images_of_convolutions(graph: fx.Graph) -> set[fx.Node]:
    """Images that convolutions make or read, and what is computed of these place by place."""
    near: dict[fx.Node, set[fx.Node]] = {}

    def images_behind(node: fx.Node) -> list[fx.Node]:
        """Of a call with several results: what it reads."""
        made = node.meta.get("val")
        reads = node.all_input_nodes if isinstance(made, (tuple, list)) else [node]
        return [read for read in reads if _is_image(read)]

    starts: list[fx.Node] = []
    for node in graph.nodes:
        if node.op != "call_function" or not _is_image(node):
            continue
        is_convolution = node.target is torch.ops.aten.convolution.default
        reads = node.args[:1] if is_convolution else node.all_input_nodes
        for read in [image for each in reads for image in images_behind(each)]:
            same_places = read.meta["val"].shape[0] == node.meta["val"].shape[0]
            if same_places and read.meta["val"].dim() == node.meta["val"].dim():
                near.setdefault(node, set()).add(read)
                near.setdefault(read, set()).add(node)
        if is_convolution:
            starts.append(node)
    found: set[fx.Node] = set()
    while starts:
        node = starts.pop()
        if node not in found:
            found.add(node)
            starts += near.get(node, ())
    return found

"""Which parts of a graph weft compiles, and what stays with torch."""

import logging
import operator
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

import weft
from weft.torch.extents import dims_of, hint_of
from weft.torch.lowering import Complex, Emitter, Value, lower_node, part_type
from weft.torch.lowering.registry import is_number, subgraph_of
from weft.torch.refused import Refused

log = logging.getLogger("weft.torch")

#: What a lowering raises that did not expect what it was given: torch runs the call.
_DEFECTS = (weft.Error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

#: What torch does by looking at the same memory in another way.
_VIEWS = {
    "view", "reshape", "_unsafe_view", "squeeze", "unsqueeze", "permute", "transpose", "t",
    "expand", "slice", "select", "alias", "detach", "split_with_sizes", "split", "unbind",
    "getitem",
}  # fmt: skip
_EMPTY = {"empty", "empty_like", "new_empty", "empty_strided", "empty_permuted"}


def name_of(node: fx.Node) -> str:
    """ "add" of aten.add.Tensor."""
    return getattr(node.target, "__name__", str(node.target)).split(".")[0]


def declare(e: Emitter, node: fx.Node) -> Value | Complex:
    """What a node makes as an input, complex numbers with their parts as a last axis; refuses what
    weft cannot read."""
    made = node.meta.get("val")
    if isinstance(made, torch.Tensor):
        shape, dtype = dims_of(made.shape), part_type(made.dtype)
        if made.is_complex():
            return e.parts_of(e.input(node.name, dtype, (*shape, 2)))
        return e.input(node.name, dtype, shape)
    raise Refused("it makes no tensor")


def is_random(node: fx.Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags


def find_refusals(graph: fx.Graph, fallback_random: bool = False) -> dict[fx.Node, str]:
    """The calls that weft does not take, each with its reason; "": the reason is another's."""
    e, values, refusals = Emitter(weft.GraphBuilder()), {}, {}
    for node in graph.nodes:
        if node.op == "output" or is_number(node):
            continue
        if node.op == "call_function":
            try:
                if node.target is operator.getitem and node.args[0] in refusals:
                    raise Refused("")
                if fallback_random and is_random(node):
                    raise Refused("its random numbers are to be torch's")
                values[node] = lower_node(e, node, values)
                continue
            except Refused as reason:
                refusals[node] = str(reason)
            except _DEFECTS as error:
                log.warning("a defect of weft's lowering of %s: %r", node.target, error)
                refusals[node] = f"weft's lowering of it fails: {error!r}"
        try:
            values[node] = declare(e, node)
        except Refused:
            pass
    for node in graph.nodes:
        if name_of(node) in _EMPTY and node.users and all(user in refusals for user in node.users):
            refusals[node] = ""
    return refusals


@dataclass
class Part:
    """Calls that weft compiles together."""

    nodes: list[fx.Node] = field(default_factory=list)
    #: What they read and others made, and what others read of theirs.
    inputs: list[fx.Node] = field(default_factory=list)
    outputs: list[fx.Node] = field(default_factory=list)
    #: The PartModule that runs them.
    module: Any = None

    @property
    def only_views(self) -> bool:
        return all(name_of(node) in _VIEWS for node in self.nodes)


def _depths(graph: fx.Graph, refusals: Iterable[fx.Node]) -> dict[fx.Node, int]:
    """Part k holds the calls of depth k that weft takes; those of torch's with depth k run after
    it, and random ones in their order."""
    depths: dict[fx.Node, int] = {}
    last_random = -1
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            depths[node] = -1
            continue
        by_torch = node in refusals or is_number(node)
        depth = -1 if by_torch else 0
        for read in node.all_input_nodes:
            theirs = read in refusals or is_number(read)
            depth = max(depth, depths[read] + (1 if theirs and not by_torch else 0))
        if by_torch and is_random(node):
            depth = last_random = max(depth, last_random)
        depths[node] = depth
    return depths


def _bytes_of(node: fx.Node) -> int:
    made = node.meta.get("val")
    tensors = made if isinstance(made, (tuple, list)) else [made]
    return sum(hint_of(t.numel()) * t.itemsize for t in tensors if isinstance(t, torch.Tensor))


def _is_movable(node: fx.Node) -> bool:
    """Whether a node costs what it reads and writes, wherever it is computed."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.pointwise in tags or name_of(node) in _VIEWS | {"_to_copy", "clone", "full"}


def _is_ours(node: fx.Node, refusals: Collection[fx.Node]) -> bool:
    return node.op == "call_function" and node not in refusals and not is_number(node)


def _sink(graph: fx.Graph, refusals: Collection[fx.Node], depths: dict[fx.Node, int]) -> None:
    """Moves elementwise calls that only later parts read to the first of these, so that nobody
    waits for their results in memory: where what they read is there already, or is less."""
    ours = {node for node in graph.nodes if _is_ours(node, refusals)}
    fixed = {node for node in ours if not _is_movable(node)}
    while True:
        moved: dict[fx.Node, int] = {}

        def depth_of(node: fx.Node) -> int:
            return -1 if node.op == "output" else moved.get(node, depths[node])

        for node in reversed(graph.nodes):
            if node in ours and node not in fixed and node.users:
                later = min(map(depth_of, node.users))
                if later > depths[node]:
                    moved[node] = later

        def waits_instead(read: fx.Node) -> bool:
            if read not in ours or read in moved:
                return False
            return all(user in moved or depths[user] <= depths[read] for user in read.users)

        wrong = {
            node
            for node in moved
            if sum(_bytes_of(read) for read in node.all_input_nodes if waits_instead(read))
            >= _bytes_of(node)
        }
        if not wrong:
            depths.update(moved)
            return
        fixed |= wrong


def _close(part: Part) -> Part:
    inside = set(part.nodes)
    inputs = {
        read: None
        for node in part.nodes
        for read in node.all_input_nodes
        if read not in inside and not is_number(read) and subgraph_of(read) is None
    }
    part.inputs = list(inputs)
    part.outputs = [
        node
        for node in part.nodes
        if isinstance(node.meta["val"], torch.Tensor)
        and any(user not in inside for user in node.users)
    ]
    return part


def partition(
    graph: fx.Graph, refusals: dict[fx.Node, str]
) -> tuple[dict[int, Part], dict[fx.Node, int]]:
    """The parts by their depths, and the depth of every call."""
    depths = _depths(graph, refusals)
    _sink(graph, refusals, depths)
    parts: dict[int, Part] = {}
    for node in graph.nodes:
        if _is_ours(node, refusals):
            parts.setdefault(depths[node], Part()).nodes.append(node)
    return {depth: _close(part) for depth, part in sorted(parts.items())}, depths


def named_in(message: str, nodes: list[fx.Node]) -> list[fx.Node]:
    """The calls that an error names; all, where it names none."""
    words = set(re.findall(r"\w+", message))
    return [node for node in nodes if node.name in words] or nodes

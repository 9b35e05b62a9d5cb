"""A graph of ATen calls becomes one whose parts weft compiles."""

import logging
import operator
from collections.abc import Collection

import sympy
import torch
from torch import fx

import weft
from weft.torch.explanation import GraphExplanation, Left
from weft.torch.options import Options
from weft.torch.part_module import PartModule
from weft.torch.partition import Part, find_refusals, named_in, partition
from weft.torch.refused import Refused
from weft.torch.saved_layouts import (
    in_strides,
    lay_out_saved,
    lies_otherwise,
    report_strides,
    traced,
)

log = logging.getLogger("weft.torch")


def compile_graph(
    module: fx.GraphModule, static: Collection[int], options: Options
) -> tuple[fx.GraphModule, GraphExplanation]:
    """The module's equal with its parts compiled. `static`: inputs that are weights."""
    graph = module.graph
    refusals = find_refusals(graph, options.fallback_random)
    while True:
        lay_out_saved(graph, refusals)
        parts, depths = partition(graph, refusals)
        wrong = _make_modules(module, parts, static, options, refusals)
        if not wrong:
            break
    report_strides(graph)
    left = [
        Left(node.name, str(node.target), reason) for node, reason in refusals.items() if reason
    ]
    for each in left:
        log.info("%s (%s) stays with torch: %s", each.target, each.name, each.reason)
    made = _assemble(module, parts, depths, refusals)
    calls = sum(node.op == "call_function" for node in graph.nodes)
    return made, GraphExplanation(calls, left, [part.module for part in parts.values()])


def _make_modules(
    module: fx.GraphModule, parts: dict[int, Part], static: Collection[int], options: Options,
    refusals: dict[fx.Node, str],
) -> bool:  # fmt: skip
    """Gives every part its module; where that fails, refuses what is wrong and returns True."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    weights = {placeholders[i] for i in static}
    constants = {
        node: _attribute(module, node.target)
        for node in module.graph.nodes
        if node.op == "get_attr" and isinstance(node.meta.get("val"), torch.Tensor)
    }
    sizes = {}
    for node in placeholders:
        number = node.meta.get("val")
        if isinstance(number, torch.SymInt) and isinstance(number.node.expr, sympy.Symbol):
            sizes[number.node.expr.name] = node
    for part in parts.values():
        if part.only_views or not part.outputs:
            refusals.update({node: "" for node in part.nodes})
            return True
        try:
            part.module = PartModule(part, sizes, constants, weights, options)
        except (Refused, weft.Error) as error:
            if isinstance(error, weft.Internal):
                log.warning("a defect of weft, around which torch runs the calls: %s", error)
            for node in named_in(str(error), part.nodes):
                refusals[node] = str(error)
                picks = [user for user in node.users if user.target is operator.getitem]
                refusals.update(dict.fromkeys(picks, ""))
            return True
    return False


def _attribute(module: fx.GraphModule, path: str) -> torch.Tensor:
    found: object = module
    for name in path.split("."):
        found = getattr(found, name)
    return found  # type: ignore[return-value]


def _assemble(
    module: fx.GraphModule, parts: dict[int, Part], depths: dict[fx.Node, int],
    refusals: dict[fx.Node, str],
) -> fx.GraphModule:  # fmt: skip
    inside = {node for part in parts.values() for node in part.nodes}
    made, copies = fx.Graph(), {}
    owner = torch.nn.Module()

    def read_by_torch(read: fx.Node) -> fx.Node:
        if not lies_otherwise(read):
            return copies[read]
        return made.call_function(in_strides, (copies[read], traced(read).stride()))

    def copy(node: fx.Node) -> None:
        copies[node] = made.node_copy(node, read_by_torch)

    def call(depth: int, part: Part) -> None:
        name = f"part_{depth}"
        owner.add_module(name, part.module)
        read = [copies[node] for node in (*part.inputs, *part.module.size_nodes)]
        result = made.call_module(name, tuple(read))
        for i, node in enumerate(part.outputs):
            copies[node] = made.call_function(operator.getitem, (result, i))

    outside: dict[int, list[fx.Node]] = {}
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            copy(node)
            if node.op == "get_attr":
                setattr(owner, node.target, _attribute(module, node.target))
        elif node.op == "call_function" and node not in inside:
            outside.setdefault(depths[node], []).append(node)
    for depth in sorted({*parts, *outside}):
        if depth in parts:
            call(depth, parts[depth])
        for node in outside.get(depth, ()):
            copy(node)
    copy(module.graph.output_node())
    assembled = fx.GraphModule(owner, made)
    assembled.graph.eliminate_dead_code()
    assembled.recompile()
    return assembled

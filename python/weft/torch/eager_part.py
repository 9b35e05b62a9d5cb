"""A part of a graph as torch runs it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import py_sym_types
from torch.utils._sympy.printers import PythonPrinter

from weft.torch.extents import symbols_of
from weft.torch.lowering.registry import is_number, subgraph_of
from weft.torch.partition import Part
from weft.torch.saved_layouts import in_strides, lies_otherwise, traced

_PRINTER = PythonPrinter()


def eager_part(part: Part, read_symbol: Callable[[str], str]) -> Callable[..., Any]:
    """What the part computes, call by call, from the arguments of its PartModule.

    `read_symbol`: where a symbol is in them, as Python source over `args`.
    """
    graph, copies = fx.Graph(), {}
    for node in part.inputs:
        copies[node] = graph.placeholder(node.name)
    numbers: list[fx.Node] = []
    owner = torch.nn.Module()
    for node in part.nodes:
        for read in node.all_input_nodes:
            if is_number(read) and read not in copies:
                copies[read] = graph.placeholder(read.name)
                numbers.append(read)
    for node in part.nodes:
        for read in node.all_input_nodes:
            if (subgraph := subgraph_of(read)) is not None and read not in copies:
                owner.add_module(read.name, subgraph)
                copies[read] = graph.get_attr(read.name)
        copies[node] = graph.node_copy(node, lambda read: copies[read])
    graph.output(tuple(copies[node] for node in part.outputs))
    module = fx.GraphModule(owner, graph)
    count, numbers_of = len(part.inputs), _numbers_of(numbers, read_symbol)

    def run(args: Sequence[Any]) -> Any:
        tensors = [
            in_strides(given, traced(node).stride()) if lies_otherwise(node) else given
            for node, given in zip(part.inputs, args[:count])
        ]
        return module(*tensors, *numbers_of(args))

    return run


def _numbers_of(
    numbers: list[fx.Node], read_symbol: Callable[[str], str]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Evaluates what torch computes of sizes, from a part's arguments."""
    made = [node.meta["val"] for node in numbers]
    symbolic = [number.node.expr for number in made if isinstance(number, py_sym_types)]
    lines = [f"  {name} = {read_symbol(name)}" for name in sorted(symbols_of(symbolic))]
    values = "".join(f"{_printed(number)}, " for number in made)
    source = "\n".join(["def numbers(args):", *lines, f"  return ({values})"])
    scope: dict[str, Any] = {"math": math, "torch": torch}
    exec(source, scope)
    return scope["numbers"]


def _printed(number: Any) -> str:
    is_symbolic = isinstance(number, py_sym_types)
    return str(_PRINTER.doprint(number.node.expr)) if is_symbolic else repr(number)

"""Which function lowers which operation."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._higher_order_ops  # registers them
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx.experimental.proxy_tensor import py_sym_types
from torch.fx.node import map_aggregate

from weft.torch.extents import dim_of, dims_of
from weft.torch.lowering.emitter import Complex, Emitter, Value, part_type
from weft.torch.refused import Refused

Lowerings = dict[Any, Callable[..., Any]]
_lowerings: Lowerings = {}
#: Of operations that take or make complex numbers.
_complex_lowerings: Lowerings = {}


def lowers(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function for operations, by their names ("aten.add.Tensor"). It is called with
    the emitter and the operation's arguments: tensors as Values, symbolic numbers as expressions.
    """
    return _registering(_lowerings, names)


def lowers_complex(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same for calls of which an argument or a result is complex: a Complex. The emitter's
    type is that of the parts."""
    return _registering(_complex_lowerings, names)


def _registering(
    lowerings: Lowerings, names: Sequence[str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            namespace, packet, *overload = name.split(".")
            found = getattr(getattr(torch.ops, namespace), packet, None)
            if found is None:
                continue  # another version of torch
            if isinstance(found, HigherOrderOperator):
                lowerings[found] = function
                continue
            overloads = overload or found.overloads()
            for each in overloads:
                if hasattr(found, each):
                    lowerings[getattr(found, each)] = function
        return function

    return register


def is_number(node: fx.Node) -> bool:
    """Whether a node makes a number, which torch computes."""
    return isinstance(node.meta.get("val"), (int, float, *py_sym_types))


def subgraph_of(node: fx.Node) -> fx.GraphModule | None:
    """The graph of a branch or a loop's body, where a node names one."""
    if node.op != "get_attr":
        return None
    found: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, fx.GraphModule) else None


def check_types(node: fx.Node) -> None:
    """Refuses what has a tensor that weft has no type or place for."""
    made = node.meta.get("val")
    for tensor in made if isinstance(made, (tuple, list)) else [made]:
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise Refused("it makes something other than tensors")
        if tensor.layout is not torch.strided:
            raise Refused(f"its result is {tensor.layout}")
        part_type(tensor.dtype)


def lowering_of(node: fx.Node) -> Callable[..., Any]:
    """What lowers the operation where its numbers are real."""
    function = _lowerings.get(node.target)
    if function is None:
        raise Refused("weft has no such operation")
    return function


def _complex_lowering_of(node: fx.Node) -> Callable[..., Any]:
    function = _complex_lowerings.get(node.target)
    if function is None:
        raise Refused("weft has no such operation of complex numbers")
    return function


def _is_complex(node: fx.Node) -> bool:
    """Whether a tensor that a node makes or reads is complex."""
    made: list[Any] = []
    for each in (node, *node.all_input_nodes):
        value = each.meta.get("val")
        made += value if isinstance(value, (tuple, list)) else [value]
    return any(isinstance(tensor, torch.Tensor) and tensor.is_complex() for tensor in made)


def lower_node(e: Emitter, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """The node's Value or Complex, or a tuple of them. Raises Refused."""
    if node.target is operator.getitem:
        return values[node.args[0]][node.args[1]]
    if node.op == "get_attr":
        raise Refused("it is a tensor of the graph")
    function = _complex_lowering_of(node) if _is_complex(node) else lowering_of(node)
    check_types(node)

    def argument(arg: Any) -> Any:
        if isinstance(arg, fx.Node):
            if arg in values:
                return values[arg]
            if (subgraph := subgraph_of(arg)) is not None:
                return subgraph
            number = arg.meta.get("val")
            if isinstance(number, (int, torch.SymInt)) and not isinstance(number, bool):
                return dim_of(number)
            if isinstance(number, torch.SymFloat):
                return number.node.expr
            if isinstance(number, torch.Tensor):
                raise Refused(f"it reads {arg.name}, whose sizes or type weft does not have")
            raise Refused(f"{arg.name} is a number that the run computes")
        return arg

    e.node = node
    e.node_outputs = made_by(node)
    args = map_aggregate(node.args, argument)
    kwargs = map_aggregate(node.kwargs, argument)
    return function(e, *args, **kwargs)


def made_by(node: fx.Node) -> list[tuple[str, tuple[Any, ...]] | None]:
    """Types and shapes of a node's results; of complex ones, of their parts."""
    made = node.meta["val"]
    tensors = made if isinstance(made, (tuple, list)) else [made]
    return [None if t is None else (part_type(t.dtype), dims_of(t.shape)) for t in tensors]


def lower(e: Emitter, nodes: list[fx.Node], values: dict[fx.Node, Any]) -> None:
    """Lowers nodes in their order; `values` has what they read, and gets what they make."""
    for node in nodes:
        e.b.begin_origin(node.name, str(node.target))
        values[node] = lower_node(e, node, values)


__all__ = [
    "Complex",
    "Value",
    "check_types",
    "is_number",
    "lower",
    "lower_node",
    "lowering_of",
    "lowers",
    "lowers_complex",
    "made_by",
    "subgraph_of",
]

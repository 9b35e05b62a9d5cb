"""Programs of torch.export."""

from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

import weft
from weft.errors import Unsupported
from weft.torch.constant import constant
from weft.torch.decompositions import decompositions
from weft.torch.extents import dims_of
from weft.torch.lowering import Complex, Emitter, Value, lower
from weft.torch.lowering.registry import is_number
from weft.torch.partition import declare, find_refusals, name_of

#: Conditions on sizes, which hold where the graph's operations do.
_CHECKS = ("_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range_for_size")
_TENSORS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def from_exported(program: torch.export.ExportedProgram) -> weft.Model:
    """The program as a model that weft.compile takes. Its weights are constants, which stay where
    they are. Raises Unsupported with all calls that weft does not support."""
    program = program.run_decompositions(decompositions())
    graph = program.graph_module.graph
    calls = [n for n in graph.nodes if n.op == "call_function" and not is_number(n)]
    calls = [node for node in calls if name_of(node) not in _CHECKS]
    refusals = {n: reason for n, reason in find_refusals(graph).items() if reason and n in calls}
    if refusals:
        lines = [f"  {n.target} ({n.name}): {reason}" for n, reason in refusals.items()]
        raise Unsupported("the program has calls that weft does not support:\n" + "\n".join(lines))
    signature = program.graph_signature
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    e = Emitter(weft.GraphBuilder())
    values: dict[Any, Any] = {}
    example: dict[str, int] = {}
    for spec in signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind in _TENSORS:
            values[node] = constant(e, _tensor(program, spec))
        elif isinstance(node.meta.get("val"), torch.Tensor):
            values[node] = _input(e, node, example)
    lower(e, calls, values)
    _declare_outputs(e, program, values)
    return e.b.finish(example)


def _tensor(program: torch.export.ExportedProgram, spec: Any) -> torch.Tensor:
    if spec.target in program.state_dict:
        return program.state_dict[spec.target]
    return program.constants[spec.target]


def _input(e: Emitter, node: Any, example: dict[str, int]) -> Value | Complex:
    """Complex numbers come with their parts as a last axis."""
    tensor = node.meta["val"]
    for extent, dim in zip(tensor.shape, dims_of(tensor.shape)):
        if not isinstance(dim, int):
            if not dim.is_Symbol:
                raise Unsupported(f"input '{node.name}' has the extent {dim}")
            example[dim.name] = extent.node.hint
    return declare(e, node)


def _declare_outputs(e: Emitter, program: Any, values: dict[Any, Any]) -> None:
    results = program.graph_module.graph.output_node().args[0]
    for node, spec in zip(results, program.graph_signature.output_specs):
        if spec.kind is not OutputKind.USER_OUTPUT:
            raise Unsupported(f"the program writes '{spec.target}'; weft keeps no state")
        if node not in values:
            raise Unsupported(f"the program returns {node}, which is no tensor")
        e.b.output(e.in_memory(values[node]).tensor, node.name)

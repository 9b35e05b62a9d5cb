"""torch.cond, while_loop and scan: their subgraphs as regions."""

from collections.abc import Sequence
from typing import Any

from torch import fx

from weft._weft import GraphTensor
from weft.torch.lowering.emitter import Emitter, Value
from weft.torch.lowering.registry import lower_node, lowers, made_by
from weft.torch.refused import Refused


def _inline(e: Emitter, module: fx.GraphModule, operands: Sequence[Any]) -> list[Value]:
    """The results of a subgraph on these operands: tensors, and sizes as expressions."""
    outside = e.node, e.node_outputs
    values: dict[fx.Node, Any] = {}
    given = iter(operands)
    results: list[Any] = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "call_function":
            values[node] = lower_node(e, node, values)
        elif node.op == "output":
            made = node.args[0] if isinstance(node.args[0], (tuple, list)) else node.args
            results = [values.get(result) for result in made]
    e.node, e.node_outputs = outside
    if not all(isinstance(value, Value) for value in results):
        raise Refused("its subgraph makes something other than tensors")
    return results


def _tensors(values: Sequence[Value]) -> list[GraphTensor]:
    return [value.tensor for value in values]


def _like(values: Sequence[Value], tensors: Sequence[GraphTensor]) -> list[Value]:
    return [Value(tensor, value.dtype, value.shape) for value, tensor in zip(values, tensors)]


def _results(e: Emitter, tensors: Sequence[GraphTensor]) -> tuple[Value, ...]:
    return tuple(Value(t, *made) for t, made in zip(tensors, made_by(e.node), strict=True))


@lowers("higher_order.cond")
def _cond(
    e: Emitter, condition: Any, then: fx.GraphModule, otherwise: fx.GraphModule,
    operands: Sequence[Any] = (),
) -> tuple[Value, ...]:  # fmt: skip
    if not isinstance(condition, Value):
        raise Refused("its condition is a number that the run computes")
    chosen = e.reshape(e.convert(condition, "bool"), ())

    def branch(module: fx.GraphModule) -> Any:
        return lambda: _tensors(_inline(e, module, operands))

    return _results(e, e.b.conditional(chosen.tensor, branch(then), branch(otherwise)))


@lowers("higher_order.while_loop")
def _while_loop(
    e: Emitter, condition: fx.GraphModule, body: fx.GraphModule, carries: Sequence[Any],
    more: Sequence[Any] = (),
) -> tuple[Value, ...]:  # fmt: skip
    if not all(isinstance(value, Value) for value in carries):
        raise Refused("it carries something other than tensors")

    def test(*tensors: GraphTensor) -> GraphTensor:
        (result,) = _inline(e, condition, [*_like(carries, tensors), *more])
        return e.reshape(e.convert(result, "bool"), ()).tensor

    def step(*tensors: GraphTensor) -> list[GraphTensor]:
        return _tensors(_inline(e, body, [*_like(carries, tensors), *more]))

    return _results(e, e.b.while_loop(_tensors(carries), test, step))


@lowers("higher_order.scan")
def _scan(
    e: Emitter, body: fx.GraphModule, carries: Sequence[Any], xs: Sequence[Any],
    more: Sequence[Any] = (),
) -> tuple[Value, ...]:  # fmt: skip
    if not all(isinstance(value, Value) for value in (*carries, *xs)):
        raise Refused("it runs over something other than tensors")

    def step(*tensors: GraphTensor) -> list[GraphTensor]:
        carried = _like(carries, tensors)
        slices = [
            Value(tensor, x.dtype, x.shape[1:]) for x, tensor in zip(xs, tensors[len(carries) :])
        ]
        return _tensors(_inline(e, body, [*carried, *slices, *more]))

    return _results(e, e.b.scan(_tensors(carries), _tensors(xs), step))

"""torch.compile(model, backend="weft")."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext

import weft
from weft.errors import MissingDevice
from weft.torch.compile_graph import compile_graph
from weft.torch.decompositions import decompositions
from weft.torch.explanation import GraphExplanation
from weft.torch.options import Options
from weft.torch.saved_layouts import lie_as_given


def backend(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What torch.compile calls. `options` are those of weft.torch.Options; modes mean nothing."""
    return compile_module(module, inputs, Options.of(options), lambda explanation: None)


def compile_module(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    options: Options,
    tell: Callable[[GraphExplanation], None],
) -> Callable[..., Any]:
    """`tell` hears of every graph that torch makes of the module: forward, backward."""
    device = _device_of(module, inputs)
    if not options.target:
        options = dataclasses.replace(options, target=device)

    def compiled(
        graph: fx.GraphModule, examples: Sequence[Any], *, freezes: bool
    ) -> Callable[..., Any]:
        lie_as_given(graph.graph, examples)
        made, explanation = compile_graph(graph, _static_inputs() if freezes else (), options)
        tell(explanation)
        return make_boxed_func(made.forward)

    return aot_autograd(
        fw_compiler=functools.partial(compiled, freezes=False),
        bw_compiler=functools.partial(compiled, freezes=False),
        inference_compiler=functools.partial(compiled, freezes=True),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )(module, inputs)


def _static_inputs() -> Sequence[int]:
    """The inputs of the graph that are parameters, and buffers that it does not write."""
    context = TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return ()
    metadata = context.fw_metadata
    written = {i for i, info in enumerate(metadata.input_info) if info.mutates_data}
    return [i for i in metadata.static_input_indices if i not in written]


def _device_of(module: fx.GraphModule, inputs: Sequence[Any]) -> str:
    """The target for the place of the tensors: cuda where one is on the first GPU."""
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    target = "cpu"
    for name, tensor in [*zip(names, inputs), *module.named_parameters(), *module.named_buffers()]:
        if not isinstance(tensor, torch.Tensor) or tensor.device.type == "cpu":
            continue
        place = f"tensor '{name}' is on {tensor.device}; weft runs torch's graphs on the CPU"
        if tensor.device != torch.device("cuda", 0):
            raise MissingDevice(f"{place} and on cuda:0: move the model and its inputs there")
        if not any(each.name == "cuda" and each.is_here for each in weft.targets()):
            raise MissingDevice(
                f"{place}, and NVIDIA's driver has no GPU: move the model and its inputs (.cpu())"
            )
        target = "cuda"
    return target

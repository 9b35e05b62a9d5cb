"""Compiles a torch module to tell what weft makes of it."""

from typing import Any

import torch

from weft.torch.backend import compile_module
from weft.torch.explanation import Explanation, GraphExplanation
from weft.torch.options import Options


def explain(model: Any, *args: Any, **kwargs: Any) -> Explanation:
    """Compiles the module, runs it on the arguments, and tells what weft compiled and why the rest
    stayed with torch. `graphs[0].executables[0].explain()` is the plan of a part."""
    graphs: list[GraphExplanation] = []

    def listening(module: Any, inputs: Any) -> Any:
        return compile_module(module, inputs, Options(), graphs.append)

    torch.compile(model, backend=listening)(*args, **kwargs)
    return Explanation(graphs)

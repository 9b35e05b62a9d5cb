"""weft behind torch.compile and torch.export.

compiled = torch.compile(model, backend="weft")     # needs no import of this module
print(weft.torch.explain(model, x))                 # what weft compiled, what stayed with torch
exe = weft.compile(torch.export.export(model, (x,)))
"""

from weft.torch.backend import backend
from weft.torch.explain_module import explain
from weft.torch.explanation import Explanation, GraphExplanation
from weft.torch.exported import from_exported
from weft.torch.options import Options

__all__ = ["Explanation", "GraphExplanation", "Options", "backend", "explain", "from_exported"]

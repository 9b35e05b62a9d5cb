"""weft: a fusion compiler for deep-learning models.

exe = weft.compile("model.onnx")
y = exe(x)                          # numpy or torch arrays, without copies
print(exe.explain())                # which operators share a kernel, and why
exe.save("model.weft")              # weft.load, `weft run` and the C runtime take it
"""

from weft._weft import Executable, Extent, GraphBuilder, Model, set_seed
from weft._weft import version as _version
from weft.compiler import Target, compile, load, targets
from weft.errors import Error, Internal, Interrupted, InvalidInput, MissingDevice, Unsupported
from weft.inference_session import InferenceSession
from weft.tensor_spec import TensorSpec

__version__ = _version()

__all__ = [
    "Error",
    "Executable",
    "Extent",
    "GraphBuilder",
    "InferenceSession",
    "Internal",
    "Interrupted",
    "InvalidInput",
    "MissingDevice",
    "Model",
    "Target",
    "TensorSpec",
    "Unsupported",
    "compile",
    "load",
    "set_seed",
    "targets",
]

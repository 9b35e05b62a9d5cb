import os
from collections.abc import Mapping, Sequence
from typing import Any

from weft.compiler import compile, load
from weft.errors import InvalidInput
from weft.tensor_spec import TensorSpec

_ONNX_TYPES = {"float32": "float", "float64": "double"}


class NodeArg:
    """An input or output of a session, as onnxruntime describes it."""

    def __init__(self, spec: TensorSpec) -> None:
        self.name = spec.name
        #: Extents; an open dimension is its name, or None.
        self.shape = list(spec.shape) if spec.shape is not None else None
        #: "tensor(float)", "tensor(int64)", …
        self.type = f"tensor({_ONNX_TYPES.get(spec.dtype, spec.dtype)})"

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


class InferenceSession:
    """A model behind the interface of onnxruntime.InferenceSession, for programs written for that:

        from weft import InferenceSession   # was: from onnxruntime import InferenceSession

    Of onnxruntime's options the number of threads counts; the others, and providers, are taken and
    mean nothing here.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        threads = int(getattr(sess_options, "intra_op_num_threads", 0) or 0)
        is_path = isinstance(path_or_bytes, (str, os.PathLike))
        if is_path and os.fspath(path_or_bytes).endswith(".weft"):
            self.executable = load(path_or_bytes, threads=threads)
        else:
            self.executable = compile(path_or_bytes, threads=threads)
        self._output_names = [spec.name for spec in self.executable.outputs]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """The outputs of these names, in their order; all of them for None."""
        results = self.executable.run(**input_feed)
        if output_names is None:
            return results
        by_name = dict(zip(self._output_names, results, strict=True))
        for name in output_names:
            if name not in by_name:
                names = ", ".join(self._output_names)
                raise InvalidInput(f"the model has no output '{name}'; its outputs are: {names}")
        return [by_name[name] for name in output_names]

    def get_inputs(self) -> list[NodeArg]:
        return [NodeArg(spec) for spec in self.executable.inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [NodeArg(spec) for spec in self.executable.outputs]

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]

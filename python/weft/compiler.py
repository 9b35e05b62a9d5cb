import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from weft import _weft


class ModelProto(Protocol):
    """onnx.ModelProto, or whatever writes itself as one."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802


class ExportedProgram(Protocol):
    """torch.export.ExportedProgram."""

    def run_decompositions(self, decomp_table: Any = ...) -> Any: ...


class Target(NamedTuple):
    """A target that models are compiled for."""

    #: For compile(target=…).
    name: str
    #: Its figures, or why it is not there.
    description: str
    #: False: code for it is made here and runs elsewhere.
    is_here: bool


def compile(
    model: str
    | os.PathLike[str]
    | bytes
    | bytearray
    | memoryview
    | ModelProto
    | ExportedProgram
    | _weft.Model,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    bind: Mapping[str, int] | None = None,
    target: str = "cpu",
    plan: str | os.PathLike[str] = "auto",
    threads: int = 0,
    cache_dir: str | os.PathLike[str] | None = None,
    fast_math: bool = False,
    precision: str = "model",
    max_bindings: int = 128,
    progress: Callable[[str, int, int], object] | None = None,
) -> _weft.Executable:
    """Compiles a model.

    A model whose dimensions are open is compiled when `shapes` or `bind` give all of them a value,
    else when it first runs. Other shapes are compiled when they come; the `max_bindings` that were
    used last are kept.

    model: the path of a .onnx file, its bytes, an onnx.ModelProto, a torch.export.ExportedProgram,
        or what a GraphBuilder finished. (A torch module: torch.compile(module, backend="weft").)
    shapes: of inputs, by name; a start, other shapes may follow.
    bind: extents of open dimensions, by name ("batch") or as "input.axis" ("x.0"); they stay.
    target: cpu, cuda (the GPU that is there), a name of targets(), or the path of a NAME.target.
    plan: how operators are fused: none, xla, auto; or the path of a plan, NAME.plan.
    threads: of a run; 0: the cores that the process may use.
    cache_dir: where compiled models are kept between processes; None: nowhere. Bindings of one
        model share kernels and weights either way.
    fast_math: allows reassociation and substitutions of floating-point arithmetic.
    precision: in which type contractions multiply: "model", or "bf16" (on CPUs): their factors are
        rounded to bfloat16, weights when they are compiled; sums stay float32.
    progress: called as progress(pass, done, total) when a pass of the compiler begins (0 of 0), and
        for each of its kernels whose code is made. What it raises ends the compilation.

    Raises Unsupported with all nodes that weft does not support, InvalidInput where the model or an
    option is wrong.
    """
    settings = _weft.Settings()
    settings.shapes = {
        name: [int(extent) for extent in shape] for name, shape in (shapes or {}).items()
    }
    settings.bind = {name: int(extent) for name, extent in (bind or {}).items()}
    settings.target = target
    settings.plan = os.fspath(plan)
    settings.threads = threads
    settings.cache_dir = "" if cache_dir is None else os.fspath(cache_dir)
    settings.fast_math = fast_math
    settings.precision = precision
    settings.kept = max_bindings
    settings.progress = progress
    if isinstance(model, (str, os.PathLike)):
        return _weft.compile_file(os.fspath(model), settings)
    if hasattr(model, "run_decompositions"):
        from weft.torch import from_exported

        model = from_exported(model)
    if isinstance(model, _weft.Model):
        return _weft.compile_model(model, settings)
    return _weft.compile_bytes(_bytes_of(model), settings)


def load(path: str | os.PathLike[str], *, threads: int = 0) -> _weft.Executable:
    """Loads an artefact that Executable.save or `weft compile` wrote.

    It holds machine code: load what you trust.
    """
    return _weft.load(os.fspath(path), threads)


def targets() -> list[Target]:
    """What models are compiled for: cpu, cuda (the GPU that is there), and described GPUs."""
    return [Target(*target) for target in _weft.targets()]


def _bytes_of(model: Any) -> bytes:
    if isinstance(model, bytes):
        return model
    if isinstance(model, (bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    raise TypeError(
        "a model is a path, bytes, an onnx.ModelProto or an exported program, "
        f"not {type(model).__name__}"
    )

"""A part of a graph, compiled when it first runs."""

import logging
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import fx

import weft
from weft import _weft
from weft.torch.constant import constant
from weft.torch.eager_part import eager_part
from weft.torch.extents import dense_order, dims_of, hint_of, source_of, strides_of, symbols_of
from weft.torch.lowering import Complex, Emitter, Value, lower, part_type
from weft.torch.options import Options
from weft.torch.partition import Part, is_random
from weft.torch.refused import Refused

log = logging.getLogger("weft.torch")

#: Times that frozen weights may change before they are read as inputs.
_REFREEZES = 3
#: Seeds of random numbers are below.
_SEEDS = 2**63 - 1


class _Signature:
    """Inputs of a part as the graph builder takes them.

    An axis whose extent is an expression is an open dimension of its own. A symbol that no axis has
    alone comes as an input of that extent, which nothing reads.
    """

    def __init__(self, part: Part, sizes: dict[str, fx.Node]) -> None:
        self.shapes = [dims_of(node.meta["val"].shape) for node in part.inputs]
        self.example: dict[str, int] = {}
        self.places: dict[str, tuple[int, int]] = {}
        wanted: set[str] = set()
        for node in (*part.inputs, *part.nodes):
            made = node.meta["val"]
            for tensor in made if isinstance(made, (tuple, list)) else [made]:
                if isinstance(tensor, torch.Tensor):
                    wanted |= symbols_of(dims_of(tensor.shape)) | symbols_of(strides_of(tensor))
            for read in node.all_input_nodes:
                if isinstance(read.meta.get("val"), (torch.SymInt, torch.SymFloat)):
                    wanted |= symbols_of([read.meta["val"].node.expr])
        for i, node in enumerate(part.inputs):
            for axis, extent in enumerate(node.meta["val"].shape):
                dim = self.shapes[i][axis]
                if not isinstance(dim, int):
                    self.example[self.name_of(i, axis)] = hint_of(extent)
                if isinstance(dim, sympy.Symbol):
                    self.places.setdefault(dim.name, (i, axis))
        self.extra = sorted(wanted - set(self.places))
        for name in self.extra:
            if name not in sizes:
                raise Refused(f"no input has the size {name}")
            self.example[name] = hint_of(sizes[name].meta["val"])
        self.size_nodes = [sizes[name] for name in self.extra]

    def name_of(self, i: int, axis: int) -> str:
        dim = self.shapes[i][axis]
        return dim.name if isinstance(dim, sympy.Symbol) else f"{i}.{axis}"

    def declare(self, e: Emitter, i: int, node: fx.Node) -> Value | Complex:
        """The input with its axes as they lie in memory, seen as torch sees it."""
        tensor = node.meta["val"]
        order = _memory_order(tensor)
        dims = (*self.shapes[i], 2) if tensor.is_complex() else self.shapes[i]
        shape = tuple(dims[axis] for axis in order)
        extents = [
            dim if isinstance(dim, int) else weft.Extent.open(self.name_of(i, axis))
            for axis, dim in zip(order, shape)
        ]
        dtype = part_type(tensor.dtype)
        there = Value(e.b.input(node.name, dtype, extents), dtype, shape)
        there = e.permute(there, [order.index(axis) for axis in range(len(order))])
        return e.parts_of(there) if tensor.is_complex() else there

    def declare_extra(self, e: Emitter) -> None:
        for name in self.extra:
            e.b.input(f"size {name}", "bool", [weft.Extent.open(name)])


def _memory_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """The axes from the outermost in memory to the innermost, where the tensor is dense in that
    order: so ordered, it is read and written in place. Else, and where strides are open, as they
    are. The parts of complex numbers are a last axis.
    """
    as_it_is = tuple(range(tensor.dim()))
    order = dense_order(dims_of(tensor.shape), strides_of(tensor)) or as_it_is
    return (*order, len(order)) if tensor.is_complex() else order


def _in_memory_order(
    tensors: Sequence[torch.Tensor], orders: dict[int, tuple[int, ...]]
) -> Sequence[torch.Tensor]:
    if not orders:
        return tensors
    return [t.permute(orders[i]) if i in orders else t for i, t in enumerate(tensors)]


def _orders_of(nodes: Sequence[fx.Node]) -> dict[int, tuple[int, ...]]:
    """Of those that do not lie as their axes are."""
    orders = {i: _memory_order(node.meta["val"]) for i, node in enumerate(nodes)}
    return {i: order for i, order in orders.items() if order != tuple(range(len(order)))}


def _complex_of(nodes: Sequence[fx.Node]) -> list[int]:
    return [i for i, node in enumerate(nodes) if node.meta["val"].is_complex()]


def _with_parts(tensors: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
    """Of complex tensors, at these places, the parts as a last axis."""
    if not places:
        return tensors
    return [_parts(t) if i in places else t for i, t in enumerate(tensors)]


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """In place, but where numbers are yet to be conjugated."""
    return torch.view_as_real(tensor.resolve_conj())


def _tensors_of_sizes(sizes: Sequence[int]) -> list[torch.Tensor]:
    return [torch.zeros(1, dtype=torch.bool).expand(size) for size in sizes]


class PartModule(torch.nn.Module):
    """Runs a part on its inputs, and the sizes that these lack; returns its outputs as a tuple.

    Outputs have the strides that torch's would have, for what torch does with them.
    """

    def __init__(
        self, part: Part, sizes: dict[str, fx.Node], constants: dict[fx.Node, torch.Tensor],
        static: set[fx.Node], options: Options,
    ) -> None:  # fmt: skip
        super().__init__()
        self._part = part
        self._options = options
        self._signature = _Signature(part, sizes)
        self._constants = {i: constants[n] for i, n in enumerate(part.inputs) if n in constants}
        self._static = [i for i, node in enumerate(part.inputs) if node in static]
        self._frozen: list[tuple[int, torch.Tensor, int]] = []
        self._freezes = 0
        self._read = list(range(len(part.inputs)))
        self._orders = _orders_of(part.inputs)
        self._output_orders = _orders_of(part.outputs)
        self._complex = _complex_of(part.inputs)
        self._complex_outputs = _complex_of(part.outputs)
        self._draws = any(is_random(node) for node in part.nodes)
        self._allocate = self._allocator()
        self._eager: Any = None
        self._left: set[tuple[torch.Size, ...]] = set()
        #: What was left to torch when shapes were bound, and why.
        self.left: list[str] = []
        self.executable: Any = None
        self._emit({i: None for i in self._constants})  # raises what is wrong with it

    @property
    def size_nodes(self) -> list[fx.Node]:
        """Numbers that follow its inputs in a call."""
        return self._signature.size_nodes

    def forward(self, *args: Any) -> tuple[torch.Tensor, ...]:
        if self._left and self._shapes_of(args) in self._left:
            return self._eager(args)
        try:
            return self._run(args)
        except (weft.Unsupported, weft.InvalidInput, weft.Internal) as error:
            return self._leave_to_torch(args, error)

    def _run(self, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        if self.executable is None or self._is_stale(args):
            self._compile(args)
        outputs = self._allocate(args)
        given = _in_memory_order(_with_parts(args, self._complex), self._orders)
        inputs = [given[i] for i in self._read]
        if self._signature.extra:
            inputs += _tensors_of_sizes(args[len(self._part.inputs) :])
        if self._draws:
            inputs.append(torch.randint(_SEEDS, ()))
        written = _with_parts(outputs, self._complex_outputs)
        self.executable.run_into(_in_memory_order(written, self._output_orders), *inputs)
        return outputs

    def _shapes_of(self, args: Sequence[Any]) -> tuple[torch.Size, ...]:
        return tuple(args[i].shape for i in range(len(self._part.inputs)))

    def _leave_to_torch(self, args: Sequence[Any], error: Exception) -> tuple[torch.Tensor, ...]:
        """What showed only when these shapes were bound: torch runs the part for them."""
        level = logging.WARNING if isinstance(error, weft.Internal) else logging.INFO
        names = ", ".join(dict.fromkeys(str(node.target) for node in self._part.nodes))
        shapes = self._shapes_of(args)
        told = ", ".join(str(list(shape)) for shape in shapes)
        self.left.append(f"{names} stay with torch for inputs of {told}: {error}")
        log.log(level, "%s", self.left[-1])
        if self._eager is None:
            self._eager = eager_part(self._part, self._source_of_symbol)
        self._left.add(shapes)
        return self._eager(args)

    def _source_of_symbol(self, name: str) -> str:
        """Where a call's arguments have the size."""
        if name in self._signature.places:
            i, axis = self._signature.places[name]
            return f"args[{i}].shape[{axis}]"
        return f"args[{len(self._part.inputs) + self._signature.extra.index(name)}]"

    def _is_stale(self, args: Sequence[Any]) -> bool:
        for i, tensor, version in self._frozen:
            given = args[i]
            if given is not tensor and given.data_ptr() != tensor.data_ptr():
                return True
            if given._version != version:
                return True
        return False

    def _compile(self, args: Sequence[Any]) -> None:
        self._frozen, self.executable = [], None
        if self._options.freeze and self._freezes < _REFREEZES:
            self._freezes += 1
            for i in self._static:
                if not args[i].is_inference():
                    self._frozen.append((i, args[i], args[i]._version))
        fixed: dict[int, torch.Tensor | None] = dict(self._constants)
        fixed.update({i: tensor for i, tensor, _ in self._frozen})
        self._read = [i for i in range(len(self._part.inputs)) if i not in fixed]
        self.executable = _weft.compile_model(self._emit(fixed), self._options.settings())

    def _emit(self, fixed: dict[int, torch.Tensor | None]) -> weft.Model:
        """`fixed`: inputs that are constants; None where only the types and shapes are checked."""
        e = Emitter(weft.GraphBuilder())
        values: dict[fx.Node, Any] = {}
        for i, node in enumerate(self._part.inputs):
            tensor = fixed.get(i)
            if tensor is None:
                values[node] = self._signature.declare(e, i, node)
            else:
                values[node] = constant(e, tensor)
        self._signature.declare_extra(e)
        if self._draws:
            e.declare_seed()
        lower(e, self._part.nodes, values)
        for node in self._part.outputs:
            there = e.in_memory(values[node])
            e.b.output(e.permute(there, _memory_order(node.meta["val"])).tensor, node.name)
        return e.b.finish(self._signature.example)

    def _allocator(self) -> Any:
        """Makes the outputs of a call from its arguments."""
        used: set[str] = set()
        made = []
        for node in self._part.outputs:
            tensor = node.meta["val"]
            shape, strides = dims_of(tensor.shape), strides_of(tensor)
            used |= symbols_of(shape) | symbols_of(strides)
            sizes = ", ".join(source_of(dim) for dim in shape)
            kind = f"dtype={tensor.dtype}"
            if tensor.device.type != "cpu":
                kind += f", device='{tensor.device}'"
            if any(stride == 0 for stride in strides):
                made.append(f"torch.empty(({sizes},), {kind})")
                continue
            steps = ", ".join(source_of(stride) for stride in strides)
            tuples = f"({sizes},), ({steps},)" if shape else "(), ()"
            made.append(f"torch.empty_strided({tuples}, {kind})")
        lines = [f"  {name} = {self._source_of_symbol(name)}" for name in sorted(used)]
        source = "\n".join(["def allocate(args):", *lines, f"  return ({', '.join(made)},)"])
        scope: dict[str, Any] = {"torch": torch}
        exec(source, scope)
        return scope["allocate"]

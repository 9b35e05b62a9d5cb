"""What weft made of a torch module."""

from dataclasses import dataclass
from typing import Any, NamedTuple


class Left(NamedTuple):
    """A call that stayed with torch."""

    name: str
    target: str
    reason: str


@dataclass
class GraphExplanation:
    """One graph that torch made: of a forward or a backward pass."""

    #: Calls of ATen operations.
    calls: int
    #: Those that stayed with torch.
    left: list[Left]
    #: PartModules.
    parts: list[Any]

    @property
    def executables(self) -> list[Any]:
        """The weft.Executable of each part that has run."""
        return [part.executable for part in self.parts if part.executable is not None]

    def __str__(self) -> str:
        kernels = sum(e.kernel_count for e in self.executables if e.bindings)
        lines = [
            f"{self.calls} calls: {len(self.parts)} parts by weft in {kernels} kernels, "
            f"{len(self.left)} calls by torch"
        ]
        lines += [f"  {each.target} ({each.name}) stays: {each.reason}" for each in self.left]
        lines += [f"  {told}" for part in self.parts for told in part.left]
        return "\n".join(lines)


@dataclass
class Explanation:
    """All graphs of a module, in the order in which torch made them."""

    graphs: list[GraphExplanation]

    @property
    def left(self) -> list[Left]:
        return [each for graph in self.graphs for each in graph.left]

    def __str__(self) -> str:
        return "\n".join(f"graph {i}: {graph}" for i, graph in enumerate(self.graphs))

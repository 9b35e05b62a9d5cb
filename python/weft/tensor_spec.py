from typing import NamedTuple


class TensorSpec(NamedTuple):
    """An input or output of a model."""

    name: str
    #: numpy's name: "float32", "int64", "bool"; or "bfloat16".
    dtype: str
    #: Extents; an open dimension is its name in the model, or None. None where the rank is open.
    shape: tuple[int | str | None, ...] | None

"""Types of operations whose operands have several, as torch promotes them."""

import functools

import sympy
import torch

from weft.torch.lowering.emitter import Operand, Value, torch_type, type_name


def _category(dtype: torch.dtype) -> int:
    if dtype.is_floating_point:
        return 2
    return 0 if dtype is torch.bool else 1


def _scalar_type(value: object) -> torch.dtype:
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, (int, sympy.Integer)):
        return torch.int64
    if isinstance(value, sympy.Expr) and value.is_integer:
        return torch.int64
    return torch.get_default_dtype()


def promoted(*operands: Operand) -> str:
    """The type in which torch computes: that of tensors with axes; of those without, or of numbers,
    where theirs is of a higher kind (bool, integer, float)."""
    groups: list[list[torch.dtype]] = [[], [], []]
    for operand in operands:
        if isinstance(operand, Value):
            groups[0 if operand.rank else 1].append(torch_type(operand.dtype))
        else:
            groups[2].append(_scalar_type(operand))
    joined = [functools.reduce(torch.promote_types, group) for group in groups if group]
    return type_name(max(joined, key=_category))

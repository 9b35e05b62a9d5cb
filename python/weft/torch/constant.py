import torch
from torch.utils.dlpack import to_dlpack

from weft.torch.lowering import Complex, Emitter, Value, type_name


def constant(e: Emitter, tensor: torch.Tensor) -> Value | Complex:
    """A tensor as a constant, which stays where it is if it is dense and in the host's memory."""
    if tensor.is_complex():
        return e.parts_of(_constant(e, torch.view_as_real(tensor.detach().resolve_conj())))
    return _constant(e, tensor)


def _constant(e: Emitter, tensor: torch.Tensor) -> Value:
    dtype = type_name(tensor.dtype)
    if tensor.numel() == 0:
        return e.full(0, dtype, tensor.shape)
    dense = tensor.detach().cpu().contiguous()
    return Value(e.b.constant(to_dlpack(dense)), dtype, tuple(dense.shape))

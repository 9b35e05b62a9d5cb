"""torch's tensors as arguments of executables."""

import pytest
import torch
import weft
from conftest import close


def doubled(dtype="float32", shape=(2, 3)):
    """y = x + x"""
    b = weft.GraphBuilder()
    x = b.input("x", dtype, shape)
    b.output(b.elementwise("add", [x, x]), "y")
    return weft.compile(b.finish(), threads=1)


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int8", "int64"])
def test_element_types(name):
    exe, dtype = doubled(name), getattr(torch, name)
    x = (torch.randn(2, 3) * 4).to(dtype)
    y = exe(x)
    assert y.dtype == dtype
    close(y, x + x)


def test_strides_parameters_and_gradients():
    exe, wide = doubled(), torch.randn(6, 8)
    for x in (wide[::3, 1:4], wide.t()[2:4, ::2], wide[:1, :3].expand(2, 3)):
        assert x.shape == (2, 3)
        close(exe(x), x + x)
        out = torch.zeros(3, 2).t()
        exe.run_into(out, x)
        close(out, x + x)
    parameter = torch.nn.Parameter(torch.randn(2, 3))
    close(exe(parameter), (parameter + parameter).detach())
    close(exe(wide[:2, :3].requires_grad_()), 2 * wide[:2, :3])


def test_no_axes_and_no_elements():
    close(doubled(shape=())(torch.tensor(3.0)), torch.tensor(6.0))
    assert doubled(shape=(0, 3))(torch.empty(0, 3)).shape == (0, 3)


def test_what_has_no_elements_here_is_refused():
    exe = doubled()
    with pytest.raises(weft.InvalidInput, match="'x'"):
        exe(torch.empty(2, 3, device="meta"))
    with pytest.raises(weft.InvalidInput, match="'x'"):
        exe(torch.zeros(2, 3).to_sparse())
    with pytest.raises(weft.InvalidInput, match="'x'"):
        exe(torch.zeros(2, 3, dtype=torch.complex64))
    with pytest.raises(weft.InvalidInput, match="'x' is f64|'x'"):
        exe(torch.zeros(2, 3, dtype=torch.float64))


def test_a_constant_outlives_its_tensor():
    b = weft.GraphBuilder()
    x, held = b.input("x", "float32", [3]), torch.arange(3.0)
    b.output(b.elementwise("add", [x, b.constant(held)]), "y")
    model = b.finish()
    del held
    others = [torch.full((3,), 7.0) for _ in range(100)]
    assert len(others) == 100
    close(weft.compile(model)(torch.zeros(3)), torch.arange(3.0))

"""Complex numbers, which weft has as two tensors."""

import pytest
import torch
import torch.nn.functional as f
import weft
import weft.torch
from conftest import close


def wave(*shape, phase=0.0):
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count) * 0.7 + phase).reshape(shape)


X = wave(3, 4, 6)
Z = torch.complex(X, wave(3, 4, 6, phase=1))
Y = torch.complex(wave(3, 4, 6, phase=2), wave(3, 4, 6, phase=3) + 2)


def arithmetic(x, z, y):
    return (
        *(z * y, z * x, x * z, z + y, z - x, x - z, z + 2, torch.rsub(z, 1j), -z, z * (1 + 2j)),
        *(z / y, z / x.exp(), z / 2, 1 / y, 3 / (y + 1j), z**2, z**3, torch.where(x > 0, z, y)),
    )


def parts(x, z, y):
    return (
        *(z.real, z.imag, z.abs(), z.angle(), z.conj() * z, torch.view_as_real(z), z.sgn()),
        *(torch.view_as_complex(x.reshape(3, 4, 3, 2)), torch.complex(x, x + 1), z == y, z != z),
        *(torch.polar(x.exp(), x), x.to(torch.complex64) * 1j, z.to(torch.complex128), y.log()),
        *(z.exp(), torch.zeros_like(z) + z, torch.ones_like(z) * z, torch.full((3,), 1 + 2j)),
    )


def movement(x, z, y):
    written = torch.zeros_like(z)
    written[:, 1:3] = y[:, :2]
    return (
        *(torch.cat([z, y], 1), torch.stack([z, z]), z.flip(0), z.roll(1, 0), z.transpose(0, 2)),
        *(z[:, ::2, 1:], z[torch.tensor([1, 0])], z.expand(2, 3, 4, 6), f.pad(z, (1, 2)), written),
        *(z.sum(1), z.mean(), z.cumsum(2), z.tril(), z.unfold(2, 3, 1), torch.cat([x, z])),
    )


def products(x, z, y):
    a, b = z, y.transpose(1, 2)
    return (
        *(a @ b, x.to(a.dtype) @ b, a @ b.real.to(a.dtype), torch.einsum("bij,bkj->ik", z, y)),
        *(torch.addmm(z[0, :, :4], a[0], b[0], beta=0.5, alpha=2), a[0] @ y[0, 0]),
    )


def transforms(x, z, y):
    return (
        *(torch.fft.fft(x), torch.fft.ifft(z, norm="ortho"), torch.fft.fft(z, n=9, dim=1)),
        *(torch.fft.rfft(x, n=7), torch.fft.irfft(z, n=9), torch.fft.irfft(z), torch.fft.hfft(z)),
        *(torch.fft.rfft2(x, norm="forward"), torch.fft.irfft2(z, s=(5, 8)), torch.fft.fftn(z)),
        torch.fft.fftshift(torch.fft.ifftn(z, dim=(0, 2)), dim=2),
    )


GROUPS = [arithmetic, parts, movement, products, transforms]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group(group, counter):
    made, expected = torch.compile(group, backend=counter)(X, Z, Y), group(X, Z, Y)
    close(made, expected)
    assert [m.stride() for m in made] == [e.stride() for e in expected]
    assert not counter.left and len(counter.explanations[0].parts) == 1


@pytest.mark.parametrize("group", GROUPS)
def test_gradients(group, counter):
    leaves = [t.clone().requires_grad_() for t in (X, Z, Y)]
    twins = [t.clone().requires_grad_() for t in (X, Z, Y)]

    def loss(results):
        kept = [r for r in results if r.requires_grad]
        return sum((r * wave(*r.shape, phase=4)).abs().sum() for r in kept)

    loss(torch.compile(group, backend=counter)(*leaves)).backward()
    loss(group(*twins)).backward()
    for mine, theirs in zip(leaves, twins):
        if theirs.grad is not None:
            close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-4)


def test_a_rotation_of_queries(counter):
    """As Llama's authors write it."""
    turns = torch.polar(torch.ones(16, 8), wave(16, 8))

    def rotate(q):
        z = torch.view_as_complex(q.reshape(*q.shape[:-1], -1, 2))
        return torch.view_as_real(z * turns[:, None]).flatten(-2)

    q = wave(2, 16, 3, 16)
    close(torch.compile(rotate, backend=counter)(q), rotate(q))
    assert not counter.left


def test_spectra_of_frames(counter):
    window = torch.hann_window(32)

    def filtered(x):
        z = torch.stft(x, 32, 8, window=window, return_complex=True)
        size = z.abs().pow(2).clamp(min=1e-5).log()
        return size, torch.istft(z * torch.sigmoid(size), 32, 8, window=window)

    x = wave(2, 200)
    close(torch.compile(filtered, backend=counter)(x), filtered(x), rtol=1e-3, atol=1e-4)
    # That no sample of the window's sum is 0 torch looks at itself.
    assert {each.target for each in counter.left} <= {"aten._assert_async.msg"}


def test_an_open_batch_and_numbers_as_they_lie(counter):
    """Conjugated, transposed and channels-last ones, which torch has not written anew."""
    double = torch.compile(lambda z: (z * 2, z.abs()), backend=counter, dynamic=True)
    images = torch.complex(wave(2, 3, 4, 5), wave(2, 3, 4, 5, phase=1))
    for z in (Z, Z[:2], Z.conj(), Z.transpose(0, 2), images.to(memory_format=torch.channels_last)):
        torch._dynamo.reset()
        close(double(z), (z * 2, z.abs()))
    assert not counter.left


def test_weights_that_are_trained():
    class Spectral(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.complex(wave(4, 4, 3), wave(4, 4, 3, phase=1)))

        def forward(self, x):
            modes = torch.fft.rfft(x)[..., :3]
            return torch.fft.irfft(torch.einsum("bik,iok->bok", modes, self.weight), n=6)

    model = Spectral()
    compiled = torch.compile(model, backend="weft")
    for _ in range(3):
        with torch.no_grad():
            close(compiled(X), model(X))
            model.weight += 0.1j


def test_what_has_no_complex_form_stays_with_torch(counter):
    made = torch.compile(lambda z: (z.tanh() * 2).real, backend=counter)(Z)
    close(made, (Z.tanh() * 2).real)
    assert [each.reason for each in counter.left] == [
        "weft has no such operation of complex numbers"
    ]


def test_an_exported_program_has_parts_as_a_last_axis():
    class Model(torch.nn.Module):
        def forward(self, z):
            return z * 2j, z.abs()

    exe = weft.compile(torch.export.export(Model(), (Z,)))
    assert exe.inputs[0].shape == (3, 4, 6, 2)
    doubled, size = exe(torch.view_as_real(Z))
    close(doubled, torch.view_as_real(Z * 2j))
    close(size, Z.abs())

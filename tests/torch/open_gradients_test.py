"""Gradients where a batch, or the extents of an image, are open: the last batch of an epoch."""

import copy
import math

import pytest
import torch
from conftest import close
from torch import nn


def gradients(model, x):
    model.zero_grad()
    x = x.clone().requires_grad_()
    made = model(x)
    (made * made.detach().cos()).sum().backward()
    return [made.detach(), x.grad, *(p.grad.clone() for p in model.parameters())]


def check(model, inputs, counter, rtol=1e-4, atol=1e-4):
    compiled = torch.compile(copy.deepcopy(model), backend=counter, dynamic=True)
    for x in inputs:
        for made, expected in zip(gradients(compiled, x), gradients(model, x), strict=True):
            close(made, expected, rtol=rtol, atol=atol)
    assert not counter.left


def images(channels, *sizes):
    return [torch.randn(2 + n, channels, *size) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "model, inputs",
    [
        (
            lambda: nn.Sequential(nn.Conv1d(4, 16, 5, padding=2), nn.ELU(), nn.Conv1d(16, 4, 3)),
            lambda: images(4, (20,), (33,), (47,)),
        ),
        (
            lambda: nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1, dilation=2), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=4)
            ),
            lambda: images(3, (12, 14), (17, 9)),
        ),
        (
            lambda: nn.Sequential(
                nn.ConvTranspose1d(4, 16, 4, 2, 1), nn.ELU(), nn.ConvTranspose1d(16, 4, 3)
            ),
            lambda: images(4, (20,), (33,)),
        ),
    ],
    ids=["rows", "images", "transposed"],
)
def test_convolutions_of_open_images(model, inputs, counter):
    check(model(), inputs(), counter)


def test_strided_convolutions_and_norms_of_an_open_batch(counter):
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.Tanh(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=16), nn.ConvTranspose2d(16, 4, 3, 2, 1),
    )  # fmt: skip
    compiled = torch.compile(copy.deepcopy(model), backend=counter)
    for batch in (4, 3, 5):
        x = torch.randn(batch, 3, 13, 13)
        for made, expected in zip(gradients(compiled, x), gradients(model, x), strict=True):
            close(made, expected, rtol=1e-3, atol=1e-3)
    assert not counter.left


class Framed(nn.Module):
    """Padded to whole frames, whose number Python says by floats."""

    def __init__(self, step, shift):
        super().__init__()
        self.step, self.shift = step, shift

    def forward(self, x):
        frames = math.ceil((x.shape[-1] - 1) / self.step + self.shift)
        return nn.functional.pad(x, (0, frames * self.step - x.shape[-1] + 1)) * frames


@pytest.mark.parametrize("step, shift", [(1, 1.0), (3, 0), (4, 2.5)])
def test_sizes_that_are_rounded_up(step, shift, counter):
    check(Framed(step, shift), [torch.randn(2, n) for n in (9, 10, 11, 12, 13)], counter)

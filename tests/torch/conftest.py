"""Modules beside what weft makes of them."""

import pytest
import torch
import weft.torch


class Counter:
    """The backend, counting the graphs that torch hands over."""

    def __init__(self, **options):
        self.options = weft.torch.Options(**options)
        self.graphs = []
        self.explanations = []

    def __call__(self, module, inputs):
        self.graphs.append(module)
        from weft.torch.backend import compile_module

        return compile_module(module, inputs, self.options, self.explanations.append)

    @property
    def left(self):
        return [each for explanation in self.explanations for each in explanation.left]


@pytest.fixture
def counter():
    return Counter()


@pytest.fixture(autouse=True)
def fresh_torch():
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def close(made, expected, rtol=1e-4, atol=1e-5):
    torch.testing.assert_close(made, expected, rtol=rtol, atol=atol)

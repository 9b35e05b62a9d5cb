"""How tensors lie in memory: what a forward graph saves, and where parts begin and end."""

import copy

import torch
from conftest import close
from torch import nn
from torch.nn import functional as f

IMAGES = torch.channels_last


class Block(nn.Module):
    """Convolutions, normalised over the batch, and pooled."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.each = nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=16)
        self.second, self.head = nn.Conv2d(16, 24, 1), nn.Linear(24, 5)

    def forward(self, x):
        x = f.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        x = f.hardtanh(self.second(self.each(x)))
        return self.head(f.adaptive_avg_pool2d(x, 1).flatten(1))


def gradients(model, x):
    model.zero_grad()
    x = x.detach().requires_grad_()
    model(x).square().sum().backward()
    return [x.grad, *(p.grad for p in model.parameters())]


def check(model, x, counter):
    """The same gradients as in eager mode, in two steps; the parts of both graphs."""
    compiled = torch.compile(copy.deepcopy(model), backend=counter)
    for _ in range(2):
        for made, expected in zip(gradients(compiled, x), gradients(model, x), strict=True):
            assert made.stride() == expected.stride()
            close(made, expected, rtol=1e-3, atol=1e-4)
    return [explanation.parts for explanation in counter.explanations]


def test_saved_images_lie_channels_last(counter):
    forward, backward = check(Block(), torch.randn(4, 3, 20, 20), counter)
    assert len(forward) == len(backward) == 1
    images = [
        node.meta["val"]
        for node in forward[0]._part.outputs
        if node.meta["val"].dim() == 4 and node.meta["val"].shape[1] >= 16
    ]
    assert len(images) >= 4
    assert all(image.is_contiguous(memory_format=IMAGES) for image in images)
    read = {node.meta["val"].shape: node.meta["val"] for node in backward[0]._part.inputs}
    assert all(read[image.shape].is_contiguous(memory_format=IMAGES) for image in images)


def test_a_model_that_is_channels_last(counter):
    model = Block().to(memory_format=IMAGES)
    parts = check(model, torch.randn(4, 3, 20, 20).contiguous(memory_format=IMAGES), counter)
    assert [len(each) for each in parts] == [1, 1] and counter.left == []


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, 16, 1), nn.AdaptiveMaxPool2d(4)

    def forward(self, x):
        return self.pool(torch.tanh(self.conv(x)))


def test_torch_reads_what_is_saved_as_it_was_traced(counter):
    check(Flat(), torch.randn(2, 3, 9, 9), counter)
    assert any("max_pool2d_backward" in each.target for each in counter.left)


def test_elementwise_calls_wait_for_the_part_that_reads_them(counter):
    def function(x, y):
        first = (x - y.mean()) * 2
        by_torch = torch.linalg.inv(x @ y + 2 * torch.eye(32))
        return (first * by_torch).relu()

    x, y = torch.randn(32, 32) / 6, torch.randn(32, 32) / 6
    compiled = torch.compile(function, backend=counter)
    with torch.no_grad():
        close(compiled(x, y), function(x, y))
    (parts,) = [explanation.parts for explanation in counter.explanations]
    before, after = parts
    waiting = [node.meta["val"].numel() for node in before._part.outputs]
    assert sorted(waiting) == [1, 32 * 32]
    assert any("sub" in str(node.target) for node in after._part.nodes)


def test_calls_with_effects_leave_strides_where_they_are(counter):
    """torch puts a token for each before the outputs: here it looks whether a matrix is singular."""

    def function(a, b):
        return torch.linalg.solve(a, b).exp()

    given = [torch.randn(3, 4, 4) + 3 * torch.eye(4), torch.randn(3, 4, 2)]
    mine, theirs = ([t.clone().requires_grad_() for t in given] for _ in range(2))
    close(torch.compile(function, backend=counter)(*mine), function(*theirs))
    torch.compile(function, backend=counter)(*mine).sum().backward()
    function(*theirs).sum().backward()
    for a, b in zip(mine, theirs):
        close(a.grad, b.grad)

"""Parts of models as people write them, each as in eager for any batch and whole by weft."""

import pytest
import torch
import torch.nn.functional as f
from conftest import close
from torch import nn
from torch._higher_order_ops import scan, while_loop


class GroupedAttention(nn.Module):
    """Causal, with rotated positions and heads that share keys (Llama)."""

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.norm = nn.Linear(32, 32), nn.Linear(32, 32), nn.RMSNorm(32)

    def forward(self, x):
        batch, length, _ = x.shape
        x = self.norm(x)
        q = self.q(x).view(batch, length, 4, 8).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, 2, 2, 8).permute(2, 0, 3, 1, 4)
        angles = torch.outer(torch.arange(length), 10000 ** -(torch.arange(0, 8, 2) / 8))
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        rotate = lambda t: t * cos + torch.cat([-t[..., 4:], t[..., :4]], -1) * sin
        y = f.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        return y.transpose(1, 2).reshape(batch, length, 32)


class GraphAttention(nn.Module):
    """A softmax over the edges into each node (GAT)."""

    def __init__(self):
        super().__init__()
        self.w, self.a = nn.Linear(8, 16), nn.Linear(32, 4)

    def forward(self, x, edges):
        h, (source, target) = self.w(x), edges
        scores = f.leaky_relu(self.a(torch.cat([h[source], h[target]], -1)), 0.2)
        places = target[:, None].expand(-1, 4)
        largest = torch.full((x.shape[0], 4), -1e9).scatter_reduce(0, places, scores, "amax")
        scores = torch.exp(scores - largest[target])
        total = torch.zeros(x.shape[0], 4).index_add(0, target, scores)
        shares = scores / (total[target] + 1e-9)
        made = torch.zeros(x.shape[0], 4, 16)
        return f.elu(made.index_add_(0, target, shares[:, :, None] * h[source][:, None]).flatten(1))


class ConvLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Conv2d(11, 32, 3, padding=1)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 8, *x.shape[-2:])
        c = torch.zeros_like(h)
        for t in range(x.shape[1]):
            i, keep, o, g = self.gates(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = torch.sigmoid(keep) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class StateSpace(nn.Module):
    """A selective scan (Mamba), by torch's scan."""

    def __init__(self):
        super().__init__()
        self.step, self.both = nn.Linear(8, 8), nn.Linear(8, 8)
        self.a = nn.Parameter(torch.randn(8, 4))

    def forward(self, x):
        step = f.softplus(self.step(x))
        b, c = self.both(x).chunk(2, -1)
        decay = torch.exp(step[..., None] * -torch.exp(self.a))
        drive = step[..., None] * b[:, :, None] * x[..., None]

        def run(h, at):
            decays, drives, reads = at
            h = decays * h + drives
            return h, (h * reads[:, None]).sum(-1)

        along = tuple(t.transpose(0, 1) for t in (decay, drive, c))
        last, made = scan(run, x.new_zeros(x.shape[0], 8, 4), along)
        return last, made.transpose(0, 1)


class Windows(nn.Module):
    """Attention in shifted windows with relative positions (Swin)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.table = nn.Linear(8, 24), nn.Parameter(torch.randn(49, 2))

    def forward(self, x):
        batch, height, width, c = x.shape
        split = torch.roll(x, (-2, -2), (1, 2)).view(batch, height // 4, 4, width // 4, 4, c)
        rows = split.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(rows).view(-1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4)
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None] + 3
        bias = self.table[(apart[0] * 7 + apart[1]).view(-1)].view(16, 16, 2).permute(2, 0, 1)
        mixed = ((q @ k.transpose(-2, -1)) * 0.5 + bias).softmax(-1) @ v
        joined = mixed.transpose(1, 2).reshape(batch, height // 4, width // 4, 4, 4, c)
        whole = joined.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, c)
        return torch.roll(whole, (2, 2), (1, 2))


class Detector(nn.Module):
    """Boxes of the best anchors, and which of them overlap (YOLO)."""

    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 15, 1)

    def forward(self, x):
        made = self.head(x)
        batch, _, height, width = made.shape
        made = made.view(batch, 3, 5, height, width).permute(0, 1, 3, 4, 2)
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centre = (made[..., :2].sigmoid() * 2 - 0.5 + torch.stack([x, y], -1)) * 8
        size = (made[..., 2:4].sigmoid() * 2) ** 2 * 10
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1).reshape(batch, -1, 4)
        scores, best = made[..., 4].reshape(batch, -1).sigmoid().topk(6, 1)
        boxes = boxes.gather(1, best[..., None].expand(-1, -1, 4))
        low = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
        high = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
        both, area = (high - low).clamp(min=0).prod(-1), (boxes[..., 2:] - boxes[..., :2]).prod(-1)
        overlap = both / (area[:, :, None] + area[:, None] - both)
        return boxes, scores, (overlap.triu(1) > 0.5).any(1)


class Writes(nn.Module):
    """Slices with steps, diagonals and masks that are written in place."""

    def forward(self, x):
        y = x.clone()
        y[:, 1:3] *= 2
        y[::2, -1] = 7
        y[:, :, 0].add_(1)
        y[0] = y[1].flip(0)
        y[y > 2] = 0.5
        z = torch.zeros(5, 6)
        z[1:4, 1::2] = x[0, :3, :3]
        z.diagonal(1).fill_(9)
        z[[0, 2], [1, 3]] = torch.tensor([5.0, 6.0])
        return y, z.masked_fill_(z > 8, -1).clamp_(-1, 1), x.std((1, 2))


class Resized(nn.Module):
    """Images of other sizes by factors, halves of which torch rounds."""

    def forward(self, x):
        half = f.interpolate(x, scale_factor=0.5, mode="bilinear")
        return half, f.interpolate(x, scale_factor=1.5), f.interpolate(half, scale_factor=2.0)


class Branches(nn.Module):
    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda a: a.sin() * 2, lambda a: a.cos() - 1, (x,))
        more, grow = lambda i, t: i < 5, lambda i, t: (i + 1, t * 1.1 + i)
        return y, *while_loop(more, grow, (torch.tensor(0), x))


ARCHITECTURES = {
    "grouped attention": (GroupedAttention, lambda n: (torch.randn(n, 6, 32),)),
    "graph attention": (
        GraphAttention,
        lambda n: (torch.randn(10, 8), torch.randint(0, 10, (2, 20 * n))),
    ),
    "conv lstm": (ConvLSTM, lambda n: (torch.randn(n, 3, 3, 8, 8),)),
    "state space": (StateSpace, lambda n: (torch.randn(n, 6, 8),)),
    "windows": (Windows, lambda n: (torch.randn(n, 8, 8, 8),)),
    "detector": (Detector, lambda n: (torch.randn(n, 3, 4, 4),)),
    "writes": (Writes, lambda n: (torch.randn(2 * n, 4, 5),)),
    "resized": (Resized, lambda n: (torch.randn(n, 3, 16, 16),)),
    "branches": (Branches, lambda n: (torch.randn(n, 3),)),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture(name, counter):
    make, inputs = ARCHITECTURES[name]
    model = make().eval()
    compiled = torch.compile(model, backend=counter, dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 4):
            x = inputs(batch)
            close(compiled(*(t.clone() for t in x)), model(*x), rtol=1e-3, atol=1e-4)
    assert not counter.left
    assert not [told for each in counter.explanations for part in each.parts for told in part.left]

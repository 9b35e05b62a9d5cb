"""weft.compile of exported programs."""

import pytest
import torch
import weft
from conftest import close
from torch import nn


def test_an_exported_program_with_an_open_batch(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: batch},))
    exe = weft.compile(program)
    assert isinstance(exe.inputs[0].shape[0], str) and exe.inputs[0].shape[1:] == (3, 8, 8)
    for n in (2, 5):
        x = torch.randn(n, 3, 8, 8)
        close(exe(x), model(x).detach())
    exe.save(tmp_path / "m.weft")
    x = torch.randn(5, 3, 8, 8)
    close(weft.load(tmp_path / "m.weft")(x), model(x).detach())


def test_what_is_unsupported_is_told():
    class Model(nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x) + torch.linalg.svd(x)[0]

    program = torch.export.export(Model(), (torch.eye(3),))
    with pytest.raises(weft.Unsupported, match="linalg_inv_ex[^\n]*\n[^$]*svd"):
        weft.compile(program)


def test_state_that_a_program_keeps_is_refused():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            self.seen += 1
            return x * self.seen

    program = torch.export.export(Counting(), (torch.ones(3),))
    with pytest.raises(weft.Unsupported, match="the program writes 'seen'"):
        weft.compile(program)


def test_a_whole_lstm():
    model = nn.LSTM(6, 8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 6)
    made = weft.compile(torch.export.export(model, (x,)))(x)
    outputs, (h, c) = model(x)
    close(list(made), [outputs.detach(), h.detach(), c.detach()])


def test_a_graph_builder():
    b = weft.GraphBuilder()
    x = b.input("x", "float32", [weft.Extent.open("n"), 4])
    w = b.constant(torch.ones(4, 5).numpy())
    h = b.dot_general(x, w, [1], [0])
    b.output(b.elementwise("max", [h, b.scalar("float32", 0)]), "y")
    exe = weft.compile(b.finish({"n": 2}))
    data = torch.randn(3, 4)
    close(exe(data), (data @ torch.ones(4, 5)).relu())
    with pytest.raises(weft.InvalidInput, match="no elementwise operation"):
        b = weft.GraphBuilder()
        y = b.elementwise("frobnicate", [b.input("x", "float32", [2])])
        b.output(y, "y")
        b.finish()

"""Compiles a torch model, shows its plan, and saves an artefact that runs without Python:

scripts/setup --torch && scripts/test --torch       # makes build/release/torch-test, with the wheel
build/release/torch-test/bin/python examples/torch_model/classify.py digits.weft
build/release/examples/c_artefact digits.weft
"""

import sys

import torch
import weft
from torch import nn

# A classifier of small pictures, trained for a moment on bars that lie or stand.
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 2)
)


def pictures(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    kind = torch.randint(0, 2, (count,))
    where = torch.randint(0, 8, (count,))
    bars = torch.zeros(count, 1, 8, 8)
    for picture, stands, at in zip(bars, kind, where):
        picture[0, :, at] = 1.0 if stands else picture[0, :, at]
        picture[0, at, :] = picture[0, at, :] if stands else 1.0
    return bars, kind


torch.manual_seed(0)
compiled = torch.compile(model, backend="weft")  # forward and backward
optimiser = torch.optim.Adam(model.parameters(), 0.01)
for step in range(40):
    x, kind = pictures(64)
    loss = nn.functional.cross_entropy(compiled(x), kind)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.3f}")

# Without gradients the weights are constants; torch keeps what weft lacks, which is nothing here.
model.eval()
x, kind = pictures(4)
with torch.no_grad():
    explanation = weft.torch.explain(model, x)
    print(explanation)
    print(explanation.graphs[0].executables[0].explain())
    right = (compiled(x).argmax(1) == kind).sum()
print(f"{right} of {len(kind)} are right")

# A program without torch: weft.load, the command and the C runtime run it.
exe = weft.compile(torch.export.export(model, (torch.ones(1, 1, 8, 8),)))
path = sys.argv[1] if len(sys.argv) > 1 else "digits.weft"
exe.save(path)
print(f"{path}: first element {exe(torch.ones(1, 1, 8, 8)).flatten()[0]:g} for a picture of ones")

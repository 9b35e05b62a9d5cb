"""What outlasts a process, and what a process may not lose: the cache, and memory."""

import pathlib
import subprocess
import sys

import torch
import weft

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python"))
from growth import growth  # noqa: E402

COMPILES = """
import sys, torch
folder, what = sys.argv[1:]
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32))
options = {"cache_dir": folder}
if what == "other graph":
    model.append(torch.nn.Tanh())
if what == "other constants":
    model[0].weight.data.mul_(2)
if what == "other options":
    options["plan"] = "none"
x = torch.randn(4, 16)
with torch.no_grad():
    made = torch.compile(model, backend="weft", options=options)(x)
    torch.testing.assert_close(made, model(x), rtol=1e-4, atol=1e-5)
"""


def models_in(folder):
    return {f.name for f in folder.rglob("*") if f.is_file() and "model" in f.name}


def test_processes_share_what_has_one_key(tmp_path):
    def start(what):
        return subprocess.Popen([sys.executable, "-c", COMPILES, str(tmp_path), what])

    both = [start("the same"), start("the same")]
    assert [process.wait() for process in both] == [0, 0]
    known = models_in(tmp_path)
    assert len(known) == 1
    assert start("the same").wait() == 0
    assert models_in(tmp_path) == known
    for what in ("other graph", "other constants", "other options"):
        assert start(what).wait() == 0
        assert len(models_in(tmp_path) - known) == 1, what
        known = models_in(tmp_path)


def test_runs_and_compilations_leave_no_memory_behind():
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).eval()
    x, y = torch.randn(4, 16), torch.empty(4, 16)
    compiled = torch.compile(model, backend="weft")
    program = torch.export.export(model, (x,))
    exe = weft.compile(program)

    def run():
        exe.run_into(y, x)
        exe(x)

    with torch.no_grad():
        assert growth(lambda: compiled(x), 1000, 10000) < 1 << 20
        assert growth(run, 1000, 10000) < 1 << 20
    from weft.torch import from_exported

    graph = from_exported(program)
    # The allocator keeps some of what compilations use; none of it is per compilation.
    assert growth(lambda: weft.compile(graph)(x), 50, 200) < 8 << 20

"""torch.compile(backend="weft"): values, gradients, what changes between calls."""

import copy
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import weft
import weft.torch
from conftest import close
from torch import nn
from torch.nn import functional as f


def mlp():
    head = nn.Linear(32, 8)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), head, nn.Softmax(-1))


def test_an_mlp_by_the_name_of_the_backend():
    model, x = mlp(), torch.randn(4, 16)
    with torch.no_grad():
        close(torch.compile(model, backend="weft")(x), model(x))


def test_options_and_wrong_ones():
    model, x = mlp(), torch.randn(4, 16)
    with torch.no_grad():
        options = {"threads": 1, "plan": "none"}
        close(torch.compile(model, backend="weft", options=options)(x), model(x))
        with pytest.raises(Exception, match="there is no option 'speed'; the options are: plan, "):
            torch.compile(model, backend="weft", options={"speed": 2})(x)


def test_a_new_batch_or_length_compiles_no_new_graph(counter):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x):
            mixed = torch.softmax(x @ x.transpose(1, 2), -1) @ x
            return self.inner(mixed).reshape(-1, 4), mixed.mean(1), x[:, 1:] * 2

    model = Model()
    compiled = torch.compile(model, backend=counter, dynamic=True)
    with torch.no_grad():
        for batch, length in [(2, 5), (3, 5), (3, 9), (6, 3)]:
            x = torch.randn(batch, length, 8)
            close(compiled(x), model(x))
    assert len(counter.graphs) == 1 and not counter.left


def test_gradients(counter):
    model, x = mlp(), torch.randn(4, 16, requires_grad=True)
    twin, y = copy.deepcopy(model), x.detach().clone().requires_grad_()
    torch.compile(model, backend=counter)(x).square().sum().backward()
    twin(y).square().sum().backward()
    close(x.grad, y.grad)
    for mine, theirs in zip(model.parameters(), twin.parameters()):
        close(mine.grad, theirs.grad)
    assert len(counter.explanations) == 2 and not counter.left


def test_weights_that_change_are_noticed():
    model, x = mlp(), torch.randn(4, 16)
    compiled = torch.compile(model, backend="weft")
    with torch.no_grad():
        for _ in range(6):
            close(compiled(x), model(x))
            model[0].weight.mul_(-1)
            model.load_state_dict({k: v.flip(0) for k, v in model.state_dict().items()})


def test_what_weft_lacks_stays_with_torch_and_says_why(caplog):
    def function(x):
        y = torch.sin(x) * 2
        return torch.linalg.inv(y) + x, torch.nonzero(x.sum(1) > -1e9)

    x = torch.eye(3) + 0.1 * torch.randn(3, 3)
    explanation = weft.torch.explain(function, x)
    assert {each.target for each in explanation.left} >= {"aten.linalg_inv_ex.default"}
    assert "aten.linalg_inv_ex.default" in str(explanation)
    assert "weft has no such operation" in str(explanation)
    with caplog.at_level(logging.INFO, "weft.torch"):
        torch._dynamo.reset()
        close(torch.compile(function, backend="weft")(x), function(x))
    lines = [r.getMessage() for r in caplog.records if r.name == "weft.torch"]
    assert any(
        "linalg_inv_ex" in line and "stays with torch: weft has no" in line for line in lines
    )


def test_dropout_draws_by_torchs_seed(counter):
    class Twice(nn.Module):
        def forward(self, x):
            return f.dropout(x, 0.25), f.dropout(x, 0.25)

    x = torch.full((40, 500), 3.0)
    compiled = torch.compile(Twice(), backend=counter)
    torch.manual_seed(3)
    first, second = compiled(x)
    other, _ = compiled(x)
    for y in (first, second, other):
        assert set(y.unique().tolist()) == {0.0, 4.0}
        assert abs((y == 0).float().mean() - 0.25) < 5 * (0.1875 / y.numel()) ** 0.5
    assert not torch.equal(first, second) and not torch.equal(first, other)
    torch.manual_seed(3)
    assert torch.equal(compiled(x)[0], first)
    assert counter.left == []


def test_gradients_pass_where_nothing_was_dropped(counter):
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5))
    x = torch.randn(8, 16, requires_grad=True)
    y = torch.compile(model, backend=counter)(x)
    (y * y.detach()).sum().backward()
    close(x.grad, ((y * 2) @ model[0].weight).detach())
    assert counter.left == []


def test_distributions(counter):
    def drawn(x):
        p = torch.sigmoid(x)
        return torch.rand_like(x), torch.randn(200, 100) * 2 + 1, torch.bernoulli(p), p

    compiled = torch.compile(drawn, backend=counter)
    uniform, normal, hits, p = compiled(torch.randn(200, 100))
    n = uniform.numel()
    assert 0 <= uniform.min() and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 5 * (1 / 12 / n) ** 0.5
    assert abs(normal.mean() - 1) < 5 * 2 / n**0.5 and abs(normal.std() - 2) < 0.1
    assert set(hits.unique().tolist()) == {0.0, 1.0}
    assert abs((hits - p).mean()) < 5 * 0.5 / n**0.5
    assert counter.left == []


def test_random_numbers_of_eager_mode(counter):
    model = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 4), nn.Dropout(0.2))
    x = torch.randn(8, 16)
    counter.options = weft.torch.Options(fallback_random=True)
    compiled = torch.compile(model, backend=counter)
    torch.manual_seed(3)
    made = compiled(x)
    torch.manual_seed(3)
    close(made, model(x))
    assert all("random" in each.reason for each in counter.left)


def test_strides_of_inputs_and_results():
    function = lambda x: (x.t() * 2, (x + 1).permute(1, 0), x.expand(2, *x.shape) - 1)
    x = torch.randn(8, 6)[::2, 1:].t()
    made, expected = torch.compile(function, backend="weft")(x), function(x)
    close(made, expected)
    assert [t.stride() for t in made[:2]] == [t.stride() for t in expected[:2]]


def test_tensors_are_read_and_written_as_they_lie(counter):
    function = lambda x, y: ((x * 2).permute(2, 0, 1), y + x[:, :1])
    x = torch.randn(5, 3, 4).permute(1, 0, 2)
    y = torch.randn(4, 1, 3).permute(2, 1, 0)
    made, expected = torch.compile(function, backend=counter)(x, y), function(x, y)
    close(made, expected)
    assert [t.stride() for t in made] == [t.stride() for t in expected]
    (executable,) = counter.explanations[0].executables
    assert sorted(tensor.shape for tensor in executable.inputs) == [(1, 4, 3), (5, 3, 4)]
    assert executable.outputs[0].shape == (5, 3, 4), "in the order of x"


def test_aliases_and_written_buffers():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen += x.sum(0)
            x.mul_(2)
            return x.view(-1), self.seen * 1, x[0]

    mine, theirs = Counting(), Counting()
    compiled = torch.compile(mine, backend="weft")
    for _ in range(3):
        x = torch.randn(4, 3)
        y = x.clone()
        with torch.no_grad():
            made, expected = compiled(x), theirs(y)
        close(made, expected)
        close(x, y)
        assert made[0].data_ptr() == x.data_ptr() and made[2].data_ptr() == x.data_ptr()
        close(mine.seen, theirs.seen)


def test_batch_norm_keeps_its_statistics():
    mine = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).train()
    theirs = copy.deepcopy(mine)
    compiled = torch.compile(mine, backend="weft")
    for _ in range(3):
        x = torch.randn(2, 3, 8, 8)
        close(compiled(x), theirs(x))
    close(mine.state_dict(), theirs.state_dict())


def test_element_types():
    for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.int32):
        function = lambda x: (x * 2 + 1, (x > 1).sum(), x.float().exp())
        x = (torch.rand(5, 4) * 4).to(dtype)
        close(torch.compile(function, backend="weft")(x), function(x), rtol=1e-3)
    function = lambda x: torch.fft.fft(x).abs() + x
    x = torch.randn(4, 8)
    close(torch.compile(function, backend="weft")(x), function(x))


def test_tensors_on_other_devices_are_refused_by_name():
    with torch._subclasses.FakeTensorMode():
        first, second = torch.empty(3, device="cuda"), torch.empty(3, device="cuda:1")
    graph = torch.fx.symbolic_trace(lambda image: image + 1)
    if not torch.cuda.is_available():
        with pytest.raises(weft.MissingDevice, match="tensor 'image' is on cuda:0.*has no GPU"):
            weft.torch.backend(graph, [first])
    with pytest.raises(weft.MissingDevice, match="tensor 'image' is on cuda:1.*and on cuda:0: move"):
        weft.torch.backend(graph, [second])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_tensors_on_a_gpu_run_there():
    module, x = mlp().cuda(), torch.randn(4, 16, device="cuda")
    with torch.no_grad():
        made = torch.compile(module, backend="weft")(x)
    assert made.device == x.device
    close(made, module(x), rtol=1e-3)


def test_no_setting_of_torch_changes():
    settings = torch._dynamo.config.get_config_copy
    before, threads, grad = settings(), torch.get_num_threads(), torch.is_grad_enabled()
    x = torch.randn(4, 16)
    torch.compile(mlp(), backend="weft")(x).sum().backward()
    assert (settings(), torch.get_num_threads(), torch.is_grad_enabled()) == (before, threads, grad)


def test_processes_share_a_cache(tmp_path):
    x = torch.randn(4, 16)
    for _ in range(2):
        torch._dynamo.reset()
        torch.manual_seed(1)
        model = mlp()
        options = {"cache_dir": str(tmp_path)}
        with torch.no_grad():
            close(torch.compile(model, backend="weft", options=options)(x), model(x))
        files = sorted(f.name for f in tmp_path.rglob("*") if f.is_file())
        assert files
    assert files == sorted(f.name for f in tmp_path.rglob("*") if f.is_file())


def test_no_elements_and_inference_mode(counter):
    model = mlp()
    compiled = torch.compile(model, backend=counter)
    with torch.inference_mode():
        for count in (0, 3):
            x = torch.randn(count, 16)
            close(compiled(x), model(x))


def test_threads_share_a_module():
    model = mlp().eval()
    compiled = torch.compile(model, backend="weft", dynamic=True)
    inputs = [torch.randn(3 + i % 2, 16) for i in range(8)]
    with torch.no_grad():
        expected = [model(x) for x in inputs]
        compiled(inputs[0])

        def run(x):
            with torch.no_grad():
                return [compiled(x) for _ in range(20)]

        with ThreadPoolExecutor(4) as pool:
            for made, want in zip(pool.map(run, inputs), expected):
                for each in made:
                    close(each, want)


def test_sizes_that_no_axis_has_alone(counter):
    function = lambda x, n: (torch.arange(n) + x.shape[0], x.reshape(-1, 2).sum(1), x * n)
    compiled = torch.compile(function, backend=counter, dynamic=True)
    for n in (3, 5, 8):
        x = torch.randn(2 * n, 6)
        close(compiled(x, n + 1), function(x, n + 1))
    assert not counter.left


def test_a_part_that_fails_for_some_shapes_runs_in_torch_for_these(counter, monkeypatch):
    from weft.torch import part_module

    run = part_module.PartModule._run

    def fails_for_three(self, args):
        if any(isinstance(t, torch.Tensor) and t.shape[0] == 3 for t in args):
            raise weft.Unsupported("three rows")
        return run(self, args)

    monkeypatch.setattr(part_module.PartModule, "_run", fails_for_three)
    function = lambda x, n: (x.reshape(-1, 2).sum(1), torch.arange(n) + x.shape[0], x[:, 1:] * n)
    compiled = torch.compile(function, backend=counter, dynamic=True)
    for rows, n in [(2, 4), (3, 5), (4, 4), (3, 7)]:
        x = torch.randn(rows, 6)
        close(compiled(x, n), function(x, n))
    assert not counter.left
    (part,) = counter.explanations[0].parts
    assert len(part.left) == 1
    assert part.left[0].endswith("stay with torch for inputs of [3, 6]: three rows")
    assert part.left[0] in str(counter.explanations[0])

"""Modules of many kinds through the backend: as eager, for any batch, and in training."""

import copy

import pytest
import torch
from conftest import close
from modules import MODULES, gpt2, ids


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_as_eager_for_any_batch(name, counter):
    make, inputs = MODULES[name]
    model = make().eval()
    compiled = torch.compile(model, backend=counter, dynamic=True)
    with torch.no_grad():
        for batch in (2, 3):
            x = inputs(batch)
            close(compiled(*x), model(*x), rtol=1e-3, atol=1e-4)
            if batch == 2:
                graphs = len(counter.graphs)
    assert len(counter.graphs) == graphs
    assert not counter.left


def test_gpt2_with_a_cache(counter):
    model = gpt2().eval()
    compiled = torch.compile(model, backend=counter, dynamic=True)

    def generate(step):
        (tokens,) = ids(2, 5)
        logits, cache = [], None
        fed = tokens
        for _ in range(6):
            made = step(input_ids=fed, past_key_values=cache, use_cache=True)
            cache = made.past_key_values
            fed = made.logits[:, -1:].argmax(-1)
            logits.append(made.logits[:, -1])
        return torch.stack(logits)

    with torch.no_grad():
        torch.manual_seed(2)
        expected = generate(model)
        torch.manual_seed(2)
        close(generate(compiled), expected, rtol=1e-3, atol=1e-4)
    assert not counter.left


@pytest.mark.parametrize("name", ["resnet", "bert", "lstm", "recommender"])
def test_losses_fall_as_in_eager(name, counter):
    make, inputs = MODULES[name]
    mine = make().train()
    for module in mine.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    theirs = copy.deepcopy(mine)
    x = inputs(4)

    def losses(model, call):
        optimiser = torch.optim.SGD(model.parameters(), 0.05)
        made = []
        for _ in range(20):
            optimiser.zero_grad()
            out = call(*x)
            out = out[0] if isinstance(out, tuple) else out
            loss = (out - 0.5).square().mean()
            loss.backward()
            optimiser.step()
            made.append(loss.item())
        return made

    expected = losses(theirs, theirs)
    made = losses(mine, torch.compile(mine, backend=counter))
    assert made == pytest.approx(expected, rel=2e-3)
    assert made[-1] < made[0]
    assert not counter.left

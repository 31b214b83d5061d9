"""No pruner waits for the device in a step or mixes two: seen on the meta device."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from bnnlib.pruning import AGPPruner, GroupLasso, MagnitudePruner, Masks


def network(device="meta"):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)).to(device)


def run(model, step):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return SimpleNamespace(model=model, step=step, epoch=step, optimizer=optimizer)


PRUNERS = {
    "magnitude": lambda m, s: MagnitudePruner(m, lambda k: 0.1 * k, scope=s),
    "magnitude-anew": lambda m, s: MagnitudePruner(m, lambda k: 0.1 * k, scope=s, persistent=False),
    "agp": lambda m, s: AGPPruner(m, final_sparsity=0.9, begin_step=1, end_step=3, frequency=1, scope=s),
}


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("name", list(PRUNERS))
def test_no_pruner_waits_or_mixes_devices(name, scope, watch):
    model = network()
    pruner = PRUNERS[name](model, scope)
    with watch():
        for step in (1, 2, 3):
            pruner.on_step(run(model, step))
        assert 0.2 < pruner.sparsity < 1.0


def test_the_group_lasso_does_not_wait(watch):
    model = network()
    lasso = GroupLasso(model, 1e-3, last_step=2)
    with watch():
        for step in (1, 2, 3):
            lasso.on_step(run(model, step))


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_the_share_known_in_advance_is_the_one_that_is_pruned(scope):
    torch.manual_seed(0)
    masks = Masks(network("cpu"), scope)
    for sparsity in (0.0, 0.31, 0.317, 0.9, 1.0):
        masks.update(sparsity)
        known = masks.sparsity
        counted = Masks(network("cpu"), scope)
        counted.load_state_dict(masks.state_dict())
        assert known == counted.sparsity == sum(int((~m).sum()) for m in masks.masks.values()) / (108 + 128)
    with pytest.raises(ValueError, match="a share of 1 is pruned already"):
        masks.update(0.5)

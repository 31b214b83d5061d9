"""One chain on several devices: it must be the chain of one device, whatever is divided."""

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior
from chapters.learned_priors.distributed import Team, launch

# float64: sums over a batch in another order differ by 1e-15, which eight steps cannot raise to this
TOLERANCE = 1e-10


def network() -> nn.Sequential:
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 8)]
    return nn.Sequential(*layers, nn.BatchNorm1d(8, momentum=None), nn.ReLU(), nn.Linear(8, 10))


def chain(team: Team, state: dict, steps: int, seed: int) -> dict:
    """A chain under the learned prior on 48 images of 8 x 8; what a process ends with, and the sum over all."""
    model = network().double()
    model.load_state_dict(state)
    divided = team.wrap(model)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(48, 3, 8, 8, generator=generator).double() * torch.arange(1, 49)[:, None, None, None] / 10
    y = torch.randint(10, (48,), generator=generator)
    settings = {"spike_scale": 0.1, "slab_variance": 5e-4, "step_size": 0.1, "weight_decay": 25.0}
    prior = SpikeSlabGaussianLaplacePrior(model, sparse=["0.weight"], **settings)
    sampler = SGHMC(model.parameters(), lr=1e-4, temperature=0.1, generator=generator)
    for _ in range(steps):
        rows = torch.randperm(48, generator=generator)[:12]
        energy = 48 * F.cross_entropy(divided(x[rows]), team.share(y[rows]))
        sampler.zero_grad()
        energy.backward()
        prior.add_gradient_()
        sampler.step()
        prior.update()
    total = torch.cat([p.detach().flatten() for p in model.parameters()]).double().sum()
    mean = total.clone()
    if team.size > 1:
        torch.distributed.all_reduce(mean)
        mean /= team.size
    return {"size": team.size, "model": dict(model.state_dict()), "total": total, "mean": mean}


@pytest.mark.slow
def test_two_processes_are_one_with_the_same_batch():
    """Batch norm in training mode included: its statistics are those of the whole batch, running ones too.

    The images differ in scale, so that statistics of one process's share alone would be far off.
    """
    pytest.importorskip("lightning_fabric", reason="Lightning Fabric is absent: several devices not tested")
    torch.manual_seed(0)
    state = network().double().state_dict()
    one, two = (launch(chain, state, 8, 1, devices=count) for count in (1, 2))
    assert (one["size"], two["size"]) == (1, 2)
    for name, value in one["model"].items():
        torch.testing.assert_close(two["model"][name], value, rtol=0, atol=TOLERANCE)
        if value.is_floating_point():
            assert not torch.allclose(value, state[name], atol=1e-3), f"{name} has not moved"
    assert two["total"] == two["mean"], "the copies of the network have drifted apart"


def test_a_team_of_one_needs_no_fabric_and_changes_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    model, batch = network(), torch.arange(7)

    def same(team):
        return team.wrap(model) is model and team.share(batch) is batch

    assert launch(same)
    with pytest.raises(RuntimeError, match=r"install the extra, pip install 'bnnlib\[dist\]'"):
        launch(chain, {}, 1, 1, devices=2)


def test_shares_are_equal_parts_of_the_batch():
    batch = torch.arange(12)
    shares = [Team(torch.device("cpu"), rank, 3).share(batch) for rank in range(3)]
    assert [len(share) for share in shares] == [4, 4, 4] and torch.equal(torch.cat(shares), batch)

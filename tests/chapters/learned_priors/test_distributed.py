"""One chain on several devices: it must be the chain of one device, whatever is divided."""

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import resnet20
from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior
from chapters.learned_priors.distributed import Team, launch

# float32: sums over a batch in another order differ by about 1e-7 of a weight of order 1 in each step
TOLERANCE = 1e-5


def network() -> nn.Sequential:
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 8)]
    return nn.Sequential(*layers, nn.BatchNorm1d(8, momentum=None), nn.ReLU(), nn.Linear(8, 10))


def chain(team: Team, state: dict, steps: int, seed: int) -> dict:
    """A noisy chain on 48 images of 8 x 8 in batches of 12; what a process ends with, and the sum over all."""
    model = network()
    model.load_state_dict(state)
    divided = team.wrap(model)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(48, 3, 8, 8, generator=generator) * torch.arange(1, 49)[:, None, None, None] / 10
    y = torch.randint(10, (48,), generator=generator)
    sampler = SGHMC(model.parameters(), lr=1e-3, temperature=0.1, generator=generator)
    for _ in range(steps):
        rows = torch.randperm(48, generator=generator)[:12]
        energy = 48 * F.cross_entropy(divided(x[rows]), team.share(y[rows]))
        sampler.zero_grad()
        energy.backward()
        sampler.step()
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
    state = network().state_dict()
    one, two = (launch(chain, state, 8, 1, devices=count) for count in (1, 2))
    assert (one["size"], two["size"]) == (1, 2)
    for name, value in one["model"].items():
        torch.testing.assert_close(two["model"][name], value, rtol=0, atol=TOLERANCE)
        if value.is_floating_point():
            assert not torch.allclose(value, state[name], atol=100 * TOLERANCE), f"{name} has not moved"
    assert two["total"] == two["mean"], "the copies of the network have drifted apart"


def resnet_chain(team: Team, steps: int) -> dict:
    """ResNet20 in double precision, sampled under the learned prior in training mode, in batches of 24."""
    model = resnet20(generator=torch.Generator().manual_seed(0)).double()
    divided = team.wrap(model.train())
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(48, 3, 32, 32, generator=generator).double()
    y = torch.randint(10, (48,), generator=generator)
    settings = {"spike_scale": 0.1, "slab_variance": 5e-4, "step_size": 0.1, "weight_decay": 25.0}
    prior = SpikeSlabGaussianLaplacePrior(model, sparse=["layer*.conv?.weight"], **settings)
    sampler = SGHMC(model.parameters(), lr=1e-6, temperature=1e-3, scheme="euler", generator=generator)
    for _ in range(steps):
        rows = torch.randperm(48, generator=generator)[:24]
        energy = 50_000 * F.cross_entropy(divided(x[rows]), team.share(y[rows]))
        sampler.zero_grad()
        energy.backward()
        prior.add_gradient_()
        sampler.step()
        prior.update()
    return dict(model.state_dict())


@pytest.mark.slow
def test_resnet20_on_two_processes_is_resnet20_on_one():
    """All weights and all running statistics of batch norm, after four steps with the same global batch.

    In double precision, so that the claim is about the algorithm: two orders of summation differ by 1e-15 then, which
    four steps cannot raise to 1e-10. In float32 they differ by 1e-7, and a network fresh from its random start is
    chaotic: each step at this learning rate, 0.05 for the mean loss, makes that ten times larger.
    """
    pytest.importorskip("lightning_fabric", reason="Lightning Fabric is absent: several devices not tested")
    one, two = (launch(resnet_chain, 4, devices=count) for count in (1, 2))
    start = resnet20(generator=torch.Generator().manual_seed(0)).state_dict()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-10)
        assert not torch.allclose(value.float(), start[name].float(), atol=TOLERANCE), f"{name} has not moved"


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
    with pytest.raises(ValueError, match="batch of 12 cannot be divided among 5 devices"):
        Team(torch.device("cpu"), 0, 5).share(batch)


def test_impossible_numbers_of_devices():
    with pytest.raises(ValueError, match="devices is 0"):
        launch(chain, devices=0)
    with pytest.raises(ValueError, match=r"there are \d+ GPUs here"):
        launch(chain, devices=torch.cuda.device_count() + 2, device="cuda")

"""A generator that only draws learns a target that is only drawn from; and an estimate has its error."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

from chapters.acceptance.adversarial import ADVERSARIAL_OBJECTIVES, learn_adversarial_proposal
from chapters.acceptance.formulas import mean_of
from tests.seeded import seeded

SEED = 7


def networks(dim=1, hidden=32):
    torch.manual_seed(0)
    score = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))
    return nn.Linear(2, dim), score


@pytest.fixture(autouse=True)
def own_seed():
    with torch.random.fork_rng():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("objective", ADVERSARIAL_OBJECTIVES)
def test_moments_of_a_normal_law_are_learned(objective, generator):
    samples = 1.5 + 0.7 * torch.randn(20_000, 1, generator=generator)
    network, score = networks()
    settings = {"latent_dim": 2, "num_steps": 1200, "batch_size": 128, "learning_rate": 4e-3, "score_steps": 2}
    rates = learn_adversarial_proposal(samples, network, score, objective, **settings, generator=generator)
    assert rates.shape == (1200,) and ((rates >= 0) & (rates <= 1)).all()
    points = network(torch.randn(20_000, 2, generator=generator))
    # the equilibrium is circled, not reached: within a seventh of the deviation
    assert abs(float(points.mean()) - 1.5) < 0.1
    assert abs(float(points.std()) - 0.7) < 0.1
    assert float(rates[-200:].mean()) > 0.8


@pytest.mark.slow
def test_the_score_learns_the_log_ratio(generator):
    """With a generator that does not move, the difference of scores is the log ratio of the acceptance test."""
    samples = 0.5 + torch.randn(50_000, 1, generator=generator)
    score = nn.Linear(1, 1)

    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.idle = nn.Parameter(torch.zeros(1))

        def forward(self, noise):
            return noise + 0.0 * self.idle

    rates = learn_adversarial_proposal(
        samples, Frozen(), score, latent_dim=1, num_steps=3000, batch_size=1024, learning_rate=3e-3, generator=generator
    )
    # log p / q = x / 2 - 1 / 8
    assert float(score.weight) == pytest.approx(0.5, abs=0.04)
    # and 1 - TV(p x q, q x p), two normal laws at distance 1 / sqrt(2) along the diagonal
    exact = 2.0 * float(torch.special.ndtr(torch.tensor(-0.5 / 2**0.5)))
    assert float(rates[-300:].mean()) == pytest.approx(exact, abs=0.02)


def test_the_same_generator_learns_the_same():
    found, settings = [], {"latent_dim": 2, "num_steps": 5, "batch_size": 8}
    for _ in range(2):
        network, score = networks()
        samples = torch.randn(50, 1, generator=seeded(1))
        learn_adversarial_proposal(samples, network, score, **settings, generator=seeded())
        found.append(network.weight.detach())
    assert torch.equal(*found)


def test_the_mean_and_its_error():
    values = torch.tensor([1.0, 2.0, 4.0, 9.0])
    assert mean_of(values) == (4.0, pytest.approx(stats.sem(values.numpy())))
    assert mean_of(values[:1]).mean == 1.0 and math.isnan(mean_of(values[:1]).standard_error)

"""Proposals draw from the density that they state, and refuse what cannot be one."""

import pytest
import torch
from scipy import stats

from bnnlib import sampling as mcmc
from bnnlib.sampling.proposals import Proposal

DOUBLE = torch.float64


def test_a_random_walk_steps_by_its_scale(generator):
    scale = torch.tensor([0.5, 3.0], dtype=DOUBLE)
    given = torch.tensor([10.0, -10.0], dtype=DOUBLE).expand(100_000, 2)
    points = mcmc.RandomWalk(scale).draw(given, generator)
    for i in range(2):
        assert stats.kstest((points - given)[:, i].numpy(), stats.norm(0.0, float(scale[i])).cdf).pvalue > 0.01


def test_a_random_walk_on_points_of_any_shape(generator):
    kernel = mcmc.metropolis_hastings(lambda x: -0.5 * x.square().sum(dim=(1, 2)), mcmc.RandomWalk(0.5))
    move = kernel.step(kernel.start(torch.zeros(4, 2, 3)), generator)
    assert move.state.position.shape == (4, 2, 3) and move.accepted.shape == (4,)


@pytest.mark.parametrize("build", [mcmc.DiagonalGaussian, mcmc.FullGaussian, mcmc.RealNVP])
def test_independent_passes_draws_and_densities_on(build, generator):
    law = build(3)
    proposal = mcmc.Independent(law)
    given = torch.zeros(50, 3)
    points, log_q = proposal.draw_with_log_prob(50, generator)
    assert points.shape == (50, 3)
    assert torch.allclose(log_q, law.log_prob(points), atol=1e-4)
    assert torch.equal(proposal.log_density(points, given), proposal.log_prob(points))
    assert proposal.draw(given, generator).shape == (50, 3)


def test_a_law_without_both_at_once(generator):
    class Uniform:
        def rsample(self, count, generator=None):
            return torch.rand(count, 1, generator=generator)

        def log_prob(self, point):
            return torch.where((point >= 0) & (point <= 1), 0.0, -torch.inf).sum(-1)

    points, log_q = mcmc.Independent(Uniform()).draw_with_log_prob(7, generator)
    assert points.shape == (7, 1) and torch.equal(log_q, torch.zeros(7))


def test_base_classes_say_what_is_missing():
    point = torch.zeros(1, 1)
    for missing in (lambda: Proposal().draw(point), lambda: Proposal().log_density(point, point),
                    lambda: mcmc.sample(mcmc.Kernel(lambda x: x[:, 0]), point, 2)):  # fmt: skip
        with pytest.raises(NotImplementedError):
            missing()

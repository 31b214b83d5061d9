"""Chains over a pool of proposals: their law, restarts, and bad input."""

import torch
from scipy import stats
from torch import nn

from bnnlib.sampling import IndependentDiscriminator
from chapters.implicit_acceptance.pool import pooled_metropolis_hastings
from tests.seeded import seeded as generator

WIDE = 1.5  # standard deviation of the proposals


class Exact(nn.Module):
    """log p(x) - log q(x) of p = N(0, 1) and q = N(0, WIDE^2), up to a constant; within 5 of 0 almost surely."""

    def forward(self, points):
        return -0.5 * points.square() * (1.0 - 1.0 / WIDE**2)


def test_over_a_large_pool_the_chain_has_the_target():
    pool = WIDE * torch.randn(1_000_000, generator=generator(1))
    discriminator = IndependentDiscriminator(Exact(), 1e-6)
    # the worst start: 60 proposals, of which a third is accepted, leave less than 1e-6 of it
    chains = pooled_metropolis_hastings(discriminator, pool, torch.full((20_000,), 0.0), 60, generator=generator(2))
    assert stats.kstest(chains.samples.numpy(), "norm").pvalue > 0.01
    assert torch.equal(chains.samples, pool[chains.states])


def test_over_a_small_pool_it_has_the_weights_of_its_points():
    pool = torch.tensor([-2.0, -0.5, 0.4, 1.0, 3.0])
    discriminator = IndependentDiscriminator(nn.Identity(), 0.01)
    weights = discriminator.score(pool).softmax(dim=0).double()
    chains = pooled_metropolis_hastings(discriminator, pool, torch.zeros(50_000), 250, generator=generator(3))
    counts = torch.bincount(chains.states, minlength=5).double()
    # one draw a chain, independent of the others: chi-squared with 4 degrees of freedom
    assert stats.chisquare(counts.numpy(), (50_000 * weights / weights.sum()).numpy()).pvalue > 0.01


def test_a_chain_that_refuses_everything_stays_or_starts_again_in_the_pool():
    pool = torch.tensor([-3.0, -2.0, -2.5])
    start = torch.cat([torch.full((400,), 9.0), torch.full((100,), -2.4)])
    discriminator = IndependentDiscriminator(nn.Identity(), 1e-7)
    still = pooled_metropolis_hastings(discriminator, pool, start, 30, generator=generator(4))
    again = pooled_metropolis_hastings(discriminator, pool, start, 30, restart=True, generator=generator(4))
    assert still.states is None and (still.samples[:400] == 9.0).float().mean() > 0.9 and not still.restarted.any()
    assert torch.equal(again.restarted, still.never_moved) and torch.equal(again.samples, pool[again.states])
    assert again.acceptance_rate == still.acceptance_rate and again.moves[again.restarted].float().mean() > 1.0
    moved = ~still.never_moved
    assert torch.equal(still.samples[moved], again.samples[moved])

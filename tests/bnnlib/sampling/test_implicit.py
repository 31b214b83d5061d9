"""Chains whose test is a discriminator's: their law, restarts, bad input; and discriminators and their losses."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

from bnnlib.sampling import (
    IndependentDiscriminator,
    LatentProposal,
    MarkovDiscriminator,
    PointProposal,
    discriminator_loss,
    implicit_metropolis_hastings,
)
from bnnlib.sampling.implicit import accept_scored
from bnnlib.train import DivergedError
from tests.seeded import seeded as generator

CHAINS = 100_000
WIDE = 1.5  # standard deviation of the independent proposal


class Exact(nn.Module):
    """log p(x) - log q(x) of p = N(0, 1) and q = N(0, WIDE^2), up to a constant: within 5 of 0 almost surely."""

    def forward(self, points):
        return (-0.5 * points.square() * (1.0 - 1.0 / WIDE**2)).reshape(len(points))


class LogDensity(nn.Module):
    """log p(x) of N(0, 1): with a symmetric proposal the exact ratio."""

    def forward(self, points):
        return (-0.5 * points.square()).reshape(len(points))


def draw(count, generator=None):
    return WIDE * torch.randn(count, generator=generator)


def walk(points, generator=None):
    return points + torch.randn(points.shape, generator=generator)


class Unbounded(IndependentDiscriminator):
    def of_raw(self, raw):
        return raw


class UnboundedMarkov(MarkovDiscriminator):
    def log_ratio_of_scores(self, first, second):
        return first - second


KINDS = {
    "independent": (Unbounded(Exact()), PointProposal(draw=draw)),
    "Markov": (UnboundedMarkov(LogDensity()), PointProposal(walk)),
    "Markov, bounded where it does not bind": (MarkovDiscriminator(LogDensity(), 1e-6), PointProposal(walk)),
    "latent": (Unbounded(Exact()), LatentProposal(lambda z: WIDE * z[:, 0], 1)),
    "function": (lambda x, y: torch.sigmoid(Exact()(x) - Exact()(y)), PointProposal(draw=draw)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_with_an_exact_discriminator_the_target_stays_what_it_is(kind):
    """Starts from the target: after 20 steps the law is still N(0, 1), while almost every chain has moved."""
    discriminator, proposal = KINDS[kind]
    start = torch.randn(CHAINS, generator=generator(1))
    chains = implicit_metropolis_hastings(discriminator, proposal, start, 20, generator=generator(2))
    assert stats.kstest(chains.samples.numpy(), "norm").pvalue > 0.01
    assert 0.4 < chains.acceptance_rate < 0.95 and float(chains.never_moved.float().mean()) < 0.01
    assert not chains.restarted.any()


def test_a_wrong_discriminator_is_noticed_by_the_same_test():
    start = torch.randn(CHAINS, generator=generator(1))
    flat = IndependentDiscriminator(nn.Flatten(0), 0.01)
    chains = implicit_metropolis_hastings(flat, PointProposal(draw=draw), start, 20, generator=generator(2))
    assert stats.kstest(chains.samples.numpy(), "norm").pvalue < 1e-6


def test_acceptance_of_independent_proposals_is_the_direct_formula():
    """min{1, d(x) (1 - d(y)) / (d(y) (1 - d(x)))} of a chain, step by step, with the same uniform numbers."""
    discriminator = IndependentDiscriminator(nn.Flatten(0), 0.05)
    start, made = torch.randn(7, generator=generator(5)), 2.0 * torch.randn(30, 7, generator=generator(6))
    scores = discriminator.score(start), discriminator.score(made.flatten()).view(30, 7)
    out = accept_scored(*scores, generator(7), discriminator.log_ratio_of_scores)
    uniform = torch.rand(30, 7, generator=generator(7))
    now = start.clone()
    for step in range(30):
        d, old = discriminator(made[step]), discriminator(now)
        taken = uniform[step] < (d * (1 - old) / (old * (1 - d))).clamp_max(1.0)
        assert torch.equal(taken, out.accepted[step])
        now = torch.where(taken, made[step], now)
    held = torch.where(out.last < 0, start, made[out.last.clamp_min(0), torch.arange(7)])
    assert torch.equal(held, now)


def test_trace_moves_and_samples_are_of_one_chain():
    for proposal in (PointProposal(draw=draw), PointProposal(walk)):
        discriminator = MarkovDiscriminator(LogDensity(), 0.01)
        start = torch.randn(50, generator=generator(8))
        run = implicit_metropolis_hastings(
            discriminator, proposal, start, 23, trace=True, block=200, generator=generator(9)
        )
        steps = torch.cat([start[None], run.trace])
        assert run.trace.shape == (23, 50) and torch.equal(run.trace[-1], run.samples)
        assert torch.equal((steps[1:] != steps[:-1]).sum(dim=0), run.moves)
        assert run.acceptance_rate == pytest.approx(float(run.moves.double().mean()) / 23)
        spread = (run.moves.double() / 23).std() / math.sqrt(50)
        assert run.acceptance_error == pytest.approx(float(spread))


def test_latents_stay_with_their_images():
    decoder = nn.Linear(3, 2).double()
    discriminator = MarkovDiscriminator(nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)).double(), 0.01)
    for angle in (0.4, math.pi / 2):
        proposal = LatentProposal(decoder, 3, angle)
        latents = proposal.draw(40, generator(1))
        run = implicit_metropolis_hastings(
            discriminator, proposal, proposal.decode(latents), 30, start_latents=latents, generator=generator(2)
        )
        moved = ~run.never_moved
        assert moved.sum() > 30
        assert torch.allclose(proposal.decode(run.states)[moved], run.samples[moved], atol=1e-6)


def test_a_decoder_may_have_parameters_of_another_kind():
    class Decoder:
        parameters = (0.5,)  # numbers, which are no module's

        def __call__(self, latents):
            return self.parameters[0] * latents

    proposal = LatentProposal(Decoder(), 3)
    assert proposal.decode(proposal.draw(2)).shape == (2, 3) and proposal.dtype is torch.float32


class Snob(nn.Module):
    """Data, at 5, look perfect; what is proposed, near 0, does not."""

    def forward(self, points):
        return torch.where(points > 4.0, 40.0, points.clamp(-1, 1))


def toward_zero(points, generator=None):
    return 0.1 * points + torch.randn(points.shape, generator=generator)


@pytest.mark.parametrize("proposal", [PointProposal(draw=draw), PointProposal(toward_zero, draw=draw)])
def test_chains_that_never_moved_start_again_from_a_proposal(proposal):
    discriminator, start = IndependentDiscriminator(Snob(), 1e-6), torch.full((500,), 9.0)
    still = implicit_metropolis_hastings(discriminator, proposal, start, 3, generator=generator(1))
    again = implicit_metropolis_hastings(discriminator, proposal, start, 3, restart=True, generator=generator(1))
    assert still.never_moved.float().mean() > 0.9 and not still.restarted.any()
    assert (still.samples == 9.0).float().mean() > 0.9
    assert torch.equal(again.never_moved, again.restarted) and again.acceptance_rate < 0.1
    assert not (again.samples == 9.0).any() and again.moves[again.restarted].float().mean() > 0.5


def test_a_proposal_that_can_only_move_cannot_restart():
    discriminator, start = IndependentDiscriminator(Snob(), 1e-6), torch.full((5,), 50.0)
    with pytest.raises(ValueError, match=r"only move points.*draw="):
        implicit_metropolis_hastings(
            discriminator, PointProposal(lambda y, generator=None: y * 0), start, 3, restart=True, generator=generator()
        )


def test_nan_scores_diverge():
    def nan(points):
        return points * math.nan

    for discriminator in (IndependentDiscriminator(nn.Flatten(0), 0.1), lambda x, y: x * math.nan):
        proposal = PointProposal(nan, draw=lambda count, generator=None: torch.full((count,), math.nan))
        for one in (proposal, PointProposal(draw=proposal._draw)):
            with pytest.raises(DivergedError, match="NaN within the first"):
                one._propose = one._propose and (lambda points, generator=None: nan(points))
                implicit_metropolis_hastings(discriminator, one, torch.zeros(5), 3)
    with pytest.raises(DivergedError, match="NaN"):  # of the start alone
        implicit_metropolis_hastings(
            IndependentDiscriminator(nn.Flatten(0), 0.1), PointProposal(draw=draw), torch.tensor([0.0, math.nan]), 3
        )


@pytest.mark.parametrize("lower", [0.3, 0.05, 1e-4])
def test_values_are_in_the_range_and_pairs_add_up(lower):
    points = torch.linspace(-300, 300, 41)
    for kind in (IndependentDiscriminator, MarkovDiscriminator):
        discriminator = kind(nn.Flatten(0), lower)
        x, y = points.repeat_interleave(41), points.repeat(41)
        d, back = discriminator.pair(x, y), discriminator.pair(y, x)
        least = discriminator.pair_lower
        assert d.min() >= least * (1 - 1e-4) and d.max() <= 1.0
        assert torch.allclose(d.log() - back.log(), discriminator.log_ratio(x, y), atol=1e-3)
        assert least == (lower**2 if kind is IndependentDiscriminator else lower)
    assert torch.allclose(discriminator(x, y) + discriminator(y, x), torch.ones(len(x)), atol=1e-6)
    single = IndependentDiscriminator(nn.Flatten(0), lower)(points)
    assert single.min() >= lower * (1 - 1e-4) and single.max() <= 1 - lower * (1 - 1e-4)


def test_losses_are_those_of_the_formulas():
    x, y = torch.randn(9, generator=generator(1)), torch.randn(9, generator=generator(2))
    single, pair = IndependentDiscriminator(nn.Flatten(0), 0.01), MarkovDiscriminator(nn.Flatten(0), 0.01)
    cce = -(single(x).log().mean() + (1 - single(y)).log().mean())
    mce = -(pair(x, y).log() + (1 - pair(y, x)).log()).mean()
    assert discriminator_loss(single, x, y, "cce").item() == pytest.approx(cce.item(), rel=1e-5)
    assert discriminator_loss(pair, x, y, "mce").item() == pytest.approx(mce.item(), rel=1e-5)
    for one in (single, pair):
        ratio = one.pair(y, x) / one.pair(x, y)
        assert discriminator_loss(one, x, y, "ub").item() == pytest.approx(
            (ratio.log() + ratio).mean().item(), rel=1e-4
        )

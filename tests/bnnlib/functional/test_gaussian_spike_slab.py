"""The Gaussian spike and slab where numbers are extreme: p*, R* and their gradients, and the priors it refuses."""

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from bnnlib import functional as bF
from chapters.closed_form import formulas

DOUBLE = torch.float64


def component_divergences(mean, scale, slab, spike):
    """KL of N(mean, scale^2) to the slab and to the spike, by torch.distributions."""
    zero = torch.zeros_like(mean)
    posterior = Normal(mean, scale)
    return tuple(kl_divergence(posterior, Normal(zero, t.expand_as(mean))) for t in (slab, spike))


def test_inclusion_is_the_numeric_optimum_on_ten_thousand_problems(random_problems):
    """(3.8) against the root of dR/dp by bisection in u = logit p; no closed form of ours is used for it."""
    (mean, scale), (slab, spike, pi) = random_problems()
    to_slab, to_spike = component_divergences(mean, scale, slab, spike)
    low, high = torch.full_like(mean, -700.0), torch.full_like(mean, 700.0)
    for _ in range(70):  # 1,400 / 2^70: to the last bit
        u = 0.5 * (low + high)
        slope = to_slab - to_spike + torch.sigmoid(u).log() - torch.sigmoid(-u).log() - pi.log() + (1 - pi).log()
        low, high = torch.where(slope < 0, u, low), torch.where(slope < 0, high, u)
    prior = bF.mixture_prior(slab, spike, pi)
    found = bF.closed_form_inclusion(mean, scale, prior)
    odds = bF.inclusion_log_odds(mean.square() + scale.square(), prior)
    assert (found - torch.sigmoid(u)).abs().max() < 1e-10
    assert (torch.sigmoid(-odds) - torch.sigmoid(-u)).abs().max() < 1e-10
    # on the logit scale, where p or 1 - p is as small as e^-690: the divergences themselves are up to 4,000 there
    inner = u.abs() < 690
    assert inner.sum() > 6_000 and (odds[inner].abs() > 100).sum() > 1_000
    assert (odds[inner] - u[inner]).abs().max() < 1e-10
    outer = ~inner
    assert outer.any() and (odds[outer] * u[outer] > 0).all() and (odds[outer].abs() > 680).all()


def test_numbers_and_tensors_make_the_same_prior():
    numbers = bF.mixture_prior(2.0, 0.1, 0.3)
    for dtype in (torch.float32, DOUBLE):
        tensors = bF.mixture_prior(*(torch.tensor([v], dtype=dtype) for v in (2.0, 0.1, 0.3)))
        assert all(t.dtype == DOUBLE for t in tensors)
        assert [t.item() for t in tensors] == pytest.approx(
            list(numbers), rel=1e-6 if dtype == torch.float32 else 1e-14
        )
    # from both ends of the probabilities that float64 knows
    assert bF.mixture_prior(1.0, 0.1, 1e-300).slab_cost == pytest.approx(300 * math.log(10))
    assert bF.mixture_prior(1.0, 0.1, 1 - 1e-16).spike_cost == pytest.approx(math.log(0.1) + math.log(2**53))


def test_there_is_no_threshold_where_every_weight_is_included():
    prior = bF.mixture_prior(1.0, 0.5, 0.9)
    assert formulas.inclusion_threshold(prior) == 0.0
    assert float(bF.closed_form_inclusion(torch.zeros(()), 0.0, prior)) > 0.5

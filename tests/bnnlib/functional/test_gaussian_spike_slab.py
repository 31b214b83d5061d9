"""The Gaussian spike and slab: p* against numeric optima, R* against KL divergences, gradients against autograd."""

import math

import mpmath
import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli, Normal, kl_divergence

from bnnlib import functional as bF

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


def test_inclusion_is_the_minimum_of_the_penalty_in_fifty_digits(random_problems):
    """The penalty (3.7) as printed, differentiated numerically with 50 digits: nothing is derived by hand."""
    (mean, scale), (slab, spike, pi) = random_problems(300, seed=1)
    odds = bF.inclusion_log_odds(mean.square() + scale.square(), bF.mixture_prior(slab, spike, pi))
    checked = 0
    with mpmath.workdps(50):
        for values in zip(*(t.tolist() for t in (mean, scale, slab, spike, pi, odds)), strict=True):
            m, s, t1, t0, prior, ours = (mpmath.mpf(v) for v in values)
            if abs(ours) > 60:
                continue

            def penalty(u, m=m, s=s, t1=t1, t0=t0, prior=prior):
                p, q = 1 / (1 + mpmath.exp(-u)), 1 / (1 + mpmath.exp(u))
                in_slab = (m**2 + s**2) / (2 * t1**2) + mpmath.log(t1 * p / (s * prior))
                return p * in_slab + q * ((m**2 + s**2) / (2 * t0**2) + mpmath.log(t0 * q / (s * (1 - prior))))

            root = mpmath.findroot(lambda u, f=penalty: mpmath.diff(f, u), (ours - 1, ours + 1), solver="anderson")
            assert abs(root - ours) < 1e-10
            checked += 1
    assert checked > 100


def test_the_profile_is_the_penalty_at_the_optimum_and_nowhere_above_it(random_problems):
    (mean, scale), settings = random_problems()
    prior = bF.mixture_prior(*settings)
    profile = bF.spike_slab_profile_penalty(mean, scale, prior)
    p = bF.closed_form_inclusion(mean, scale, prior)
    at_optimum = bF.spike_slab_penalty(mean, scale, p, prior)
    torch.testing.assert_close(at_optimum, profile, rtol=1e-13, atol=1e-13)
    g = torch.Generator().manual_seed(1)
    for _ in range(20):
        other = torch.rand(len(p), generator=g, dtype=DOUBLE)
        # R - R* is the KL between the two Bernoulli distributions: quadratic near p*, never negative
        for q in (other, (p + 1e-3 * (other - 0.5)).clamp(0, 1)):
            gap = bF.spike_slab_penalty(mean, scale, q, prior) - profile
            assert (gap > -1e-13 * (1 + profile.abs())).all()
    for end in (0.0, 1.0):
        assert bF.spike_slab_penalty(mean, scale, torch.full_like(p, end), prior).isfinite().all()


def test_penalty_minus_one_half_is_the_divergence_of_weight_and_indicator(random_problems):
    """Against E_q[log q(W) q(Z) - log pi(W | Z) pi(Z)]: Z summed, W by Gauss-Hermite, exact for these polynomials."""
    (mean, scale), (slab, spike, pi) = random_problems(2_000, seed=2)
    p = torch.rand(len(mean), generator=torch.Generator().manual_seed(3), dtype=DOUBLE)
    nodes, weights = (torch.from_numpy(v)[:, None] for v in np.polynomial.hermite_e.hermegauss(9))
    draws = mean + scale * nodes
    # the posterior's density at its own nodes: (draws - mean) / scale would lose digits where mean / scale is 1e8
    log_posterior = Normal(0.0, 1.0).log_prob(nodes) - scale.log()
    total = kl_divergence(Bernoulli(probs=p), Bernoulli(probs=pi))
    for share, component in ((p, slab), (1 - p, spike)):
        ratio = log_posterior - Normal(torch.zeros_like(mean), component).log_prob(draws)
        total = total + share * (weights * ratio).sum(dim=0) / math.sqrt(2 * math.pi)
    found = bF.spike_slab_penalty(mean, scale, p, bF.mixture_prior(slab, spike, pi)) - 0.5
    torch.testing.assert_close(found, total, rtol=1e-12, atol=1e-12)
    assert (bF.spike_slab_profile_penalty(mean, scale, bF.mixture_prior(slab, spike, pi)) - 0.5 > -1e-12).all()


def test_profile_gradient_is_autograd_s(random_problems):
    """(3.14)-(3.15); d/d sigma is a difference, so its error is measured against the terms: 1e-12 relative."""
    (mean, scale), settings = random_problems()
    prior = bF.mixture_prior(*settings)
    mean.requires_grad_()
    scale.requires_grad_()
    expected = torch.autograd.grad(bF.spike_slab_profile_penalty(mean, scale, prior).sum(), (mean, scale))
    with torch.no_grad():
        found = bF.spike_slab_profile_grad(mean, scale, prior)
        precision = bF.expected_precision(mean.square() + scale.square(), prior)
        torch.testing.assert_close(found[0], expected[0], rtol=1e-12, atol=0)
        assert ((found[1] - expected[1]).abs() / (scale * precision + 1 / scale)).max() < 1e-12
        # as the paper prints (3.15), in sigma^2, where 1 - p is exact: p below 1/2
        p, (slab, spike, _) = bF.closed_form_inclusion(mean, scale, prior), settings
        printed = 0.5 * (p / slab**2 + (1 - p) / spike**2 - 1 / scale**2) * 2 * scale
        small = p < 0.5
        terms = (scale * precision + 1 / scale)[small]
        assert ((printed - found[1])[small].abs() / terms).max() < 1e-12


def test_profile_gradient_is_a_finite_difference(random_problems):
    """Central differences of the profile, h relative: error h^2 of the curvature and 1e-16 / h of the value."""
    (mean, scale), settings = random_problems(3_000, seed=4)
    prior, h = bF.mixture_prior(*settings), 1e-5
    plain = [(mean * (1 + d), scale) for d in (h, -h)], [(mean, scale * (1 + d)) for d in (h, -h)]
    found = bF.spike_slab_profile_grad(mean, scale, prior)
    value = bF.spike_slab_profile_penalty(mean, scale, prior).abs()
    # the log-odds must be nearly linear over the step for a difference to mean anything: |r^2 / tau_0^2| h < 1e-2
    smooth = (mean.square() + scale.square()) / settings[1].square() * h < 1e-2
    assert smooth.sum() > 1_500
    for at, slope, (above, below) in zip((mean, scale), found, plain, strict=True):
        difference = (bF.spike_slab_profile_penalty(*above, prior) - bF.spike_slab_profile_penalty(*below, prior)) / (
            2 * h
        )
        size = value + (at * slope).abs() + (mean.square() + scale.square()) / settings[1].square()
        assert ((difference - at * slope).abs() / (1 + size))[smooth].max() < 1e-6


def test_the_gradient_with_p_held_at_its_optimum_is_the_profile_s(random_problems):
    """Envelope theorem: alternating between p and the weights descends R*."""
    (mean, scale), settings = random_problems()
    prior = bF.mixture_prior(*settings)
    p = bF.closed_form_inclusion(mean, scale, prior)
    mean.requires_grad_()
    scale.requires_grad_()
    held = torch.autograd.grad(bF.spike_slab_penalty(mean, scale, p, prior).sum(), (mean, scale))
    with torch.no_grad():
        # 1 - p is only known to 1e-16, and it is multiplied by the spike's precision
        doubt = 4e-16 * settings[1] ** -2
        found = bF.spike_slab_profile_grad(mean, scale, prior)
        precision = bF.expected_precision(mean.square() + scale.square(), prior)
        assert ((held[0] - found[0]).abs() <= 1e-12 * found[0].abs() + doubt * mean.abs()).all()
        terms = scale * precision + 1 / scale
        assert ((held[1] - found[1]).abs() <= 1e-12 * terms + doubt * scale).all()


def test_remark_1_inclusion_rises_with_the_second_moment_alone():
    moment = torch.linspace(0.0, 0.3, 500, dtype=DOUBLE).square()
    prior = bF.mixture_prior(1.0, 0.05, 0.3)
    odds = bF.inclusion_log_odds(moment, prior)
    assert (odds.diff() > 0).all()
    share = torch.rand(500, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    p = bF.closed_form_inclusion((share * moment).sqrt(), ((1 - share) * moment).sqrt(), prior)
    torch.testing.assert_close(p, torch.sigmoid(odds), rtol=1e-12, atol=0)
    far = bF.closed_form_inclusion(torch.tensor(1e6, dtype=DOUBLE), 0.1, prior)
    assert far == 1.0


def test_the_threshold_is_where_the_paper_s_settings_put_it():
    for log_slab, log_spike, published in ((1, -6, 0.0093), (0, -5, 0.0213), (-1, -3, 0.100), (0, -6, 0.0086)):
        slab, spike = math.exp(log_slab), math.exp(log_spike)
        threshold = math.sqrt(2 * math.log(slab / spike) / (spike**-2 - slab**-2))
        assert threshold == pytest.approx(published, rel=0.01)
        prior = bF.mixture_prior(slab, spike, 0.5)
        odds = bF.inclusion_log_odds(torch.tensor([0.99, 1.0, 1.01], dtype=DOUBLE) ** 2 * threshold**2, prior)
        assert odds[0] < 0 < odds[2] and abs(odds[1]) < 1e-12


def test_remarks_2_and_3_limits_of_the_prior():
    mean, scale = torch.tensor([0.0, 0.01, 0.3, 5.0], dtype=DOUBLE), 0.1
    for pi in (0.01, 0.5, 0.9):
        for distance in (1e-3, 1e-6, 1e-9):
            p = bF.closed_form_inclusion(mean, scale, bF.mixture_prior(1.0, 1.0 - distance, pi))
            # logit p - logit pi is distance (r^2 - 1), and r^2 up to 25
            assert (p - pi).abs().max() < 30 * distance
        # Lindley's paradox: a vague slab never includes a given weight, unless its spike is narrower still
        odds = [bF.inclusion_log_odds(mean.square() + scale**2, bF.mixture_prior(t, 0.1, pi)) for t in (1e3, 1e9, 1e30)]
        assert (odds[0] > odds[1]).all() and (odds[1] > odds[2]).all() and (torch.sigmoid(odds[2][:3]) < 1e-10).all()
        p = [bF.closed_form_inclusion(mean, scale, bF.mixture_prior(1.0, t, pi)) for t in (0.05, 0.01, 1e-6)]
        assert (p[0][0] < p[1][0]) and (p[2] == 1.0).all()


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


@pytest.mark.parametrize("as_tensor", [False, True])
def test_bad_priors_are_explained(as_tensor):
    def wrapped(*values):
        return [torch.tensor([1.0, v], dtype=DOUBLE) if as_tensor and k < 2 else v for k, v in enumerate(values)]

    for slab, spike in ((0.1, 0.1), (0.1, 0.5)):
        with pytest.raises(ValueError, match=r"the spike must be narrower than the slab.*Exchange the two"):
            bF.mixture_prior(slab, spike, 0.5)
        with pytest.raises(ValueError, match=r"spike_scale is .* and slab_scale .*the spike must be narrower"):
            bF.mixture_prior(torch.tensor([1.0, slab]), torch.tensor([0.5, spike]), 0.5)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"slab_scale is .*finite and above 0"):
            bF.mixture_prior(*wrapped(bad, 0.1, 0.5))
        with pytest.raises(ValueError, match=r"spike_scale is .*finite and above 0"):
            bF.mixture_prior(*wrapped(1.0, bad, 0.5))
    for bad in (0.0, 1.0, -0.1, 1.1, math.nan):
        given = torch.tensor([0.5, bad]) if as_tensor else bad
        with pytest.raises(ValueError, match=r"prior_inclusion_probability is .*strictly between 0 and 1"):
            bF.mixture_prior(1.0, 0.1, given)
    for narrow in (1e-20, 1e-160):
        with pytest.raises(ValueError, match=r"spike_scale is .*leaves the range of float32.*SpikeSlabLinear"):
            bF.mixture_prior(1.0, torch.tensor(narrow, dtype=DOUBLE) if as_tensor else narrow, 0.5)


@pytest.mark.parametrize(("log_slab", "log_spike", "probability"), [(1, -6, 0.5), (0, -5, 0.25), (-1, -3, 0.75)])
def test_the_threshold_is_where_the_inclusion_probability_is_one_half(log_slab, log_spike, probability):
    prior = bF.mixture_prior(math.exp(log_slab), math.exp(log_spike), probability)
    r = torch.tensor(bF.inclusion_threshold(prior), dtype=torch.float64)
    # float64: the log-odds cancel to a few units in the last place of their two terms, below 15 nats each
    assert float(bF.closed_form_inclusion(r, 0.0, prior)) == pytest.approx(0.5, abs=1e-13)
    stacked = bF.mixture_prior(
        *(torch.tensor([float(v)]) for v in (math.exp(log_slab), math.exp(log_spike), probability))
    )
    assert float(bF.inclusion_threshold(stacked)) == pytest.approx(float(r), rel=1e-6)  # the settings in float32


def test_there_is_no_threshold_where_every_weight_is_included():
    prior = bF.mixture_prior(1.0, 0.5, 0.9)
    assert bF.inclusion_threshold(prior) == 0.0
    assert float(bF.closed_form_inclusion(torch.zeros(()), 0.0, prior)) > 0.5

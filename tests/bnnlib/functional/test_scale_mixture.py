"""The scale mixture and the Gaussian spike and slab: torch.distributions, float32, extremes."""

import math

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, Normal, kl_divergence

from bnnlib import functional as bF
from bnnlib.functional import gaussian_spike_slab
from chapters.closed_form import formulas

DOUBLE = torch.float64


def log_uniform(low, high, count, generator):
    return torch.exp(low + (high - low) * torch.rand(count, generator=generator, dtype=DOUBLE))


def random_problems(count=10_000, seed=0):
    """(mean, scale), (tau_1, tau_0, pi): a third anywhere, a third near the threshold, a third near probability 0 or 1.

    e^-3 <= tau_1 <= e^3, e^-8 <= tau_0 <= e^-1, 1e-9 < pi < 1 - 1e-9, |mean| and scale from e^-15 to e^3.
    """
    g = torch.Generator().manual_seed(seed)
    slab = log_uniform(-3, 3, count, g)
    spike = torch.minimum(log_uniform(-8, -1, count, g), slab * log_uniform(-1, -0.2, count, g))
    pi = torch.sigmoid(-20 + 40 * torch.rand(count, generator=g, dtype=DOUBLE))
    mean, scale = log_uniform(-15, 3, count, g), log_uniform(-15, 3, count, g)
    # the second moment at which logit p* has a given value, (3.17) solved for it
    wanted = torch.where(torch.arange(count) % 3 == 1, 4.0, 600.0) * torch.randn(count, generator=g, dtype=DOUBLE)
    moment = 2 * (wanted - torch.logit(pi) + torch.log(slab / spike)) / (spike**-2 - slab**-2)
    share = torch.rand(count, generator=g, dtype=DOUBLE)
    aimed = (torch.arange(count) % 3 > 0) & (moment > 0)
    mean = torch.where(aimed, (share * moment.clamp_min(0)).sqrt(), mean)
    scale = torch.where(aimed, ((1 - share) * moment.clamp_min(0)).sqrt(), scale)
    sign = torch.where(torch.rand(count, generator=g) < 0.5, -1.0, 1.0)
    return (mean * sign, scale), (slab, spike, pi)


def test_scale_mixture_density_is_torch_s_mixture():
    (weight, _), (slab, spike, pi) = random_problems(3_000, seed=5)
    mixture = MixtureSameFamily(
        Categorical(probs=torch.stack([pi, 1 - pi], dim=-1)),
        Normal(torch.zeros(len(pi), 2, dtype=DOUBLE), torch.stack([slab, spike], dim=-1)),
    )
    prior = bF.mixture_prior(slab, spike, pi)
    # Categorical clamps probabilities to eps, 2e-16: nothing for pi above 1e-9
    torch.testing.assert_close(bF.scale_mixture_log_density(weight, prior), mixture.log_prob(weight), rtol=1e-9,
                               atol=1e-9)  # fmt: skip
    weight = weight.clone().requires_grad_()
    (score,) = torch.autograd.grad(-bF.scale_mixture_log_density(weight, prior).sum(), weight)
    weight = weight.detach()
    torch.testing.assert_close(weight * bF.expected_precision(weight.square(), prior), score, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize(
    "density", [bF.scale_mixture_log_density, lambda w, p: -bF.spike_slab_profile_penalty(w, 0 * w + 0.1, p)]
)
def test_curvature_is_finite_where_the_spike_underflows(density, dtype, monkeypatch):
    """By central differences of the score; values and scores are those of torch.logaddexp to the bit."""
    prior = bF.mixture_prior(1.0, 0.03, 0.01)
    weight = torch.linspace(-4.0, 4.0, 81, dtype=dtype, requires_grad=True)

    def derivatives(weight):
        (score,) = torch.autograd.grad((value := density(weight, prior)).sum(), weight, create_graph=True)
        return value, score

    (curvature,) = torch.autograd.grad(derivatives(weight)[1].sum(), weight)
    high, low = (derivatives(weight.detach().double().add(h).requires_grad_())[1] for h in (1e-5, -1e-5))
    # float32 rounds log-odds of some 100 nats by 1e-5, and curvature is in proportion
    torch.testing.assert_close(curvature.double(), (high - low) / 2e-5, rtol=1e-3, atol=1e-3)
    found = derivatives(weight)
    monkeypatch.setattr(gaussian_spike_slab, "_log_add_exp", torch.logaddexp)
    assert all(map(torch.equal, found, derivatives(weight)))


@pytest.mark.parametrize("slab", [1.0, torch.tensor([[1.0], [2.0]])])  # the second broadcasts in one of the components
def test_the_density_has_all_derivatives(slab):
    def density(weight):
        return bF.scale_mixture_log_density(weight, bF.mixture_prior(slab, 0.3, 0.5))

    weight = torch.linspace(-2.0, 2.0, 5, dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(density, weight, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(density, weight)


def test_bayes_by_backprop_s_gradient_is_autograd_s():
    """Autograd of log q(w) - log pi(w) through w = m + sigma eps."""
    (mean, scale), settings = random_problems()
    prior = bF.mixture_prior(*settings)
    noise = torch.randn(len(mean), generator=torch.Generator().manual_seed(6), dtype=DOUBLE)
    m, s = mean.clone().requires_grad_(), scale.clone().requires_grad_()
    w = m + s * noise
    f = Normal(m, s).log_prob(w) - bF.scale_mixture_log_density(w, prior)
    sample = bF.scale_mixture_kl_sample(mean, scale, noise, prior)
    torch.testing.assert_close(sample, f.detach(), rtol=1e-10, atol=1e-10)
    found = bF.scale_mixture_grad_sample(mean, scale, noise, prior)
    ours = torch.autograd.grad(bF.scale_mixture_kl_sample(m, s, noise, prior).sum(), (m, s))
    weight = mean + scale * noise
    strength = bF.expected_precision(weight.square(), prior)
    terms = (weight * strength).abs(), (weight * noise * strength).abs() + 1 / scale
    # mean + scale * noise may cancel: the log-odds of the sum are off by the rounding of weight^2 / tau_0^2
    rounding = 1e-12 + 1e-15 * (mean.abs() + (scale * noise).abs()) * weight.abs() / settings[1] ** 2
    for a, b, size in zip(found, ours, terms, strict=True):
        assert ((a - b).abs() / size <= rounding).all()


def test_float32_is_accurate_over_the_papers_range():
    """log tau_1 in [-3, 3], log tau_0 in [-8, -1]: no NaN, no infinity, errors of a few roundings of the log-odds."""
    (mean, scale), settings = random_problems(20_000, seed=7)
    small = [t.float() for t in (mean, scale)]
    mean, scale = (t.double() for t in small)
    prior = bF.mixture_prior(*settings)
    narrow = bF.MixturePrior(*(t.float() for t in prior))
    noise = torch.randn(len(mean), generator=torch.Generator().manual_seed(8))
    odds = bF.inclusion_log_odds(mean.square() + scale.square(), prior)
    # 2^-24 for each of about four roundings of numbers as large as the costs (30 nats) and the odds themselves
    doubt = 4 * 2.0**-24 * (odds.abs() + 30)
    p, p_small = bF.closed_form_inclusion(mean, scale, prior), bF.closed_form_inclusion(*small, narrow)
    assert p_small.dtype == torch.float32 and ((p - p_small).abs() <= doubt.clamp_max(1) * p * (1 - p) + 2e-7).all()
    assert (p - p_small).abs().max() < 5e-6
    values = bF.spike_slab_profile_penalty(mean, scale, prior), bF.spike_slab_profile_penalty(*small, narrow)
    torch.testing.assert_close(values[1].double(), values[0], rtol=2e-6, atol=1e-5)
    exact, found = bF.spike_slab_profile_grad(mean, scale, prior), bF.spike_slab_profile_grad(*small, narrow)
    precision = bF.expected_precision(mean.square() + scale.square(), prior)
    for a, b, size in zip(exact, found, (mean.abs() * precision, scale * precision + 1 / scale), strict=True):
        # the spike's share e^-odds carries the odds' error as a relative one
        assert b.isfinite().all() and ((a - b).abs() <= (2 * doubt + 1e-6) * size + 1e-30).all()
    drawn = (*bF.scale_mixture_grad_sample(*small, noise, narrow), bF.scale_mixture_kl_sample(*small, noise, narrow))
    assert all(t.isfinite().all() for t in drawn)
    tracked = [t.clone().requires_grad_() for t in small]
    value = bF.spike_slab_profile_penalty(*tracked, narrow) + bF.scale_mixture_kl_sample(*tracked, noise, narrow)
    assert all(t.isfinite().all() for t in torch.autograd.grad(value.sum(), tracked))


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("kl_weight", [0.3, "tensor"])
def test_the_token_has_the_gradient_of_the_divergence_of_each_replicate(sampled, kl_weight):
    g = torch.Generator().manual_seed(0)
    shape = (3, 40)
    kl_weight = torch.tensor([[0.1], [0.5], [2.0]], dtype=DOUBLE) if kl_weight == "tensor" else kl_weight
    mean, rho, noise = (torch.randn(shape, generator=g, dtype=DOUBLE) for _ in range(3))
    mean, rho = mean.mul_(0.2).requires_grad_(), (rho - 2).requires_grad_()
    columns = torch.tensor([[1.0, 2.0, 0.3], [0.1, 0.05, 0.01], [0.2, 0.5, 0.9]], dtype=DOUBLE).unsqueeze(2)
    prior = bF.mixture_prior(*columns)
    weight, token = bF.gaussian_draw(mean, rho, noise, prior, sampled=sampled, dim=1)
    assert token.shape == (3,) and not token.any()
    fused = torch.autograd.grad(weight.sin().sum() + (kl_weight * token[:, None]).sum(), (mean, rho))
    scale = torch.nn.functional.softplus(rho)
    each = bF.scale_mixture_kl_sample(mean, scale, noise, prior) if sampled else (
        bF.spike_slab_profile_penalty(mean, scale, prior) - 0.5
    )  # fmt: skip
    loss = (mean + scale * noise).sin().sum() + (kl_weight * each).sum()
    torch.testing.assert_close(fused, torch.autograd.grad(loss, (mean, rho)), rtol=1e-11, atol=1e-12)


def component_divergences(mean, scale, slab, spike):
    """KL of N(mean, scale^2) to the slab and to the spike, by torch.distributions."""
    zero = torch.zeros_like(mean)
    posterior = Normal(mean, scale)
    return tuple(kl_divergence(posterior, Normal(zero, t.expand_as(mean))) for t in (slab, spike))


def test_inclusion_is_the_numeric_optimum_on_ten_thousand_problems():
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

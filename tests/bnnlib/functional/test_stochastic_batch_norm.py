"""Statistics of batches: normalization, moments with and without smoothing, the factorised approximation."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import LogNormal, Normal

from bnnlib import functional as bF
from bnnlib.functional import stochastic_batch_norm as sbn

DOUBLE = torch.float64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def some_moments(features=3, seed=0):
    return bF.StatisticMoments(
        normal(features, seed=seed), normal(features, seed=seed + 1).exp(), normal(features, seed=seed + 2),
        0.3 * normal(features, seed=seed + 3).exp(),
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5), (6, 4, 3, 2)])
@pytest.mark.parametrize("affine", [True, False])
def test_normalization_is_batch_norm_s(shape, affine):
    x = 3.0 * normal(*shape) + 2.0
    weight, bias = (normal(4, seed=1), normal(4, seed=2)) if affine else (None, None)
    mean, log_scale = bF.batch_statistics(x, 1e-5)
    expected = F.batch_norm(x, None, None, weight, bias, True, 0.0, 1e-5)
    torch.testing.assert_close(bF.batch_norm(x, mean, log_scale.exp(), weight, bias), expected, rtol=1e-12, atol=1e-12)


def test_statistics_of_a_row_are_its_own():
    x, mean, scale, weight, bias = normal(5, 4, 3, 2), normal(5, 4, seed=1), normal(5, 4, seed=2).exp(), *normal(2, 4)
    whole = bF.batch_norm(x, mean, scale, weight, bias)
    rows = [bF.batch_norm(x[i : i + 1], mean[i], scale[i], weight, bias) for i in range(5)]
    torch.testing.assert_close(whole, torch.cat(rows), rtol=0, atol=0)


def test_narrow_types_are_normalized_in_the_statistics_type():
    x = (normal(8, 4).float() + 100.0).bfloat16()
    mean, scale = torch.full((4,), 100.0), torch.full((4,), 0.1)
    out = bF.batch_norm(x, mean, scale)
    assert out.dtype == torch.bfloat16
    # the only rounding is that of the result; in bfloat16 x * 10 - 1000 would be off by up to 4
    torch.testing.assert_close(out.float(), (x.float() - 100.0) / 0.1, rtol=2**-8, atol=1e-3)


def test_a_feature_without_spread_has_the_scale_root_eps():
    mean, log_scale = bF.batch_statistics(torch.full((10, 2), 7.0, dtype=DOUBLE), 1e-5)
    assert mean.tolist() == [7.0, 7.0] and log_scale.exp().tolist() == pytest.approx([math.sqrt(1e-5)] * 2, rel=1e-12)


def explicit(values, weights):
    """Weighted mean and unbiased weighted variance, from all values at once."""
    weights = (weights / weights.sum())[:, None]
    mean = (weights * values).sum(dim=0)
    return mean, (weights * (values - mean).square()).sum(dim=0) / (1.0 - weights.square().sum())


@pytest.mark.parametrize("momentum", [None, 0.001, 0.1, 0.9])
@pytest.mark.parametrize("count", [2, 3, 7, 60])
def test_running_moments_are_the_weighted_ones_of_all_values(momentum, count):
    values = 2.0 * normal(count, 5) + 30.0
    mean, variance = torch.full((5,), 1e6, dtype=DOUBLE), torch.full((5,), 1e6, dtype=DOUBLE)  # forgotten at once
    for number, value in enumerate(values, 1):
        bF.welford_update_(mean, variance, value, bF.moment_weights(number, momentum))
    ages = torch.arange(count - 1, -1, -1, dtype=DOUBLE)
    weights = torch.ones(count, dtype=DOUBLE) if momentum is None else (1.0 - momentum) ** ages
    expected = explicit(values, weights)
    # cancellation in 1 - sum w^2 is at most that of 0.001^2
    torch.testing.assert_close(mean, expected[0], rtol=1e-12, atol=0)
    torch.testing.assert_close(variance, expected[1], rtol=1e-9, atol=0)
    if momentum is None:
        torch.testing.assert_close(variance, values.var(dim=0), rtol=1e-11, atol=0)


def test_smoothed_moments_are_unbiased_from_the_start():
    """20,000 histories of 5 values each: an average that starts at 0 would give (1 - 0.9^5) = 41 % of the mean."""
    values = 2.0 * normal(5, 20_000) + 3.0
    mean, variance = torch.zeros(20_000, dtype=DOUBLE), torch.zeros(20_000, dtype=DOUBLE)
    for number, value in enumerate(values, 1):
        bF.welford_update_(mean, variance, value, bF.moment_weights(number, 0.1))
    # five standard errors: of a mean of 5 values and of a variance with 4 degrees of freedom
    assert mean.mean().item() == pytest.approx(3.0, abs=5 * 2 / math.sqrt(5 * 20_000))
    assert variance.mean().item() == pytest.approx(4.0, abs=5 * 4 * math.sqrt(2 / 4 / 20_000) * 1.1)


def test_the_variance_is_never_negative_where_a_difference_of_moments_is():
    values = 1000.0 + 1e-2 * normal(200, 50).float()
    mean, variance = torch.zeros(50), torch.zeros(50)
    m, m2 = torch.zeros(50), torch.zeros(50)
    for number, value in enumerate(values, 1):
        bF.welford_update_(mean, variance, value, bF.moment_weights(number, None))
        m, m2 = m + (value - m) / number, m2 + (value.square() - m2) / number
        assert (variance >= 0).all()
    assert ((m2 - m.square()) < 0).any()  # what the published code computes
    # rounding of a value near 1,000 in float32 is 3e-5, well below the spread of 1e-2
    torch.testing.assert_close(variance.double(), values.double().var(dim=0), rtol=0.05, atol=0)


def test_matched_moments_minimize_the_divergence():
    """(sbn-kl) is a constant less the mean log density of r, so its slope vanishes and every other r is worse."""
    means, log_scales = 2.0 * normal(40, 3) + 1.0, 0.1 * normal(40, 3, seed=1) - 2.0
    found = bF.matched_moments(means, log_scales, unbiased=False)

    def cross_entropy(*moments):
        r = bF.StatisticMoments(*moments)
        normal_part = Normal(r.mean, r.mean_spread).log_prob(means)
        return -(normal_part + LogNormal(r.log_scale, r.log_scale_spread).log_prob(log_scales.exp())).mean(dim=0)

    parameters = [value.clone().requires_grad_() for value in found]
    gradients = torch.autograd.grad(cross_entropy(*parameters).sum(), parameters)
    assert max(g.abs().max() for g in gradients) < 1e-11
    best = cross_entropy(*found)
    for index in range(4):
        for factor in (0.97, 1.03):
            other = [value * (factor if i == index else 1.0) for i, value in enumerate(found)]
            assert (cross_entropy(*other) > best).all()


def test_the_unbiased_estimate_divides_by_one_less():
    means, log_scales = normal(5, 3), normal(5, 3, seed=1)
    a, b = (bF.matched_moments(means, log_scales, unbiased=flag) for flag in (True, False))
    torch.testing.assert_close(a.mean_spread.square() * 4, b.mean_spread.square() * 5, rtol=1e-12, atol=0)
    torch.testing.assert_close(a.log_scale_spread, log_scales.std(dim=0), rtol=1e-12, atol=0)
    assert torch.equal(a.mean, b.mean) and torch.equal(a.log_scale, b.log_scale)


@pytest.mark.parametrize("rows", [(), (20_000,)])
def test_draws_have_the_moments(rows):
    moments = some_moments()
    noise = normal(2, *rows, 3, seed=7)
    mean, scale = bF.sample_statistics(moments, noise)
    assert mean.shape == scale.shape == (*rows, 3) and (scale > 0).all()
    torch.testing.assert_close((mean - moments.mean) / moments.mean_spread, noise[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close((scale.log() - moments.log_scale) / moments.log_scale_spread, noise[1], rtol=1e-8,
                               atol=1e-10)  # fmt: skip
    if rows:  # five standard errors of a correlation: independent within a feature and between features
        table = torch.cat([mean, scale.log()], dim=1).T
        off = torch.corrcoef(table) - torch.eye(6, dtype=DOUBLE)
        assert off.abs().max() < 5 / math.sqrt(rows[0])


def test_independent_statistics_cost_nothing():
    """Of a normal feature mean and variance of a batch are independent: r loses nothing but the shape of log s."""
    values = normal(4000, 32)
    means, log_scales = values.mean(dim=1, keepdim=True), 0.5 * values.var(dim=1, correction=0, keepdim=True).log()
    moments = bF.matched_moments(means, log_scales)
    assert torch.corrcoef(torch.cat([means, log_scales], dim=1).T)[0, 1].abs() < 5 / math.sqrt(4000)
    # the mean of 32 standard normals; log s has about the spread 1 / sqrt(2 * 31)
    assert moments.mean_spread.item() == pytest.approx(1 / math.sqrt(32), rel=0.06)
    assert moments.log_scale_spread.item() == pytest.approx(1 / math.sqrt(62), rel=0.08)


def test_bad_arguments_are_refused():
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="count is"):
            bF.moment_weights(bad)
    for bad in (0.0, -0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match=r"momentum is .* must lie in \(0, 1\]"):
            bF.moment_weights(3, bad)
    with pytest.raises(ValueError, match="eps is -1, but it must be finite and not negative"):
        bF.batch_statistics(torch.ones(3, 2), -1.0)
    with pytest.raises(ValueError, match=r"the batch has shape \(1, 4\): 1 value a feature"):
        bF.batch_statistics(torch.ones(1, 4))
    for means, log_scales in ((torch.ones(1, 3),) * 2, (torch.ones(4, 3), torch.ones(4, 2)), (torch.ones(()),) * 2):
        with pytest.raises(ValueError, match="at least two batches"):
            bF.matched_moments(means, log_scales)


def test_one_image_has_as_many_values_as_positions():
    assert sbn.check_values(torch.ones(1, 3, 2, 2)) == 4
    assert sbn.check_values(torch.ones(5, 3)) == 5

"""The equations of the chapter on Stochastic Batch Normalization, continued: the approximation of the statistics, how
its moments are found, and the measures of uncertainty. The model and its bound are in `test_sbn.py`.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats
from torch import nn

from bnnlib import functional as bF
from bnnlib import metrics
from bnnlib import nn as bnn
from chapters.batch_statistics import formulas
from tests.seeded import double as t
from tests.seeded import normal
from tests.seeded import seeded as generator


def moments(m_mu=0.4, s_mu=0.6, m_sigma=-0.3, s_sigma=0.4):
    return bF.StatisticMoments(t(m_mu), t(s_mu), t(m_sigma), t(s_sigma))


# equation: sbn-factorized
def test_draws_and_density_are_a_normal_times_a_log_normal():
    r = moments()
    noise = normal(2, 20_000, 1)
    mu, sigma = bF.sample_statistics(bF.StatisticMoments(*(part.reshape(1) for part in r)), noise)
    # p-values of correct draws are uniform; 0.001 is passed by chance in one of a thousand seeds
    assert stats.kstest(mu[:, 0], stats.norm(0.4, 0.6).cdf).pvalue > 1e-3
    assert stats.kstest(sigma[:, 0], stats.lognorm(0.4, scale=math.exp(-0.3)).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(mu[:, 0], sigma[:, 0])[0, 1]) < 4 / math.sqrt(20_000)


# equation: sbn-spread
def test_the_spread_of_the_statistics_falls_with_the_batch_size():
    x = normal(7, 1)[:, 0] * 2 + 1
    for m in (2, 3, 5):  # every subset: no approximation
        means = [x[list(B)].mean().item() for B in itertools.combinations(range(7), m)]
        exact = x.std(correction=0).item() / math.sqrt(m) * math.sqrt((7 - m) / 6)
        assert np.std(means) == pytest.approx(exact, rel=1e-10)
    # log sigma: for large m, with the kurtosis of the inputs; 9 for exponential ones, 1.8 for uniform ones
    rng = np.random.default_rng(0)
    for draw, kurtosis in ((rng.exponential, 9.0), (rng.uniform, 1.8), (rng.normal, 3.0)):
        logs = np.log(draw(size=(4_000, 2_000)).std(axis=1))
        # 4,000 batches know a standard deviation to 1.1 %; the formula is off by another few percent at m = 2,000
        assert logs.std() == pytest.approx(0.5 * math.sqrt((kurtosis - 1) / 2_000), rel=0.07)


# equation: sbn-spread
def test_the_spreads_follow_from_covariances_and_a_linear_logarithm():
    x = normal(7, 1)[:, 0] * 2 + 1
    b, N = x.std(correction=0).item(), 7
    pairs = np.array(list(itertools.permutations(x.numpy(), 2)))  # two draws without replacement
    assert np.cov(pairs.T, ddof=0)[0, 1] == pytest.approx(-(b**2) / (N - 1), rel=1e-10)
    for m in (2, 5):  # m variances and m (m - 1) covariances
        assert b**2 / m * (1 - (m - 1) / (N - 1)) == pytest.approx(b**2 / m * (N - m) / (N - 1), rel=1e-12)
    rng, m = np.random.default_rng(1), 1_000
    values = rng.exponential(size=(4_000, m))  # b = 1, kurtosis 9
    around_mean, around_truth = values.var(axis=1), ((values - 1.0) ** 2).mean(axis=1)
    # the mean of the mini-batch costs a term of order 1 / m; 4,000 variances know a variance to 2.2 %, twice that here
    assert np.abs(around_mean - around_truth).max() < 30 / m
    assert around_truth.var() == pytest.approx((9 - 1) / m, rel=0.1)
    assert np.log(around_truth).var() / 4 == pytest.approx(around_truth.var() / 4, rel=0.1)


def printed_kl(location, covariance, center, spreads):
    """(sbn-kl): of a normal law of (mu, log sigma) from the factorized one."""
    quadratic = (np.diag(covariance) + (location - center) ** 2) / spreads**2
    return 0.5 * (quadratic.sum() - 2.0 + 2.0 * np.log(spreads).sum() - np.linalg.slogdet(covariance)[1])


# equation: sbn-kl
@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_the_divergence_of_a_factorized_r(correlation):
    location, spreads = np.array([0.2, -0.1]), np.array([0.5, 0.3])
    covariance = np.outer(spreads, spreads) * np.array([[1, correlation], [correlation, 1]])
    p = stats.multivariate_normal(location, covariance)

    # the trapezoid rule has no error but rounding for functions so smooth
    mu, log_sigma = (
        np.linspace(at - 9 * width, at + 9 * width, 601) for at, width in zip(location, spreads, strict=True)
    )
    points = np.stack(np.meshgrid(mu, log_sigma, indexing="ij"), axis=-1)
    first = p.logpdf(points) - log_sigma  # density of (mu, sigma) under p; d sigma = sigma d log sigma
    second = stats.norm.logpdf(points[..., 0], 0.4, 0.6) + stats.lognorm.logpdf(
        np.exp(log_sigma), 0.4, scale=math.exp(-0.3)
    )
    exact = np.trapezoid(np.trapezoid(np.exp(first + log_sigma) * (first - second), log_sigma), mu)
    given = printed_kl(location, covariance, np.array([0.4, -0.3]), np.array([0.6, 0.4]))
    assert given == pytest.approx(exact, abs=1e-10)
    least = printed_kl(location, covariance, location, spreads)
    # at the minimum only the correlation is left: the mutual information of the two
    assert least == pytest.approx(-0.5 * math.log(1 - correlation**2), abs=1e-12) and least < given


# equation: sbn-family
@pytest.mark.parametrize("family", ["normal", "log-normal"])
def test_gradient_and_curvature_in_the_natural_parameters(family):
    sample = normal(50) * 0.7 + 0.3
    sample = sample.exp() if family == "log-normal" else sample
    log_h = -sample.log() if family == "log-normal" else torch.zeros_like(sample)
    value = sample.log() if family == "log-normal" else sample
    statistics = torch.stack([value, value**2])

    def divergence(eta):  # KL(sample || r_eta) up to a constant, with A(eta) of the normal distribution
        variance = -0.5 / eta[1]
        mean = eta[0] * variance
        A = 0.5 * mean**2 / variance + 0.5 * torch.log(2 * math.pi * variance)
        return -(log_h + eta @ statistics - A).mean()

    m, s = 0.1, 0.9
    eta = t(m / s**2, -0.5 / s**2)
    if family == "normal":  # the parametrization is that of SciPy's density
        assert divergence(eta).item() == pytest.approx(-stats.norm.logpdf(sample, m, s).mean(), rel=1e-12)
    else:
        expected = -stats.lognorm.logpdf(sample, s, scale=math.exp(m)).mean()
        assert divergence(eta).item() == pytest.approx(expected, rel=1e-12)
    under_r = t(m, m**2 + s**2)
    slope = torch.autograd.functional.jacobian(divergence, eta)
    torch.testing.assert_close(slope, under_r - statistics.mean(1), rtol=1e-10, atol=1e-10)
    # Cov(v, v^2) = 2 m s^2 and Var(v^2) = 2 s^4 + 4 m^2 s^2 for a normal v
    covariance = t([s**2, 2 * m * s**2], [2 * m * s**2, 2 * s**4 + 4 * m**2 * s**2])
    torch.testing.assert_close(torch.autograd.functional.hessian(divergence, eta), covariance, rtol=1e-9, atol=1e-10)
    assert torch.linalg.eigvalsh(covariance).min() > 0


# equation: sbn-moments
def test_matched_moments_minimize_the_divergence():
    means, log_scales = normal(200, 2) * 0.5 + 1, normal(200, 2, seed=1) * 0.2 - 0.4
    matched = formulas.matched_moments(means, log_scales, unbiased=False)
    for j in range(2):
        mu, log_sigma = means[:, j].numpy(), log_scales[:, j].numpy()

        def loss(point, mu=mu, log_sigma=log_sigma):
            m, s, ms, ss = point[0], math.exp(point[1]), point[2], math.exp(point[3])
            density = stats.norm.logpdf(mu, m, s) + stats.lognorm.logpdf(np.exp(log_sigma), ss, scale=math.exp(ms))
            return -density.mean()

        found = optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
        expected = [found[0], math.exp(found[1]), found[2], math.exp(found[3])]
        np.testing.assert_allclose([part[j].item() for part in matched], expected, rtol=1e-4)


# equation: sbn-moments
def test_match_moments_follows_the_statistics_of_every_layer():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2), nn.BatchNorm1d(2)).double()
    batches = normal(30 * 8, 3).split(8)
    fitted = bnn.to_stochastic_batch_norm(net)
    assert bnn.match_moments(fitted, batches) == 30
    found = {1: [], 4: []}
    for batch in batches:
        values = batch
        for index, layer in enumerate(net):
            if index in found:
                mean, scale = values.mean(0), (values.var(0, correction=0) + 1e-5).sqrt()
                found[index].append((mean, scale.log()))
                values = (values - mean) / scale
            else:
                values = layer(values)
    for index, pairs in found.items():
        mean, log_scale = (torch.stack(part).detach().numpy() for part in zip(*pairs, strict=True))
        expected = (mean.mean(0), mean.std(0, ddof=1), log_scale.mean(0), log_scale.std(0, ddof=1))
        for given, right in zip(fitted[index].moments(), expected, strict=True):
            np.testing.assert_allclose(given, right, rtol=1e-7)


# equation: sbn-decomposition
def test_the_average_divergence_falls_into_three_parts():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(20), size=3).reshape(3, 4, 5)  # p(mu, sigma | x_i): 3 objects, 4 and 5 values
    r = np.outer(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5)))
    whole = special.rel_entr(p, r).sum() / 3
    bar = p.mean(0)
    marginals = bar.sum(1), bar.sum(0)
    about_the_object = special.rel_entr(p, bar).sum() / 3
    dependence = special.rel_entr(bar, np.outer(*marginals)).sum()
    shapes = sum(special.rel_entr(m, q).sum() for m, q in zip(marginals, (r.sum(1), r.sum(0)), strict=True))
    assert whole == pytest.approx(about_the_object + dependence + shapes, rel=1e-12)
    assert min(about_the_object, dependence, shapes) > 0


# equation: sbn-log-variance
def test_sigma_and_its_square_are_of_one_family():
    m, s = -0.3, 0.4
    scale, variance = stats.lognorm(s, scale=math.exp(m)), stats.lognorm(2 * s, scale=math.exp(2 * m))
    for q in (0.05, 0.5, 0.99):
        assert scale.ppf(q) ** 2 == pytest.approx(variance.ppf(q), rel=1e-12)
    # the layers agree where eps is small beside the variance, and part where it is not
    for size, near in ((1.0, True), (1e-3, False)):
        layers = [bnn.StochasticBatchNorm1d(1, statistic=kind).double().train() for kind in ("scale", "variance")]
        for batch in (size * normal(40 * 8, 1)).split(8):
            for layer in layers:
                layer.momentum = None
                layer(batch)
        scale, variance = (layer.moments() for layer in layers)
        drawn = [layer.eval().draw(generator(2))[1].item() for layer in layers]
        assert torch.allclose(scale.log_scale_spread, variance.log_scale_spread, rtol=1e-3) == near
        assert (drawn[0] == pytest.approx(drawn[1], rel=1e-3)) == near


def smoothed(values, momentum):
    """M_t and Q_t as published."""
    M = Q = values[0] * 0
    for v in values:
        M, Q = (1 - momentum) * M + momentum * v, (1 - momentum) * Q + momentum * v**2
    return M, Q


def weights(count, momentum):
    w = (1 - momentum) ** np.arange(count - 1, -1, -1)
    return w / w.sum()


# equation: sbn-naive-moments
@pytest.mark.parametrize("count", [1, 7, 60])
def test_smoothing_from_zero_holds_a_part_of_the_squared_mean(count):
    values = normal(count).numpy() + 5
    M, Q = smoothed(values, 0.1)
    w, c = weights(count, 0.1), 1 - 0.9**count
    average = w @ values
    assert pytest.approx(c * average, rel=1e-12) == M
    spread = w @ (values - average) ** 2
    assert Q - M**2 == pytest.approx(c * spread + c * (1 - c) * average**2, rel=1e-9)
    # the weighted variance itself is too small by 1 - sum w^2, which tends to 18 / 19
    assert 1 - (weights(2_000, 0.1) ** 2).sum() == pytest.approx(18 / 19, rel=1e-12)


# equation: sbn-naive-moments
def test_the_difference_turns_negative_in_single_precision():
    values = 300 + 0.05 * normal(500).float()
    found = []
    M = Q = torch.zeros(())
    for v in values:
        M, Q = 0.9 * M + 0.1 * v, 0.9 * Q + 0.1 * v**2
        found.append(float(Q - M**2))
    assert min(found[200:]) < 0


# equation: sbn-welford
@pytest.mark.parametrize(("count", "momentum"), [(2, 0.1), (7, 0.1), (60, 0.1), (9, 0.9), (12, None)])
def test_the_recursion_is_the_weighted_definition(count, momentum):
    w = np.full(count, 1 / count) if momentum is None else weights(count, momentum)

    def recursion(values):
        mean, variance = torch.full((), 9.0).double(), torch.full((), 9.0).double()  # the start must not matter
        for number, value in enumerate(values, start=1):
            bF.welford_update_(mean, variance, value, bF.moment_weights(number, momentum))
        return mean.item(), variance.item()

    values = normal(count, seed=count) + 3
    mean, variance = recursion(values)
    average = w @ values.numpy()
    assert mean == pytest.approx(average, rel=1e-12)
    assert variance == pytest.approx(w @ (values.numpy() - average) ** 2 / (1 - (w**2).sum()), rel=1e-9)
    # as printed: the newest weight is the step, and W_t = 1 - sum w^2
    step, keep, add = bF.moment_weights(count, momentum)
    before = np.full(count - 1, 1 / (count - 1)) if momentum is None else weights(count - 1, momentum)
    W, old = 1 - (w**2).sum(), 1 - (before**2).sum()
    assert [step, keep, add] == pytest.approx([w[-1], (1 - w[-1]) * old / W, (1 - w[-1]) * w[-1] / W], abs=1e-12)
    # unbiased: a quadratic form with trace 1 has expectation Var v; shifts do not matter
    assert sum(recursion(row)[1] for row in torch.eye(count).double()) == pytest.approx(1.0, rel=1e-10)
    assert recursion(values + 1e6)[1] == pytest.approx(variance, rel=1e-6)


# equation: sbn-welford
def test_the_weighted_squares_have_a_recursion_of_their_own():
    values = normal(9, seed=4).numpy() + 2
    for count in range(2, 10):
        old, new = weights(count - 1, 0.3), weights(count, 0.3)
        assert new[:-1] == pytest.approx((1 - new[-1]) * old, rel=1e-12)
        before, after = old @ values[: count - 1], new @ values[:count]
        S_old, S_new = old @ (values[: count - 1] - before) ** 2, new @ (values[:count] - after) ** 2
        w, d = new[-1], values[count - 1] - before
        parts = (1 - w) * (S_old + w**2 * d**2), w * (1 - w) ** 2 * d**2
        assert S_new == pytest.approx(sum(parts), rel=1e-10)
        assert S_new == pytest.approx((1 - w) * (S_old + w * d**2), rel=1e-10)


# equation: sbn-entropy
def test_entropy_is_scipy_s():
    p = normal(40, 5).mul(3).softmax(-1)
    np.testing.assert_allclose(metrics.predictive_entropy(p), stats.entropy(p.numpy(), axis=1), rtol=1e-10)
    edges = metrics.predictive_entropy(t([1, 0, 0], [1 / 3, 1 / 3, 1 / 3]))
    np.testing.assert_allclose(edges, [0, math.log(3)], atol=1e-12)
    assert metrics.predictive_entropy(torch.tensor([[1.0, 0.0]])).item() == 0.0  # in float32 too


# equation: sbn-temperature, fnd-temperature
def test_temperature_changes_entropy_and_no_decision():
    p, before = normal(60, 4).mul(2).softmax(-1), None
    for T in (0.3, 1.0, 2.5, 50.0):
        q = metrics.apply_temperature(p, T, given="probabilities")
        expected = p.numpy() ** (1 / T) / (p.numpy() ** (1 / T)).sum(1, keepdims=True)
        np.testing.assert_allclose(q, expected, rtol=1e-10)
        np.testing.assert_allclose(metrics.apply_temperature(p.log() + 3, T), expected, rtol=1e-10)
        assert (q.argmax(-1) == p.argmax(-1)).all()
        entropy = metrics.predictive_entropy(q)
        assert before is None or (entropy > before).all()
        before = entropy
    for scores, given in ((p, "probabilities"), (p.log(), "logits")):
        assert metrics.apply_temperature(scores.float(), 2.0, given=given).dtype == torch.float32


# equation: sbn-auroc
def test_area_under_the_curve_is_the_chance_to_rank_a_pair_rightly():
    unknown, known = normal(80) + 0.7, normal(50, seed=1)
    unknown[::7], known[::5] = 0.5, 0.5  # ties
    pairs = unknown[:, None] - known[None]
    counted = 100 * ((pairs > 0).double() + 0.5 * (pairs == 0).double()).mean().item()
    assert metrics.auroc(unknown, known) == pytest.approx(counted, rel=1e-12)
    integrated = stats.mannwhitneyu(unknown, known).statistic / (80 * 50)
    assert metrics.auroc(unknown, known) == pytest.approx(100 * integrated, rel=1e-12)

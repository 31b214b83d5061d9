"""Equations of the chapter on Structured Bayesian Pruning that need a layer or data: noise, bound, gradients."""

import math

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from torch import nn

from bnnlib import nn as bnn
from bnnlib.pruning import GroupLasso
from chapters.unit_noise import formulas
from tests.seeded import double as t

SEED = 5
A, B = -20.0, 0.0
MU, SIGMA = -0.6, 0.5


def layer(*shape_and_settings, mu=MU, sigma=SIGMA, **settings) -> bnn.StructuredBayesianPruning:
    return bnn.StructuredBayesianPruning(
        *shape_and_settings, initial_location=mu, initial_scale=sigma, dtype=torch.float64, **settings
    )


def posterior(mu=MU, sigma=SIGMA):
    """SciPy's distribution of log theta."""
    return stats.truncnorm((A - mu) / sigma, (B - mu) / sigma, mu, sigma)


def legendre(low, high, panels=100):
    """Nodes and weights of a composite Gauss rule, 20 nodes a panel."""
    x, w = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(low, high, panels + 1)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


# equation: sbp-noise
def test_each_unit_is_multiplied_by_one_noise_for_all_rows_and_positions(generator):
    x = torch.randn(4, 3, 5, 2, generator=generator, dtype=torch.float64)
    noise = layer(3)
    with bnn.held_weights(noise, generator):
        theta, y = noise._held, noise(x)
    for unit in range(3):
        assert torch.equal(y[:, unit], x[:, unit] * theta[unit])
    assert len(set(theta.tolist())) == 3


# equation: sbp-model
def test_the_layer_s_prior_and_posterior_are_those_of_the_model(generator):
    draws = layer(20_000).draw(generator)
    # Kolmogorov-Smirnov against SciPy: a fixed seed whose p-value is not extreme
    assert stats.kstest(draws.log().detach().numpy(), posterior().cdf).pvalue > 0.01
    v, w = legendre(-8.0, 0.0)
    log_q = posterior().logpdf(v)
    divergence = w @ (np.exp(log_q) * (log_q - math.log(1 / (B - A))))
    # mass beyond -8 is below 1e-48
    assert layer(7).kl_divergence().item() == pytest.approx(7 * divergence, rel=1e-9)


def regression(theta, x, y, noise=0.5):
    """Log-likelihood of each observation under y = theta x + noise; theta may be an array of many values."""
    return stats.norm.logpdf(y, np.multiply.outer(theta, x), noise)


X, Y = np.array([0.5, -1.0, 2.0, 1.5]), np.array([0.6, -0.5, 1.1, 0.2])


# equation: sbp-elbo, sbp-data-term
def test_the_bound_is_the_evidence_minus_the_divergence_to_the_posterior():
    v, w = legendre(A, B)
    theta, log_prior = np.exp(v), math.log(1 / (B - A))
    log_likelihood = regression(theta, X, Y).sum(1)
    evidence = math.log(w @ np.exp(log_likelihood + log_prior))
    log_q = posterior().logpdf(v)
    q = np.exp(log_q)
    to_posterior = w @ (q * (log_q - (log_likelihood + log_prior - evidence)))
    # the library's side: the data term is an average over levels of the reparameterized draw
    level, mass = legendre(0.0, 1.0)
    drawn = formulas.truncated_log_normal_sample(t(MU).expand(2_000), t(SIGMA).expand(2_000), t(*level)).numpy()
    data_term = sum(mass @ regression(drawn, x, y) for x, y in zip(X, Y, strict=True))
    bound = data_term - layer(1).kl_divergence().item()
    # quadrature over levels meets the vertical tangents of the quantile at both ends
    assert bound == pytest.approx(evidence - to_posterior, abs=1e-5)
    assert bound < evidence
    # the training objective is minus that bound for each observation
    loss = bnn.elbo_loss(t(-data_term / len(X)), layer(1), num_data=len(X))
    assert len(X) * loss.item() == pytest.approx(-bound, rel=1e-12)


# equation: sbp-gain, sbp-best-ratio
def test_an_orthogonal_input_gains_half_its_squared_t_statistic_at_infinite_precision():
    """The best weight by SciPy, averages over the noise by quadrature; the ratio's optimum by SciPy as well."""
    x, y = X / X.std(), Y / 0.5  # noise of variance one
    v, w = legendre(-30 * SIGMA + MU, B)
    q = posterior().pdf(v)
    mean, second = (w @ (q * np.exp(k * v)) for k in (1, 2))

    def data_term(weight):
        theta = np.multiply.outer(np.exp(v) * weight, x)
        return (w * q) @ (-0.5 * (y - theta) ** 2).sum(1)

    best = -optimize.minimize_scalar(lambda weight: -data_term(weight)).fun
    gain = 0.5 * (x @ y) ** 2 / (x @ x)
    ratio = formulas.truncated_log_normal_snr(t(MU), t(SIGMA)).item()
    assert ratio == pytest.approx(mean / math.sqrt(second - mean**2), rel=1e-8)
    assert best + 0.5 * y @ y == pytest.approx(gain * ratio**2 / (1 + ratio**2), rel=1e-8)
    # least squares: weight over its standard error
    t_statistic = (x @ y) / (x @ x) * math.sqrt(x @ x)
    assert gain == pytest.approx(0.5 * t_statistic**2, rel=1e-12)
    for gain in (5.0, 20.0, 400.0):
        found = optimize.minimize_scalar(
            lambda s, gain=gain: math.log(s) - gain * s**2 / (1 + s**2),
            bounds=(1.5, 60), method="bounded", options={"xatol": 1e-9},
        )  # fmt: skip
        assert found.x**2 == pytest.approx(gain - 1 + math.sqrt(gain**2 - 2 * gain), rel=1e-5)
        # t^2 - 2: the next term of the root is 1 / (2 G)
        assert found.x**2 == pytest.approx(2 * gain - 2, abs=1 / gain)


# equation: sbp-gradient
def test_the_estimated_gradient_is_right_on_average():
    def data_term(mu, log_sigma):
        v, w = legendre(mu - 12 * math.exp(log_sigma), B)
        return w @ (posterior(mu, math.exp(log_sigma)).pdf(v) * regression(np.exp(v), X, Y).sum(1))

    h, log_sigma = 1e-4, math.log(SIGMA)
    slopes = [
        (data_term(MU + h, log_sigma) - data_term(MU - h, log_sigma)) / (2 * h),
        (data_term(MU, log_sigma + h) - data_term(MU, log_sigma - h)) / (2 * h),
    ]
    # all minibatches of two observations, each with every level of the noise: the average of N/M sum of gradients
    level, mass = legendre(0.0, 1.0)
    parameters = t(MU, math.log(SIGMA)).requires_grad_()
    mu, sigma = parameters[0].expand(2_000), parameters[1].exp().expand(2_000)
    theta = formulas.truncated_log_normal_sample(mu, sigma, t(*level))
    estimates = []
    for batch in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
        rows = list(batch)
        errors = t(*Y[rows]) - theta[:, None] * t(*X[rows])
        value = (4 / 2) * (t(*mass) * (-0.5 * errors.square() / 0.25).sum(1)).sum()
        estimates.append(torch.autograd.grad(value, parameters, retain_graph=True)[0])
    mean = torch.stack(estimates).mean(0)
    # the difference quotient has an error of order h^2
    assert mean.tolist() == pytest.approx(slopes, rel=1e-5)
    # the layer adds the gradient of the divergence, exactly
    noise = layer(1)
    objective = noise.kl_divergence()
    gradient = torch.autograd.grad(objective, [noise.location, noise.log_scale])
    kl = lambda mu, s: -posterior(mu, math.exp(s)).entropy()  # noqa: E731, up to a constant
    assert gradient[0].item() == pytest.approx((kl(MU + h, log_sigma) - kl(MU - h, log_sigma)) / (2 * h), rel=1e-5)
    assert gradient[1].item() == pytest.approx((kl(MU, log_sigma + h) - kl(MU, log_sigma - h)) / (2 * h), rel=1e-5)


# equation: sbp-variance
def test_shared_noise_adds_the_covariance_of_the_objects():
    # gradients of the four objects in mu for every level: columns are objects, exact by quadrature over the level
    level, mass = legendre(1e-9, 1 - 1e-9)
    mu = t(MU).expand(2_000).clone().requires_grad_()
    theta = formulas.truncated_log_normal_sample(mu, t(SIGMA).expand(2_000), t(*level))
    slope = torch.autograd.grad(theta.sum(), mu)[0].numpy()
    theta = theta.detach().numpy()
    g = (Y - np.multiply.outer(theta, X)) * X / 0.25 * slope[:, None]
    mass = mass / mass.sum()
    # a minibatch is M objects drawn with replacement, and N / M times the sum of their gradients
    N, M = len(X), 3
    mean = mass @ g  # over the noise, for each object
    within = mass @ (g**2) - mean**2
    own = within.mean() + mean.var()  # variance of one object's gradient, object and noise random
    covariance = mass @ (g.mean(1) ** 2) - mean.mean() ** 2  # of two different objects under one noise
    # direct: enumerate all N^M minibatches, noise shared or own
    shared = own_noise = 0.0
    for batch in np.ndindex(*[N] * M):
        sums = g[:, list(batch)].sum(1) * N / M
        shared += (mass @ sums**2) / N**M
        own_noise += ((within[list(batch)]).sum() * (N / M) ** 2 + (mean[list(batch)].sum() * N / M) ** 2) / N**M
    total = (N * mean.mean()) ** 2
    assert own_noise - total == pytest.approx(N**2 * own / M, rel=1e-9)
    assert shared - total == pytest.approx(N**2 * (own / M + (M - 1) / M * covariance), rel=1e-9)
    assert covariance > 0


# equation: sbp-scaling
def test_the_scaled_bound_weighs_the_divergence_of_each_layer():
    plain = nn.Sequential(layer(4), layer(6, mu=-2.0))
    scaled = nn.Sequential(layer(4, kl_weight=10.0), layer(6, mu=-2.0, kl_weight=5.0))
    own = [part.kl_divergence().item() for part in plain]
    assert bnn.kl_divergence(scaled).item() == pytest.approx(10 * own[0] + 5 * own[1], rel=1e-12)
    bnn.kl_divergence(scaled).backward()
    bnn.kl_divergence(plain).backward()
    for factor, one, other in zip((10, 5), scaled, plain, strict=True):
        assert torch.allclose(one.log_scale.grad, factor * other.log_scale.grad, rtol=1e-12)


# equation: sbp-group-lasso
def test_the_group_lasso_sums_the_lengths_of_filters_and_channels(generator):
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 4)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    filters, reading = model[0].weight.detach(), model[2].weight.detach()
    expected = sum(filters[k].norm().item() for k in range(3))
    expected += sum(filters[:, k].norm().item() for k in range(2))
    expected += sum(reading[:, k].norm().item() for k in range(12))
    groups = GroupLasso(model, strength=1.0).groups
    lengths = [w.detach().transpose(0, dim).flatten(1).norm(dim=1).sum().item() * factor for w, dim, factor in groups]
    assert sum(lengths) == pytest.approx(expected, rel=1e-12)

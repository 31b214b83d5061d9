"""The equations of the chapter on foundations, each checked by a number that is computed another way."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats
from torch.distributions import MultivariateNormal, kl_divergence

from bnnlib import functional as bF
from bnnlib import metrics
from bnnlib.sampling import effective_sample_size
from chapters.foundations import enumeration, mean_field, regression
from chapters.foundations.example import example_data
from chapters.spike_slab.formulas import gumbel_softmax_gate

SEED = 5
DOUBLE = torch.float64
NOISE, PRIOR = 0.7, 1.3


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    return example_data(15, 0.8, torch.Generator().manual_seed(1))


def log_joint(theta, x, y, noise=NOISE, prior=PRIOR):
    """log likelihood + log prior in plain NumPy and SciPy, for one vector of weights."""
    likelihood = stats.norm.logpdf(np.asarray(y), np.asarray(x) @ theta, noise).sum()
    return likelihood + stats.norm.logpdf(theta, 0.0, prior).sum()


# equation: fnd-bayes, fnd-evidence
def test_the_evidence_is_the_integral_over_the_weights():
    x, y = example_data(4, 0.5, torch.Generator().manual_seed(2))
    x = x[:, :1]

    def joint(t: float) -> float:
        return math.exp(log_joint(np.array([t]), x, y))

    # a density of four values may be 1e-9: only the relative tolerance means anything
    total = integrate.quad(joint, -12, 12, points=[0], limit=200, epsabs=0.0, epsrel=1e-10)[0]
    found = regression.linear_log_evidence(x, y, NOISE, PRIOR)
    assert float(found) == pytest.approx(math.log(total), abs=1e-7)
    # and the posterior is the joint over it, at any weight
    exact = regression.linear_posterior(x, y, NOISE, PRIOR)
    for t in (-1.0, 0.3, 2.0):
        density = stats.norm.logpdf(t, exact.mean.item(), exact.scale.item())
        assert density == pytest.approx(log_joint(np.array([t]), x, y) - math.log(total), abs=1e-7)


# equation: fnd-energy
def test_weight_decay_is_a_normal_prior_over_n(data):
    x, y = data
    n = len(x)
    theta = torch.tensor([0.3, -0.2, 1.0], dtype=DOUBLE, requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=1.0, weight_decay=1 / (n * PRIOR**2))
    start = theta.detach().clone()
    (0.5 * ((y - x @ theta) / NOISE).square()).mean().backward()
    optimizer.step()
    at = start.numpy()
    slope = optimize.approx_fprime(at, lambda t: -log_joint(t, x, y) / n, 1e-7)
    # a forward difference of step 1e-7 in double precision is good to about 1e-7
    assert (start - theta.detach()).numpy() == pytest.approx(slope, abs=1e-5)


# equation: fnd-posterior
def test_the_posterior_is_where_the_energy_is_least_and_as_wide_as_it_is_curved(data):
    x, y = data
    exact = regression.linear_posterior(x, y, NOISE, PRIOR)
    best = optimize.minimize(lambda t: -log_joint(t, x, y), np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    assert exact.mean.numpy() == pytest.approx(best.x, abs=1e-5)
    curvature = torch.func.hessian(
        lambda t: 0.5 * ((y - x @ t) / NOISE).square().sum() + 0.5 * (t / PRIOR).square().sum()
    )(exact.mean)
    assert torch.allclose(torch.linalg.inv(curvature), exact.covariance, rtol=1e-10)


# equation: fnd-predictive, fnd-total-variance
def test_the_predictive_law_by_draws(data, generator):
    x, y = data
    exact = regression.linear_posterior(x, y, NOISE, PRIOR)
    new = torch.tensor([[1.0, -1.0, 0.5]], dtype=DOUBLE)
    band = regression.linear_predictive(exact, new, NOISE)
    count = 400_000
    factor = torch.linalg.cholesky(exact.covariance)
    theta = exact.mean + torch.randn(count, 3, generator=generator, dtype=DOUBLE) @ factor.T
    line = theta @ new[0]
    drawn = line + NOISE * torch.randn(count, generator=generator, dtype=DOUBLE)
    assert drawn.mean().item() == pytest.approx(band.mean.item(), abs=4 * band.scale.item() / count**0.5)
    # the variance of a normal sample has the relative error sqrt(2 / count); four of them
    assert drawn.var().item() == pytest.approx(band.scale.item() ** 2, rel=4 * (2 / count) ** 0.5)
    epistemic = regression.linear_predictive(exact, new).scale.item() ** 2
    assert line.var().item() == pytest.approx(epistemic, rel=4 * (2 / count) ** 0.5)
    assert NOISE**2 + epistemic == pytest.approx(band.scale.item() ** 2, rel=1e-12)


# equation: fnd-elbo
def test_the_gap_of_the_bound_is_a_divergence():
    """A posterior that is not normal, by quadrature: three labels of a logistic unit."""
    grid = np.linspace(-14, 16, 60_001)
    likelihood = -3 * np.logaddexp(0, -grid) - np.logaddexp(0, grid)
    prior = stats.norm.logpdf(grid, 0, 2)
    log_evidence = math.log(integrate.simpson(np.exp(likelihood + prior), x=grid))
    for mean, scale in ((0.8, 1.0), (-1.0, 0.5), (2.0, 1.6)):
        q = stats.norm.pdf(grid, mean, scale)
        log_q = stats.norm.logpdf(grid, mean, scale)
        price = bF.gaussian_kl(torch.tensor(mean), torch.tensor(scale), 2.0).item()
        omega = -integrate.simpson(q * likelihood, x=grid) + price
        gap = integrate.simpson(q * (log_q - (likelihood + prior - log_evidence)), x=grid)
        assert gap > 0 and omega == pytest.approx(gap - log_evidence, abs=1e-6)


# equation: fnd-elbo
def test_the_bound_of_spike_and_slab_stays_below_the_evidence_and_reaches_it(generator):
    x = regression.correlated_inputs((30, 3), 0.0, generator, orthogonal=True)
    y = 0.5 * x[:, 0] + torch.randn(30, generator=generator, dtype=DOUBLE)
    problem = enumeration.spike_slab_regression(x, y, inclusion=0.3)
    found, exact = mean_field.coordinate_ascent(problem), enumeration.enumerate_models(problem)
    assert found.objective.item() == pytest.approx(exact.log_evidence.item(), abs=1e-8)
    worse = mean_field.paired_elbo(problem, found.slab_mean + 0.1, found.slab_scale, torch.logit(found.inclusion))
    assert worse < exact.log_evidence


# equation: fnd-mean-field
def test_the_best_independent_normals_by_a_blind_search(data):
    x, y = data
    exact = regression.linear_posterior(x, y)
    target = MultivariateNormal(exact.mean, exact.covariance)

    def divergence(values):
        mean, log_scale = torch.from_numpy(values[:3]), torch.from_numpy(values[3:])
        return kl_divergence(MultivariateNormal(mean, torch.diag((2 * log_scale).exp())), target).item()

    best = optimize.minimize(divergence, np.zeros(6), method="BFGS", options={"gtol": 1e-8})
    found = regression.mean_field_gaussian(exact)
    assert best.x[:3] == pytest.approx(found.mean.numpy(), abs=1e-4)
    assert np.exp(best.x[3:]) == pytest.approx(found.scale.numpy(), rel=1e-4)
    precision = torch.linalg.inv(exact.covariance)
    formula = 0.5 * (precision.diagonal().log().sum() - torch.logdet(precision)).item()
    assert best.fun == pytest.approx(formula, abs=1e-7)
    assert (found.scale < exact.scale).all()


def gradient_problem(generator):
    x = torch.randn(6, 3, generator=generator, dtype=DOUBLE)
    y = torch.randn(6, generator=generator, dtype=DOUBLE)
    mean, scale = torch.tensor([0.5, -0.3, 0.1], dtype=DOUBLE), torch.tensor([0.3, 0.6, 0.2], dtype=DOUBLE)
    # E mean of (y - x theta)^2 / 2 has the gradients X'(X mu - y) / n and mean(x^2) sigma
    return x, y, mean, scale, x.T @ (x @ mean - y) / 6, x.square().mean(0) * scale


# equation: fnd-score, fnd-reparameterization
def test_both_estimators_have_the_gradient_as_their_mean(generator):
    x, y, mean, scale, in_mean, in_scale = gradient_problem(generator)
    count = 400_000
    xi = torch.randn(count, 3, generator=generator, dtype=DOUBLE)
    theta = mean + scale * xi
    error = theta @ x.T - y
    loss, slope = 0.5 * error.square().mean(1), error @ x / 6
    pairs = [(loss[:, None] * (theta - mean) / scale**2, in_mean), (slope, in_mean), (slope * xi, in_scale)]
    for draws, wanted in pairs:
        assert ((draws.mean(0) - wanted).abs() < 4 * draws.std(0) / count**0.5).all()
    assert (pairs[0][0].std(0) > pairs[1][0].std(0)).all()


# equation: fnd-local
def test_a_local_draw_has_the_law_of_the_layer(generator):
    x, y, mean, scale, in_mean, in_scale = gradient_problem(generator)
    count = 400_000
    width = (x.square() @ scale**2).sqrt()
    own = torch.randn(count, 6, generator=generator, dtype=DOUBLE)
    local = x @ mean + width * own
    shared = (mean + scale * torch.randn(count, 3, generator=generator, dtype=DOUBLE)) @ x.T
    for values in (local, shared):
        assert ((values.mean(0) - x @ mean).abs() < 4 * width / count**0.5).all()
        assert torch.allclose(values.var(0), width**2, rtol=4 * (2 / count) ** 0.5)
    error = local - y
    for draws, wanted in ((error @ x / 6, in_mean), ((error * own / width) @ (x.square() * scale) / 6, in_scale)):
        assert ((draws.mean(0) - wanted).abs() < 4 * draws.std(0) / count**0.5).all()


# equation: fnd-ess
@pytest.mark.parametrize("a", [0.0, 0.6])
def test_effective_draws_of_an_autoregression(a, generator):
    chains, steps = 40, 5_000
    x, draws = torch.randn(chains, generator=generator, dtype=DOUBLE), []
    for _ in range(steps):
        x = a * x + math.sqrt(1 - a**2) * torch.randn(chains, generator=generator, dtype=DOUBLE)
        draws.append(x)
    draws = torch.stack(draws, dim=1)
    formula = chains * steps / (1 + 2 * sum(a**k for k in range(1, 200)))
    assert formula == pytest.approx(chains * steps * (1 - a) / (1 + a), rel=1e-9)
    assert effective_sample_size(draws).item() == pytest.approx(formula, rel=0.05)  # an estimate from 200,000 draws
    # what the number means: the spread of the chains' means
    assert draws.mean(1).var().item() == pytest.approx(chains / formula, rel=4 * (2 / 39) ** 0.5)


@pytest.fixture
def problem(data):
    return enumeration.spike_slab_regression(*data, NOISE, inclusion=0.3, slab_scale=PRIOR)


# equation: fnd-model-evidence, fnd-model-posterior, fnd-inclusion
def test_evidences_of_models_make_their_probabilities_and_those_of_inputs(data, problem):
    x, y = (values.numpy() for values in data)
    found, weights = enumeration.enumerate_models(problem), {}
    for model in found.models:
        kept = x * model.numpy()
        law = stats.multivariate_normal(np.zeros(15), NOISE**2 * np.eye(15) + PRIOR**2 * kept @ kept.T)
        evidence = enumeration.model_log_evidence(problem, model[None]).item()
        assert evidence == pytest.approx(law.logpdf(y), abs=1e-9)
        key = tuple(model.int().tolist())
        weights[key] = math.exp(law.logpdf(y)) * math.prod(0.3 if one else 0.7 for one in key)
    assert set(weights) == set(itertools.product((0, 1), repeat=3))
    total = sum(weights.values())
    assert found.probabilities.tolist() == pytest.approx([weight / total for weight in weights.values()], rel=1e-8)
    by_hand = [sum(weight for model, weight in weights.items() if model[i]) / total for i in range(3)]
    assert found.inclusion.tolist() == pytest.approx(by_hand, rel=1e-8)


# equation: fnd-cavi
def test_coordinate_ascent_stands_where_each_formula_holds_and_the_bound_is_flat(problem):
    found = mean_field.coordinate_ascent(problem)
    g, c = problem.gram.numpy(), problem.cross.numpy()
    phi, mu = found.inclusion.numpy(), found.slab_mean.numpy()
    for j in range(3):
        variance = 1 / (g[j, j] + PRIOR**-2)
        left = c[j] - sum(g[j, k] * phi[k] * mu[k] for k in range(3) if k != j)
        assert mu[j] == pytest.approx(variance * left, abs=1e-7)
        odds = math.log(0.3 / 0.7) + math.log(math.sqrt(variance) / PRIOR) + mu[j] ** 2 / (2 * variance)
        assert phi[j] == pytest.approx(1 / (1 + math.exp(-odds)), abs=1e-7)
    values = [found.slab_mean, found.slab_scale, torch.logit(found.inclusion)]
    values = [value.clone().requires_grad_() for value in values]
    slopes = torch.autograd.grad(mean_field.paired_elbo(problem, *values), values)
    assert max(slope.abs().max().item() for slope in slopes) < 1e-6


# equation: fnd-relaxed
def test_the_relaxed_gate_ends_where_its_mean_gradient_is_zero():
    """By quadrature over the gate's noise, with the soft gate's slope from autograd."""
    problem, tau = mean_field.single_input(0.935), 0.5
    found = mean_field.relaxed_fixed_point(problem, tau)
    assert enumeration.enumerate_models(problem).inclusion.item() == pytest.approx(0.935, abs=1e-12)
    logit = torch.logit(found.inclusion).requires_grad_()
    uniform = (torch.arange(2_000_000, dtype=DOUBLE) + 0.5) / 2_000_000
    hard, soft = gumbel_softmax_gate(logit, bF.logistic_noise(uniform), tau)
    gram, cross = problem.gram.item(), problem.cross.item()
    mean, second = found.slab_mean.item(), (found.slab_mean**2 + found.slab_scale**2).item()
    # the loss given the gate is g^2 gram E[w^2] / 2 - g cross E[w], differentiated where the hard gate stands
    outer = (hard * gram * second - cross * mean).detach()
    (slope,) = torch.autograd.grad((outer * soft).mean(), logit)
    kl = bF.spike_slab_kl(found.slab_mean, found.slab_scale, logit, problem.inclusion, problem.slab_scale).sum()
    (pull,) = torch.autograd.grad(kl, logit)
    assert (slope + pull).item() == pytest.approx(0.0, abs=1e-4 * abs(pull.item()))
    assert found.inclusion.item() < 0.8


# equation: fnd-entropy
def test_the_entropy_of_the_average_falls_into_two_parts(generator):
    each = torch.randn(7, 5, 3, generator=generator, dtype=DOUBLE).softmax(-1)  # draws, rows, classes
    average = each.mean(0)
    information = (each * (each / average).log()).sum(-1).mean(0)
    alone = -(each * each.log()).sum(-1).mean(0)
    assert torch.allclose(metrics.predictive_entropy(average), alone + information, rtol=1e-12)


# equation: fnd-proper
@pytest.mark.parametrize("stated", [0.1, 0.5, 0.65, 0.99])
def test_what_the_proper_scores_lose(stated):
    p = 0.7

    def expected(score, said):
        rows = torch.tensor([[1 - said, said]], dtype=DOUBLE)
        return p * score(rows, torch.tensor([1])) + (1 - p) * score(rows, torch.tensor([0]))

    kl = p * math.log(p / stated) + (1 - p) * math.log((1 - p) / (1 - stated))
    assert expected(metrics.nll, stated) - expected(metrics.nll, p) == pytest.approx(kl, abs=1e-12)
    lost = expected(metrics.brier, stated) - expected(metrics.brier, p)
    assert lost == pytest.approx(2 * (stated - p) ** 2, abs=1e-12)


# equation: fnd-ece
@pytest.mark.parametrize("bins", [4, 10, 15])
def test_the_calibration_error_by_bins(bins, generator):
    probs = (2 * torch.randn(400, 5, generator=generator, dtype=DOUBLE)).softmax(1)
    labels = torch.multinomial(probs, 1, generator=generator).squeeze(1)
    probs[:3], labels[:3] = torch.tensor([0.75, 0.25, 0, 0, 0]), 1  # at the end of a bin
    stated, right = probs.max(1).values.numpy(), (probs.argmax(1) == labels).numpy()
    total = 0.0
    for low in range(bins):
        inside = (stated > low / bins) & (stated <= (low + 1) / bins)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - stated[inside].mean())
    assert metrics.ece(probs, labels, **({} if bins == 15 else {"num_bins": bins})) == pytest.approx(100 * total)

"""The equations of the chapter on the adaptive variational optimizer, each checked by a number computed another way."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

from bnnlib import functional as bF
from chapters.adaptive_optimizer import formulas, problems
from tests.seeded import double as t

SEED = 6
DOUBLE = torch.float64
NODES, MASS = (torch.tensor(v) for v in np.polynomial.hermite_e.hermegauss(90))
MASS = MASS / MASS.sum()


def log_p(w):
    """Six successes and two failures with the probability 1 / (1 + exp(-w)), and a bend that is not quadratic."""
    return 6 * torch.nn.functional.logsigmoid(w) + 2 * torch.nn.functional.logsigmoid(-w) - 0.1 * w**4


def elbo(mean, variance, delta):
    """By quadrature, with the divergence from torch.distributions."""
    expected = MASS @ log_p(mean + variance.sqrt() * NODES)
    q = torch.distributions.Normal(mean, variance.sqrt())
    prior = torch.distributions.Normal(torch.zeros((), dtype=DOUBLE), t(delta**-0.5))
    return expected - torch.distributions.kl_divergence(q, prior)


def difference(function, at, step=1e-4):
    return float(function(at + step) - function(at - step)) / (2 * step)


@pytest.fixture
def draws(generator):
    """mu, sigma^2, delta, and g with its noise at 400,000 draws of q."""
    mean, variance = (t(v) for v in (0.3, 0.2))
    noise = torch.randn(400_000, generator=generator, dtype=DOUBLE)
    w = (mean + variance.sqrt() * noise).requires_grad_()
    (gradient,) = torch.autograd.grad(-log_p(w).sum(), w)
    return mean, variance, 1.7, gradient, noise


# equation: avo-mean-gradient
def test_the_gradient_in_the_mean(draws):
    mean, variance, delta, g, _ = draws
    found = -g.mean() - delta * mean
    exact = difference(lambda m: elbo(m, variance, delta), mean)
    assert float(found) == pytest.approx(exact, abs=4 * float(g.std()) / len(g) ** 0.5)


# equation: avo-curvature, avo-variance-gradient
def test_the_gradient_in_the_variance_needs_the_curvature(draws):
    """Stein's estimate gives the slope that differences of the ELBO have; mean squares do not."""
    mean, variance, delta, g, noise = draws
    exact = difference(lambda v: elbo(mean, v, delta), variance)
    each = g * noise / variance.sqrt()
    curvature = formulas.expected_curvature(g, noise, variance.sqrt(), "stein")
    error = 0.5 * float(each.std()) / len(g) ** 0.5
    assert float(formulas.elbo_variance_gradient(curvature, variance, delta)) == pytest.approx(exact, abs=4 * error)
    squares = formulas.expected_curvature(g)
    assert float(squares) == pytest.approx(float((g * g).sum()) / len(g), rel=1e-12)
    assert abs(float(formulas.elbo_variance_gradient(squares, variance, delta)) - exact) > 50 * error


# equation: avo-hessian
def test_the_hessian_of_the_elbo_is_negative(draws):
    mean, variance, delta, g, noise = draws
    exact = difference(lambda m: difference(lambda n: elbo(n, variance, delta), m), mean, 1e-3)
    each = g * noise / variance.sqrt()
    found = float(formulas.elbo_mean_hessian(each.mean(), delta))
    # differences of differences: a thousandth
    assert found == pytest.approx(exact, abs=4 * float(each.std()) / len(g) ** 0.5 + 2e-3)
    assert found < 0


# equation: avo-squared
def test_what_the_square_of_a_batch_gradient_estimates(generator):
    x = torch.randn(2_000, generator=generator, dtype=DOUBLE)
    y = 0.7 * x + torch.randn(2_000, generator=generator, dtype=DOUBLE)
    for weight, batch in ((0.7, 1), (0.7, 20), (1.9, 20)):
        each = (weight * x - y) * x
        picked = each[torch.randint(2_000, (50_000, batch), generator=generator)].mean(dim=1).square()
        exact = float(each.mean() ** 2 + each.var(correction=0) / batch)
        assert float(picked.mean()) == pytest.approx(exact, abs=4 * float(picked.std()) / 50_000**0.5)
    at_truth = (0.7 * x - y) * x
    # Fisher's identity; 2,000 products of normals have a variance of 8 or so
    assert float(at_truth.var()) == pytest.approx(float(x.square().mean()), abs=4 * (8 / 2_000) ** 0.5)


# equation: avo-mean-step
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_the_step_minimizes_its_proximal_objective(alpha):
    mean, variance, gradient, lr = 0.4, 0.09, 1.3, 0.2
    found = optimize.minimize_scalar(
        lambda m: gradient * m + (m - mean) ** 2 / (2 * lr) * variance**-alpha, bracket=(-1, 1), tol=1e-10
    ).x
    step = formulas.mean_step(*(t(v) for v in (mean, variance, gradient)), lr, alpha)
    assert float(step) == pytest.approx(found, abs=1e-6)


# equation: avo-precision-step
def test_the_precision_settles_at_its_fixed_point():
    precision = t(5.0)
    first = float(formulas.precision_step(precision, t(2.0), 30.0, 100, 0.1, 0.5))
    assert first == pytest.approx(0.95 * 5.0 + 0.1 * 2.3)
    for _ in range(800):
        precision = formulas.precision_step(precision, t(2.0), 30.0, 100, 0.1, 0.5)
    assert float(precision) == pytest.approx(2.3 / 0.5, rel=1e-9)


# equation: avo-positive-precision
def test_the_corrected_precision_stays_positive_and_settles(generator):
    start = t(2.0)
    assert min(float(bF.positive_precision_step(start, t(c), 1.0, 10, 0.3)) for c in np.linspace(-60, 60, 241)) >= 1.0
    r = (3.0 + 0.1) / 2.0 - 1
    one = bF.positive_precision_step(start, t(3.0), 1.0, 10, 0.3)
    assert float(one) == pytest.approx(2.0 * (1 + 0.3 * r + 0.5 * (0.3 * r) ** 2), rel=1e-12)
    for _ in range(400):
        start = bF.positive_precision_step(start, t(3.0), 1.0, 10, 0.3)
    assert float(start) == pytest.approx(3.1, rel=1e-9)


@pytest.mark.parametrize("steps", [3, 4, 10, 60])
def test_early_step_sizes_by_quadrature(steps):
    law = stats.chi2(steps)
    # from u = sqrt(chi2), whose density makes the integrals smooth at 0
    mean, square = (
        integrate.quad(lambda u, k=k: (steps**0.5 / u) ** k * law.pdf(u * u) * 2 * u, 0, np.inf)[0] for k in (1, 2)
    )
    assert float(formulas.early_variance(steps)) == pytest.approx(square - mean**2, rel=1e-6)
    assert np.isinf(formulas.early_variance(np.array([1, 2]))).all()  # no variance at first


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_signal_over_noise_of_a_draw(alpha, generator):
    sigma, m, lr = 0.3, 2.0, 0.05
    old, new = torch.randn(2, 400_000, generator=generator, dtype=DOUBLE)
    moved = formulas.mean_step(torch.zeros(()), t(sigma**2), torch.tensor(m), lr, alpha)
    moved = moved + sigma * (new - old)
    found = float(moved.mean().abs() / moved.std())
    exact = formulas.signal_to_noise(lr, m, sigma, alpha)
    assert found == pytest.approx(exact, abs=4 / 400_000**0.5)


# equation: avo-scale, avo-noise, avo-momentum-step
def test_the_momentum_form_moves_like_differences_of_draws(generator):
    """w_t - w_(t-1) = -tau l m + sqrt(2) sigma eps with m's own recursion, in the variance of the injected noise."""
    lr, beta, T, tau = 0.04, 0.3, 0.2, 0.7
    sigma = float(formulas.posterior_scale(t(tau), lr, T))
    assert sigma == pytest.approx(0.7 * 0.2 * 0.04**0.75)
    epsilon = torch.randn(200_000, generator=generator, dtype=DOUBLE)
    steps = 2**0.5 * sigma / tau * epsilon  # of M, without a gradient
    injected = steps[1:] - beta * steps[:-1]
    assert float(injected.std()) == pytest.approx(bF.injected_scale(lr, beta, T), rel=0.01)
    zero, one = torch.zeros((), dtype=DOUBLE), torch.ones((), dtype=DOUBLE)
    still = formulas.momentum_step(2 * one, 3 * one, 4 * one, zero, lr, beta, 0.5, T)
    assert float(still) == pytest.approx(0.3 * 2 - 0.04 * (3 + 0.5 * 4))
    moved = formulas.momentum_step(zero, zero, zero, one, lr, beta, 0.5, T)
    assert float(moved) == pytest.approx(bF.injected_scale(lr, beta, T), rel=1e-12)


# equation: avo-temperature
def test_the_chain_has_the_temperature_of_the_formula():
    """Its stationary variance solves a linear system; small steps, where it is T' over the curvature of N F."""
    lr, beta, T, tau, h, N = 1e-5, 0.4, 0.3, 0.6, 2.0, 200
    eye = torch.eye(3, dtype=DOUBLE)
    w, M, noise = eye  # one step on unit vectors gives its matrix
    M_new = formulas.momentum_step(M, h * w, w, noise, lr, beta, 0.0, T)
    after = torch.stack([w + tau * M_new, M_new])
    A, b = after[:, :2], after[:, 2:]
    system = torch.eye(4, dtype=DOUBLE) - torch.kron(A, A)
    variance = torch.linalg.solve(system, (b @ b.T).flatten())[0]
    exact = N * T**2 * tau * lr**0.5 * (1 + beta**2) / (1 - beta) / (N * h)
    assert float(variance) == pytest.approx(exact, rel=1e-4)


# equation: avo-scale-gradient
def test_the_scale_follows_its_objective():
    """Differences of E[F(w) + wd w^2 / 2] - log(tau) / N by quadrature, for a loss that is not quadratic."""
    lr, T, wd, N, mean = 0.5, 0.4, 0.05, 50, 0.3

    def objective(tau):
        w = mean + tau * T * lr**0.75 * NODES
        return MASS @ (-log_p(w) / N + 0.5 * wd * w**2) - torch.log(torch.as_tensor(tau)) / N

    tau = t(0.6)
    w = (mean + tau * T * lr**0.75 * NODES).requires_grad_()
    (g,) = torch.autograd.grad(-log_p(w).sum() / N, w)
    w = w.detach()
    found = MASS @ formulas.scale_gradient(tau, g, NODES, lr, T, wd, N)
    assert float(found) == pytest.approx(difference(objective, tau), abs=1e-7)


# equation: avo-mirror-step
def test_mirror_descent_minimizes_its_bregman_objective():
    """<G, tau> + D(tau, old) / eta with the divergence of the binary entropy, minimized by brute force."""
    old, slope, rate = 0.3, 1.7, 0.8

    def divergence(new):
        return new * math.log(new / old) + (1 - new) * math.log((1 - new) / (1 - old))

    best = optimize.minimize_scalar(
        lambda t: slope * t + divergence(t) / rate, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-10}
    ).x
    rho = torch.logit(t(old))
    found = formulas.scale_step(rho, t(slope), rate)[1]
    assert float(found) == pytest.approx(best, abs=1e-6)
    for large in (1e4, -1e4):
        assert 0 <= float(formulas.scale_step(rho, t(large), 1.0)[1]) <= 1


# equation: avo-fixed-scale
@pytest.mark.parametrize("chain", [False, True])
def test_the_scale_rests_at_its_fixed_point(chain, generator):
    h, N, wd, beta, T, count = 2.0, 100, 0.3, 0.2, 0.1, 4_000
    tau, w, M, old = torch.full((), 0.6, dtype=DOUBLE), *torch.zeros(3, count, dtype=DOUBLE)
    rho = torch.logit(tau)
    kappa = math.sqrt(2 + 2 * beta**2) if chain else 1.0
    for step in range(1_500):  # one scale for all draws, so that its gradient is a mean
        at = w if chain else tau * T * old
        slope = formulas.scale_gradient(tau, h * at, old, 1.0, T, wd, N).mean()
        rho, tau = formulas.scale_step(rho, slope, 20.0 if step < 1_000 else 2.0)
        old = torch.randn(count, generator=generator, dtype=DOUBLE)
        M = formulas.momentum_step(M, h * w, w, old, 1.0, beta, wd, T)
        w = w + tau * M
    exact = formulas.learned_scale(h, N, wd, kappa)
    assert float(formulas.posterior_scale(tau, 1.0, T)) == pytest.approx(exact, rel=0.02)


def densities(weights, spike, slab, N):
    """Log densities of a group under spike and slab."""
    return [float(torch.distributions.Normal(0.0, (N * d) ** -0.5).log_prob(weights).sum()) for d in (spike, slab)]


# equation: avo-group-mean-square, avo-slab-odds, avo-slab-probability
def test_the_coin_given_the_group(generator):
    weights = 0.1 * torch.randn(3, 7, generator=generator, dtype=DOUBLE)
    square = bF.group_mean_square(weights, "input")
    for j in range(7):
        assert float(square[0, j]) == pytest.approx(sum(float(v) ** 2 for v in weights[:, j]) / 3)
        low, high = densities(weights[:, j], 0.8, 1e-3, 200)
        odds = bF.group_slab_log_odds(square[0, j], 0.8, 1e-3, 200, 3, 0.3)
        assert float(odds) == pytest.approx(math.log(0.3 / 0.7) + high - low, abs=1e-6)
        inside = 0.3 * math.exp(high) / (0.3 * math.exp(high) + 0.7 * math.exp(low))
        assert float(bF.group_slab_probability(square[0, j], 0.8, 1e-3, 200, 3, 0.3)) == pytest.approx(inside, rel=1e-6)


# equation: avo-threshold
@pytest.mark.parametrize("size", [1, 5])
def test_at_the_threshold_the_densities_are_equal(size):
    cut = bF.group_threshold(1e-2, 2e-4, 10_240, size)
    low, high = densities(torch.full((size,), cut**0.5, dtype=DOUBLE), 1e-2, 2e-4, 10_240)
    assert low == pytest.approx(high, rel=1e-6)
    assert cut == pytest.approx(0.03898, abs=1e-5)  # by hand: log 50 / 100.352
    # with another prior the odds are even there, and a slab that is certain enough takes every group
    square = t(bF.group_threshold(1e-2, 2e-4, 1000, size, 0.02))
    assert abs(float(bF.group_slab_log_odds(square, 1e-2, 2e-4, 1000, size, 0.02))) < 1e-9
    assert bF.group_threshold(1e-2, 2e-4, 1000, size, 1 - 1e-9) == 0.0


# equation: avo-range
def test_the_range_of_a_channel(generator):
    weight = torch.randn(4, 3, 2, 2, generator=generator, dtype=DOUBLE)
    by_input, by_output = bF.group_range(weight, "input"), bF.group_range(weight, "output")
    for j in range(3):
        values = weight[:, j].flatten().tolist()
        assert float(by_input.flatten()[j]) == pytest.approx(max(values) - min(values))
    for i in range(4):
        values = weight[i].flatten().tolist()
        assert float(by_output.flatten()[i]) == pytest.approx(max(values) - min(values))


# equation: avo-design
def test_inputs_have_the_correlation_one_half(generator):
    x = problems.design(40_000, 4, generator).double()
    moments = x.T @ x / len(x)
    # the variance of a product of two such normals is at most 2
    assert (moments - 0.5 * (torch.ones(4, 4) + torch.eye(4))).abs().max() < 4 * (2 / 40_000) ** 0.5


# equation: avo-example-1, avo-example-2, avo-example-3
def test_the_functions_worked_out_in_plain_python(generator):
    for row in torch.randn(5, 6, generator=generator, dtype=DOUBLE):
        x1, x2, x3, x4, x5, _ = row.tolist()
        first = math.tanh(2 * math.tanh(2 * x1 - x2)) + 2 * math.tanh(math.tanh(x3 - 2 * x4)) - math.tanh(2 * x5)
        second = 5 * x2 / (1 + x1**2) + 5 * math.sin(x3 * x4) + 2 * x5
        third = math.exp(x1) + x2**2 + 5 * math.sin(x3 * x4) - 3
        found = (problems.tanh_network, problems.smooth_function, problems.margin)
        assert [float(f(row)) for f in found] == pytest.approx([first, second, third], rel=1e-12)


# equation: avo-cyclic
def test_the_learning_rate_of_the_code():
    """Written out as the code has it: batches are len / size + 1."""
    for epoch, batch in ((0, 0), (0, 9), (499, 3), (500, 0), (2_999, 9)):
        r, total = (epoch + 1) * 11 + batch, 3_000 * 11
        code = 0.5 * 0.01 * (1 + math.cos(math.pi * (r % (total // 6)) / (total // 6)))
        assert problems.cyclic_lr(0.01, epoch, batch, 3_000, 10) == pytest.approx(code, rel=1e-12)

"""The adaptive variational optimizer's equations against quadrature, autograd, closed forms and minimization."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize

from bnnlib import functional as bF

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
NODES, WEIGHTS = torch.tensor(NODES), torch.tensor(WEIGHTS / WEIGHTS.sum())
DELTA = 0.7


def nll(w):
    """-log p(D | w) of a model with one weight, neither quadratic nor convex."""
    return 3.0 * torch.log(torch.cosh(w - 1.0)) + torch.sin(2.0 * w)


def derivative(w, order: int):
    w = w.detach().clone().requires_grad_()
    value = nll(w)
    for _ in range(order):
        (value,) = torch.autograd.grad(value.sum(), w, create_graph=True)
    return value.detach()


def elbo(mean, variance):
    """Exact: Gauss-Hermite quadrature of the likelihood, closed form of the divergence."""
    w = mean + variance.sqrt() * NODES
    kl = 0.5 * (DELTA * (mean.square() + variance) - 1.0 - torch.log(DELTA * variance))
    return -(WEIGHTS * nll(w)).sum() - kl


MEAN, VARIANCE = torch.tensor(0.4, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)


def weighted(values):
    """Quadrature nodes as S "draws" whose plain mean is the expectation."""
    return len(NODES) * WEIGHTS * values


def test_gradients_of_the_elbo_are_those_of_quadrature():
    mean, variance = MEAN.clone().requires_grad_(), VARIANCE.clone().requires_grad_()
    in_mean, in_variance = torch.autograd.grad(elbo(mean, variance), (mean, variance))
    gradients = derivative(MEAN + VARIANCE.sqrt() * NODES, 1)
    torch.testing.assert_close(-weighted(gradients).mean() - DELTA * MEAN, in_mean)
    curvature = bF.expected_curvature(weighted(gradients), NODES, VARIANCE.sqrt(), "stein")
    # Stein's identity holds to the quadrature's accuracy
    torch.testing.assert_close(bF.elbo_variance_gradient(curvature, VARIANCE, DELTA), in_variance, rtol=1e-8, atol=1e-8)


def test_the_hessian_in_the_mean_has_a_minus_sign():
    mean = MEAN.clone().requires_grad_()
    (first,) = torch.autograd.grad(elbo(mean, VARIANCE), mean, create_graph=True)
    (second,) = torch.autograd.grad(first, mean)
    exact = (WEIGHTS * derivative(MEAN + VARIANCE.sqrt() * NODES, 2)).sum()
    torch.testing.assert_close(bF.elbo_mean_hessian(exact, DELTA), second, rtol=1e-8, atol=1e-8)
    assert bF.elbo_mean_hessian(torch.tensor(2.0), 1.0) == -3.0


def test_the_squared_estimator_is_the_fisher_information_and_not_the_curvature():
    gradients = torch.tensor([[1.0, -2.0], [3.0, 0.0]])
    assert bF.expected_curvature(gradients).tolist() == [5.0, 2.0]
    # one observation y ~ N(w, 1): g = w - y, whose mean square at w is 1, the curvature, only in the mean over y
    y = torch.randn(200_000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    # three standard errors of the mean of chi-square draws
    assert bF.expected_curvature(-y).item() == pytest.approx(1.0, abs=3 * math.sqrt(2 / 200_000))


def test_stein_needs_its_noise():
    with pytest.raises(ValueError, match="noise and scale"):
        bF.expected_curvature(torch.ones(2, 3), estimator="stein")
    with pytest.raises(ValueError, match="estimator is 'hutchinson'"):
        bF.expected_curvature(torch.ones(2, 3), estimator="hutchinson")


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_the_mean_step_minimizes_the_proximal_objective(alpha):
    mean, variance, gradient, lr = 0.3, 0.2, -1.7, 0.05

    def objective(new):
        return gradient * new + (new - mean) ** 2 / (2 * lr * variance**alpha)

    found = optimize.minimize_scalar(objective, tol=1e-12).x
    given = (torch.tensor(v, dtype=torch.float64) for v in (mean, variance, gradient))
    # the minimizer of a parabola is found to the root of the rounding
    assert bF.mean_step(*given, lr, alpha).item() == pytest.approx(found, abs=1e-7)


@pytest.mark.parametrize("alpha", [0.0, 0.75, 2.0, math.nan])
def test_alpha_outside_the_family_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha is"):
        bF.mean_step(torch.zeros(1), torch.ones(1), torch.ones(1), 0.1, alpha)


@pytest.mark.parametrize(("forgetting", "num_data"), [(1.0, 50), (1 / 50, 50)])
def test_the_precision_converges_to_the_curvature_and_the_prior(forgetting, num_data):
    precision, curvature = torch.tensor([9.0, 0.01], dtype=torch.float64), torch.tensor([0.5, 3.0], dtype=torch.float64)
    for _ in range(20_000):
        precision = bF.precision_step(precision, curvature, 2.0, num_data, 0.5, forgetting)
    torch.testing.assert_close(precision, (curvature + 2.0 / num_data) / forgetting)
    if forgetting < 1.0:  # lambda = 1 / N: the posterior's precision
        torch.testing.assert_close(precision, num_data * curvature + 2.0)


def test_the_positive_precision_step_is_the_other_to_first_order_and_stays_positive():
    precision = torch.linspace(0.1, 3.0, 30, dtype=torch.float64)
    for rate in (1e-3, 1e-4):
        curvature = torch.linspace(-2.0, 2.0, 30, dtype=torch.float64)
        gap = bF.positive_precision_step(precision, curvature, 1.0, 100, rate)
        gap = gap - bF.precision_step(precision, curvature, 1.0, 100, rate)
        assert gap.abs().max() <= 0.5 * rate**2 * (2.0 + 3.0) ** 2 / 0.1
    wild = bF.positive_precision_step(precision, torch.full_like(precision, -100.0), 0.0, 100, 0.9)
    assert (wild >= 0.5 * precision).all()
    torch.testing.assert_close(bF.positive_precision_step(precision, precision - 0.01, 1.0, 100, 0.9), precision)


def test_the_gradient_of_the_scale_is_that_of_its_objective():
    """(avo-scale-gradient) in expectation: quadrature over the noise of E[loss + wd w^2 / 2] - log(tau) / N."""
    lr, temperature, decay, num_data = 0.3, 0.8, 0.4, 20.0
    tau = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    spread = temperature * lr**0.75
    w = MEAN + tau * spread * NODES
    objective = (WEIGHTS * (nll(w) + 0.5 * decay * w.square())).sum() - torch.log(tau) / num_data
    (exact,) = torch.autograd.grad(objective, tau)
    t = tau.detach()
    drawn = bF.scale_gradient(t, derivative(MEAN + t * spread * NODES, 1), NODES, lr, temperature, decay, num_data)
    torch.testing.assert_close((WEIGHTS * drawn).sum(), exact, rtol=1e-8, atol=1e-8)


def test_mirror_descent_moves_the_dual_variable_and_keeps_tau_inside():
    dual = torch.tensor([-800.0, 0.0, 3.0], dtype=torch.float64)
    new, tau = bF.scale_step(dual, torch.tensor([1.0, -2.0, 4.0], dtype=torch.float64), 0.5)
    assert new.tolist() == [-800.5, 1.0, 1.0]
    assert tau[1].item() == pytest.approx(1 / (1 + math.exp(-1)))
    assert ((tau >= 0) & (tau <= 1)).all()
    # it is the minimizer of eta <g, tau> + the Bregman divergence of the negative binary entropy
    t0 = 0.3
    found = optimize.minimize_scalar(
        lambda t: 0.5 * 1.2 * t + t * math.log(t / t0) + (1 - t) * math.log((1 - t) / (1 - t0)),
        bounds=(1e-9, 1 - 1e-9),
        method="bounded",
        options={"xatol": 1e-12},
    ).x
    _, tau = bF.scale_step(torch.tensor(math.log(t0 / (1 - t0)), dtype=torch.float64), torch.tensor(1.2), 0.5)
    assert tau.item() == pytest.approx(found, abs=1e-6)


def test_the_momentum_step_by_hand():
    m, g, w, n = (torch.tensor(v, dtype=torch.float64) for v in (2.0, 3.0, 5.0, -1.0))
    found = bF.momentum_step(m, g, w, n, lr=0.16, decay=0.1, weight_decay=0.01, temperature=0.5)
    # C = 0.4, C^1.5 = 0.16^0.75
    wanted = 0.1 * 2 - 0.16 * (3 + 0.05) - math.sqrt(2.02) * 0.16**0.75 * 0.5
    assert found.item() == pytest.approx(wanted)


def test_the_injected_noise_is_that_of_fresh_draws_around_a_moving_mean():
    """w_t = mu_t + sigma eps_t with a fresh eps_t each time: the noise of w_t - w_(t-1), less beta times the last.

    The variance is what the code injects; the code's noises are independent, those of w_t would not be.
    """
    beta, tau, lr, temperature = 0.3, torch.tensor(0.7, dtype=torch.float64), 0.2, 0.9
    eps = torch.randn(400_002, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sigma = bF.posterior_scale(tau, lr, temperature)
    difference = sigma * eps.diff()
    # three standard errors of independent sums: every second difference is drawn anew
    own = difference[::2].var()
    assert own.item() == pytest.approx(2 * sigma.item() ** 2, rel=3 * math.sqrt(2 / 200_000))
    independent = sigma * torch.randn(200_000, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    injected = math.sqrt(2) * (independent[:, 0] + beta * independent[:, 1])
    wanted = (tau * bF.injected_scale(lr, beta, temperature)).square().item()
    assert injected.var().item() == pytest.approx(wanted, rel=3 * math.sqrt(2 / 200_000))

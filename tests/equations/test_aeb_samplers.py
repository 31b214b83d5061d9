"""The equations of the samplers and of the stochastic approximation in the chapter on learned priors."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, linalg, stats

from bnnlib import functional as bF
from bnnlib.functional.sgmcmc import euler_noise_scale
from bnnlib.pruning import smooth_sparsity
from bnnlib.sampling import SGHMC, SGLD, SpikeSlabGaussianLaplacePrior, polynomial, split_r_hat
from chapters.learned_priors import formulas
from chapters.learned_priors.formulas import annealed, constant
from chapters.shared.attacks import fgsm

SEED = 7
CHAINS = 20_000
# Five standard errors of a variance estimated from CHAINS independent draws, relative to it.
NOISE = 5.0 * math.sqrt(2.0 / CHAINS)


def chain_variance(make, curvature, start, steps, generator, gradient_noise=0.0):
    """Variance of stacked chains on the energy curvature * beta^2 / 2 after some steps from a normal start."""
    noise = torch.randn(CHAINS, generator=generator, dtype=torch.float64)
    beta = torch.nn.Parameter(math.sqrt(start) * noise)
    sampler = make([beta])
    for _ in range(steps):
        beta.grad = curvature * beta.detach()
        if gradient_noise:
            beta.grad += math.sqrt(gradient_noise) * torch.randn(CHAINS, generator=generator, dtype=torch.float64)
        sampler.step()
    return float(beta.detach().var())


def matrix(step, *arguments):
    """(A, b) of one step as a linear map of position, velocity and noise on the energy curvature * beta^2 / 2."""
    curvature, *rest = arguments
    position, velocity, noise = torch.eye(3, dtype=torch.float64)
    after = torch.stack(step(position, velocity, curvature * position, noise, *rest)).numpy()
    return after[:, :2], after[:, 2:]


# equation: aeb-sgld, fnd-sgld, fnd-step
def test_sgld_keeps_the_variance_that_balances_contraction_and_noise(generator):
    curvature, lr, temperature = 2.0, 0.3, 1.7
    expected = temperature / curvature / (1 - lr * curvature / 2)

    def make(parameters):
        return SGLD(parameters, lr, temperature, generator=generator)

    # started there it stays, started elsewhere it arrives: (1 - 0.6)^2 a step
    assert chain_variance(make, curvature, expected, 3, generator) == pytest.approx(expected, rel=NOISE)
    assert chain_variance(make, curvature, 5.0, 40, generator) == pytest.approx(expected, rel=NOISE)
    # the gradient's noise of variance V adds lr^2 V to each step
    noisy = (2 * lr * temperature + lr**2 * 4.0) / (1 - (1 - lr * curvature) ** 2)
    assert chain_variance(make, curvature, noisy, 30, generator, 4.0) == pytest.approx(noisy, rel=NOISE)


# equation: aeb-sghmc-sde
@pytest.mark.parametrize("scheme", ["euler", "baoab"])
def test_both_discretizations_follow_the_stochastic_differential_equation(scheme):
    curvature, friction, temperature, duration, steps = 1.5, 0.8, 0.6, 1.0, 4_000
    h = duration / steps
    drift = np.array([[0.0, 1.0], [-curvature, -friction]])
    diffusion = np.diag([0.0, 2 * friction * temperature])

    def spread(time):
        flow = linalg.expm(drift * time)
        return flow @ diffusion @ flow.T

    covariance = integrate.quad_vec(spread, 0, duration)[0]
    if scheme == "euler":
        a, b = matrix(formulas.sghmc_euler_step, curvature, h**2, 1 - friction * h, temperature)
    else:
        momentum = math.exp(-friction * h)
        a, b = matrix(formulas.sghmc_baoab_step, curvature, h**2 * (1 + momentum) / 2, momentum, temperature)
    scale = np.diag([1.0, h])  # v = h r
    a, b = np.linalg.inv(scale) @ a @ scale, np.linalg.inv(scale) @ b
    total, power = np.zeros((2, 2)), np.eye(2)
    for _ in range(steps):
        total, power = a @ total @ a.T + b @ b.T, a @ power
    # errors are of the order of the step h = 2.5e-4
    assert np.allclose(power, linalg.expm(drift * duration), atol=2e-3)
    assert np.allclose(total, covariance, atol=2e-3)


# equation: aeb-sghmc-euler
def test_euler_s_variance_and_its_correction_for_noisy_gradients(generator):
    curvature, lr, momentum, temperature = 1.5, 0.6, 0.5, 0.8
    a, b = matrix(formulas.sghmc_euler_step, curvature, lr, momentum, temperature)
    expected = temperature / curvature / (1 - lr * curvature / (2 * (1 + momentum)))
    assert linalg.solve_discrete_lyapunov(a, b @ b.T)[0, 0] == pytest.approx(expected, rel=1e-9)

    def make(variance):
        options = {"scheme": "euler", "gradient_variance": variance, "generator": generator}
        return lambda parameters: SGHMC(parameters, lr, momentum, temperature, **options)

    assert chain_variance(make(0.0), curvature, expected, 60, generator) == pytest.approx(expected, rel=NOISE)
    # the estimate V takes out exactly what the gradient's noise brings in
    variance = chain_variance(make(1.0), curvature, 1.0, 60, generator, 1.0)
    assert variance == pytest.approx(expected, rel=NOISE)
    # no noise is added at more of it in the gradient than friction, or at temperature 0
    assert euler_noise_scale(0.01, 0.9, 1.0, 1e9) == euler_noise_scale(0.01, 0.9, 0.0, 4.0) == 0.0


# equation: aeb-baoab
@pytest.mark.parametrize(("lr", "momentum"), [(0.1, 0.9), (1.0, 0.5), (2.0, 0.9)])
def test_baoab_is_exact_on_quadratic_energies_and_the_splitting_it_is_named_after(lr, momentum):
    curvature, temperature = 1.5, 0.8
    a, b = matrix(formulas.sghmc_baoab_step, curvature, lr, momentum, temperature)
    assert linalg.solve_discrete_lyapunov(a, b @ b.T)[0, 0] == pytest.approx(temperature / curvature, rel=1e-9)
    # kick, half a drift, refreshment, half a drift with velocities r = v / h
    h = math.sqrt(2 * lr / (1 + momentum))
    kick = np.array([[1.0, 0.0], [-h * curvature, 1.0]])
    drift = np.array([[1.0, h / 2], [0.0, 1.0]])
    refresh = np.diag([1.0, momentum])
    noise = drift @ np.array([[0.0], [math.sqrt((1 - momentum**2) * temperature)]])
    scale = np.diag([1.0, h])
    assert np.allclose(scale @ drift @ refresh @ drift @ kick @ np.linalg.inv(scale), a, rtol=1e-12)
    assert np.allclose(scale @ noise, b, rtol=1e-12)


# equation: aeb-temperature
def test_a_temperature_scales_the_variance_and_annealing_divides_it(generator):
    def make(parameters):
        return SGHMC(parameters, 0.5, 0.5, 2.5, generator=generator)

    assert chain_variance(make, 1.0, 1.0, 60, generator) == pytest.approx(2.5, rel=NOISE)
    schedule, value = annealed(2.0, 1.003), 2.0
    for k in range(1, 50):
        value /= 1.003
        assert schedule(k) == pytest.approx(value, rel=1e-12)
    assert annealed(1.0, 2.0)(10**6) == 0.0 and annealed(0.5, 1.0)(7) == 0.5  # and not an overflow
    assert constant(0.3)(1) == constant(0.3)(10**6) == 0.3


# equation: aeb-cyclical
def test_the_cyclical_step_falls_along_half_a_cosine_and_starts_again():
    steps = [formulas.cyclical(k, 0.4, 103, 4) for k in range(1, 104)]  # cycles of ceil(103 / 4) = 26 steps
    expected = [0.2 * (1 + math.cos(math.pi * (k % 26) / 26)) for k in range(103)]
    assert steps == pytest.approx(expected, rel=1e-12)
    assert steps[0] == steps[26] == 0.4 and steps[25] < 0.002


# equation: aeb-rhat, fnd-rhat
def test_split_r_hat_compares_the_means_of_half_chains_with_their_variances(generator):
    draws = torch.randn(3, 400, generator=generator, dtype=torch.float64)
    draws[2] += 1.5
    halves = draws.numpy().reshape(6, 200)
    within, between = halves.var(axis=1, ddof=1).mean(), 200 * halves.mean(axis=1).var(ddof=1)
    expected = math.sqrt(199 / 200 + between / (200 * within))
    assert float(split_r_hat(draws)) == pytest.approx(expected, rel=1e-9)
    assert expected > 1.1 > 1.02 > float(split_r_hat(draws[:2]))


# equation: aeb-sa
def test_a_step_of_the_stochastic_approximation_moves_every_latent_variable_by_w(generator):
    w, start = 0.3, torch.randn(6, generator=generator, dtype=torch.float64)
    settings = {"spike_scale": 0.2, "slab_variance": 3.0, "sigma": 0.9, "inclusion": 0.4, "rho": 0.7}
    settings |= {"kappa": (1.0, 2.0), "a": 1.5, "b": 4.0, "nu": 2.0, "lam": 0.7, "step_size": w}
    settings |= {"likelihood": "regression", "num_data": 25}
    prior = SpikeSlabGaussianLaplacePrior({"beta": torch.nn.Parameter(start)}, **settings)
    prior.update(squared_error=11.0)
    gaussian = 0.4 * stats.norm.pdf(start, scale=0.9 * math.sqrt(3.0))
    laplace = 0.6 * stats.laplace.pdf(start, scale=0.9 * 0.2)
    rho = 0.7 + w * (gaussian / (gaussian + laplace) - 0.7)
    kappa0, kappa1 = 1.0 + w * ((1 - rho) / 0.2 - 1.0), 2.0 + w * (rho / 3.0 - 2.0)
    absolute = start.abs().numpy()
    roots = np.roots([25 + 6 + 2, -(kappa0 * absolute).sum(), -(11.0 + (kappa1 * absolute**2).sum() + 2 * 0.7)])
    delta = (rho.sum() + 1.5 - 1) / (1.5 + 4.0 + 6 - 2)
    assert np.allclose(prior.rho["beta"], rho, rtol=1e-12)
    assert np.allclose(prior.kappa0["beta"], kappa0, rtol=1e-12)
    assert np.allclose(prior.kappa1["beta"], kappa1, rtol=1e-12)
    assert prior.sigma.item() == pytest.approx(0.9 + w * (roots.max() - 0.9), rel=1e-12)
    assert prior.inclusion["beta"].item() == pytest.approx(0.4 + w * (delta - 0.4), rel=1e-12)


# equation: aeb-step-sizes
@pytest.mark.parametrize(("scale", "offset", "exponent"), [(10.0, 1000.0, 0.7), (1.0, 1000.0, 0.75), (1.0, 10.0, 1.0)])
def test_the_step_sizes_have_an_infinite_sum_and_a_finite_sum_of_squares(scale, offset, exponent):
    schedule = polynomial(scale, offset, exponent)
    assert [schedule(k) for k in (1, 5_000)] == pytest.approx([scale / (offset + k) ** exponent for k in (1, 5_000)])
    assert polynomial(1000, 100, exponent)(1) == 1.0  # weights of an average end at 1
    assert polynomial(1000, 100, exponent, ceiling=0.1)(5_000) == 0.1  # the published code's constant
    k = np.array([1e3, 1e6, 1e9, 1e12])
    values = np.array([schedule(one) for one in k])
    # block sums of k <= n < 1000 k are about k w_k and k w_k^2: the first do not shrink, the second do, by a power
    assert (np.diff(k * values) > 0).all() or exponent == 1.0
    assert (np.diff(k[1:] * values[1:] ** 2) < 0).all()


Y, SPREAD, V0, V1 = 1.2, 0.6, 0.25, 2.0  # one observation of one weight


def suggested(rho):
    """The mean probability of the slab under the stationary law at `rho`, by quadrature."""
    grid = torch.linspace(-6, 6, 8_001, dtype=torch.float64)
    kappa = bF.expected_precisions(rho, V0, V1)
    density = torch.exp(-((Y - grid) ** 2) / (2 * SPREAD**2) - formulas.ssgl_penalty(grid, *kappa, 1.0))
    owner = bF.slab_probability(grid, 0.5, 1.0, V0, V1)
    return torch.trapezoid(density * owner, grid) / torch.trapezoid(density, grid)


@pytest.fixture(scope="module")
def star():
    """The fixed point."""
    found = torch.tensor(0.5, dtype=torch.float64)
    for _ in range(60):
        found = suggested(found)
    return found


# equation: aeb-theorem
@pytest.mark.slow
def test_the_squared_error_of_the_latent_variable_falls_like_the_step_size(star, generator):
    beta = torch.nn.Parameter(torch.full((400, 1), Y, dtype=torch.float64))
    schedule = polynomial(1.0, 10.0, 0.8)
    settings = {"spike_scale": V0, "slab_variance": V1, "update": ("rho", "kappa"), "step_size": schedule}
    prior = SpikeSlabGaussianLaplacePrior({"beta": beta}, batch_dims=1, **settings)
    sampler = SGHMC([beta], lr=0.05, momentum=0.5, generator=generator)
    ratios = {}
    for k in range(1, 2_001):
        beta.grad = (beta.detach() - Y) / SPREAD**2
        prior.add_gradient_()
        sampler.step()
        prior.update()
        if k in (250, 1_000, 2_000):
            ratios[k] = (prior.rho["beta"] - star).square().mean().item() / schedule(k)
    # E ||theta_k - theta*||^2 <= C w_k with one C, while w_k falls to a fifth; 400 chains give 7 % a standard error
    assert max(ratios.values()) < 1.4 * min(ratios.values())


# equation: aeb-jacobian
def test_the_mean_field_near_its_fixed_point_has_the_matrix_of_the_text(star):
    def field(state):
        """The mean push on (rho, averaged rho): rho towards the suggestion under kappa, the average towards rho."""
        rho, average = state
        return torch.stack([suggested(average) - rho, rho - average])

    jacobian = torch.autograd.functional.jacobian(field, torch.stack([star, star]))
    slope = float(jacobian[0, 1])
    assert 0 < slope < 1
    assert torch.allclose(jacobian, torch.tensor([[-1.0, slope], [1.0, -1.0]], dtype=torch.float64), atol=1e-9)
    eigenvalues = sorted(torch.linalg.eigvals(jacobian).real.tolist())
    assert eigenvalues == pytest.approx([-1 - math.sqrt(slope), -1 + math.sqrt(slope)], abs=1e-9)


# equation: aeb-pruning
def test_the_pruned_share_rises_fast_and_then_slowly():
    for k in (0, 1, 50, 500, 20_000):
        assert smooth_sparsity(k, 0.9) == pytest.approx(0.9 * (1 - 0.99 ** (k / 50)), rel=1e-12, abs=1e-15)
    gains = np.diff([smooth_sparsity(k, 0.9) for k in range(0, 5_000, 100)])
    assert (gains > 0).all() and (np.diff(gains) < 0).all()


# equation: aeb-fgsm
def test_the_attack_moves_every_pixel_against_the_predicted_class():
    weight = torch.tensor([[1.0, -2.0, 0.5, 0.3], [-0.5, 1.0, 2.0, -0.1]], dtype=torch.float64)
    model = torch.nn.Linear(4, 2, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(weight)
    x = torch.tensor([[0.9, 0.1, 0.02, 0.5], [0.1, 0.95, 0.9, 0.5]], dtype=torch.float64)
    predicted = (x @ weight.T).argmax(1)
    # with two classes the gradient of log p(c | x) is a positive multiple of w_c - w_other
    direction = torch.stack([(weight[c] - weight[1 - c]).sign() for c in predicted])
    expected = (x - 0.2 * direction).clamp(0, 1)
    assert torch.allclose(fgsm(model, x, size=0.2), expected, atol=1e-12)

"""Steps of the samplers as linear maps: on a Gaussian target their stationary law solves a Lyapunov equation."""

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov

from bnnlib.functional.sgmcmc import euler_noise_scale, sghmc_baoab_step, sghmc_euler_step, sgld_step


def one(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def stationary(step, curvature: float) -> np.ndarray:
    """Covariance of (position, velocity) under `step` on the energy curvature / 2 * position^2, without simulation."""
    columns = [
        [float(part) for part in step(one(x), one(v), one(curvature * x), one(noise))]
        for x, v, noise in [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    ]
    matrix, noise = np.array(columns[:2]).T, np.array(columns[2])
    assert np.abs(np.linalg.eigvals(matrix)).max() < 1.0  # the step is stable
    return solve_discrete_lyapunov(matrix, np.outer(noise, noise))


GRID = [(lr, m, t, c) for lr in (1e-3, 0.1, 1.0) for m in (0.0, 0.5, 0.9) for t in (0.2, 1.0) for c in (0.01, 1.0, 1.9)]


@pytest.mark.parametrize(("lr", "momentum", "temperature", "curvature"), GRID)
def test_baoab_is_exact_on_a_gaussian_at_every_stable_step(lr, momentum, temperature, curvature):
    covariance = stationary(
        lambda x, v, g, n: sghmc_baoab_step(x, v, g, n, lr, momentum, temperature),
        curvature,
    )
    # solving for slow modes loses digits in proportion to their relaxation time, at most 1e5 steps here
    assert covariance[0, 0] == pytest.approx(temperature / curvature, rel=1e-8)


@pytest.mark.parametrize("lr", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize(("temperature", "curvature"), [(1.0, 1.0), (0.2, 1.9), (3.0, 0.1)])
def test_sgld_inflates_the_variance_by_a_known_factor(lr, temperature, curvature):
    covariance = stationary(
        lambda x, v, g, n: (sgld_step(x, g, n, lr, temperature), one(0.0)),
        curvature,
    )
    expected = temperature / curvature / (1.0 - 0.5 * lr * curvature)
    assert covariance[0, 0] == pytest.approx(expected, rel=1e-8)


def test_the_bias_of_the_published_scheme_is_of_first_order():
    def bias(lr: float) -> float:
        return stationary(lambda x, v, g, n: sghmc_euler_step(x, v, g, n, lr, 0.9), 1.0)[0, 0] - 1.0

    assert abs(bias(1e-4)) < 1e-3
    assert bias(1e-2) / bias(1e-3) == pytest.approx(10.0, rel=0.05)  # the next order contributes lr / 4
    assert abs(bias(1e-2)) > 1e-3  # it is not zero, as it is with the other scheme


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_known_gradient_noise_is_not_added_again(temperature):
    """Gradient noise of variance V plus the rest of the injected noise is the whole noise of the exact-gradient chain.

    lr^2 V + 2 lr ((1 - momentum) T - lr V / 2) = 2 lr (1 - momentum) T.
    """
    lr, momentum, variance = 0.01, 0.9, 4.0
    rest = euler_noise_scale(lr, momentum, temperature, variance) ** 2
    assert lr**2 * variance + rest == pytest.approx(2.0 * lr * (1.0 - momentum) * temperature, rel=1e-12)
    assert euler_noise_scale(lr, momentum, temperature, 1e9) == 0.0  # more noise than friction: none is added
    assert euler_noise_scale(lr, momentum, 0.0, variance) == 0.0


@pytest.mark.parametrize("step", [sghmc_euler_step, sghmc_baoab_step])
def test_at_temperature_zero_both_are_momentum(step):
    position = start = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64)
    velocity, descent, memory = torch.zeros_like(position), start.clone(), torch.zeros_like(position)
    noise = torch.full_like(position, 1e3)
    for _ in range(20):
        position, velocity = step(position, velocity, position**3, noise, 0.05, 0.8, 0.0)
        memory = 0.8 * memory + descent**3
        descent = descent - 0.05 * memory
    torch.testing.assert_close(position, descent, rtol=1e-12, atol=1e-14)

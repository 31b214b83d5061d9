"""The linear model whose objective and posterior are known: against integration, and against each other."""

import itertools
import math

import pytest
import torch
from scipy import integrate

from bnnlib import functional as bF
from chapters.spike_slab.linear import LinearModel, linear_model

DOUBLE = {"dtype": torch.float64}


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 2, generator=generator, **DOUBLE)
    x[:, 1] += 0.8 * x[:, 0]  # correlated: the posterior does not factorize
    return x, x @ torch.tensor([0.5, 0.0], **DOUBLE) + torch.randn(30, generator=generator, **DOUBLE)


def test_the_posterior_is_that_of_numerical_integration(data):
    x, y = data
    found, log_evidence = linear_model(x, y, 0.2, 1.3).posterior()

    (c, d), ((p, q), (_, r)) = (x.T @ y).tolist(), (x.T @ x).tolist()

    def likelihood(a: float, b: float) -> float:
        return math.exp(c * a + d * b - 0.5 * (p * a * a + 2.0 * q * a * b + r * b * b))

    def slab(a: float) -> float:
        return math.exp(-0.5 * (a / 1.3) ** 2) / (1.3 * math.sqrt(2.0 * math.pi))

    reach = {"epsabs": 1e-8}
    masses = {
        (False, False): 1.0,
        (True, False): integrate.quad(lambda a: slab(a) * likelihood(a, 0), -3, 3, **reach)[0],
        (False, True): integrate.quad(lambda b: slab(b) * likelihood(0, b), -3, 3, **reach)[0],
        (True, True): integrate.dblquad(lambda b, a: slab(a) * slab(b) * likelihood(a, b), -3, 3, -3, 3, **reach)[0],
    }
    joint = {one: mass * math.prod(0.2 if on else 0.8 for on in one) for one, mass in masses.items()}
    total = sum(joint.values())
    assert log_evidence == pytest.approx(math.log(total), abs=1e-6)
    first = sum(mass for one, mass in joint.items() if one[0]) / total
    assert float(found[0]) == pytest.approx(first, abs=1e-6)


def test_the_objective_never_falls_below_minus_the_log_evidence(data):
    model = linear_model(*data)
    floor = -model.posterior()[1]
    for mean, scale, inclusion in itertools.product((0.0, 0.4), (0.05, 0.3), (0.1, 0.9)):
        params = (
            torch.full((2,), value, **DOUBLE) for value in (mean, bF.softplus_inverse(scale), bF.log_odds(inclusion))
        )
        assert model.objective(*params) > floor


@pytest.mark.slow
def test_the_exact_gradient_finds_the_posterior_of_orthogonal_inputs():
    model = LinearModel(40 * torch.eye(3, **DOUBLE), torch.tensor([20.0, 12.0, 1.0], **DOUBLE))
    exact, log_evidence = model.posterior()
    trace, phi = model.fit("exact", scale=0.1, inclusion=0.5, rate=0.05, steps=1200)
    assert torch.allclose(phi[-1, 0], exact, atol=1e-3)
    assert float(trace[-1]) == pytest.approx(-log_evidence, abs=1e-3)


@pytest.mark.slow
def test_the_relaxed_gate_is_drawn_inward_and_the_wrong_sign_keeps_useless_weights():
    model = LinearModel(40 * torch.eye(2, **DOUBLE), torch.tensor([30.0, 0.0], **DOUBLE))
    exact = model.posterior()[0]
    options = {"scale": 0.1, "inclusion": 0.5, "rate": 0.05, "draws": 16, "steps": 400}
    cold, warm = model.fit("straight-through", [0.1, 2.0], **options)[1][200:].mean(0)
    assert exact[0] > 0.99 > cold[0] > warm[0] and warm[1] > exact[1]
    assert model.fit("straight-through", sign=-1, **options)[1][-1, 0, 1] > 0.5

"""The spike-and-slab Gaussian-Laplace prior at extreme settings, against torch.distributions."""

import math

import pytest
import torch
from torch.distributions import Laplace, Normal

from bnnlib.functional.ssgl import expected_precisions, slab_log_odds, slab_probability
from chapters.learned_priors.formulas import ssgl_log_density, ssgl_penalty, ssgl_penalty_gradient

# (inclusion, sigma, v0, v1): text-book roles, the reversed roles of the published networks, extremes
SETTINGS = [(0.5, 1.0, 0.1, 10.0), (0.5, 1.0, 0.005, 1e-5), (0.01, 2.0, 0.5, 1e-3), (0.999, 0.3, 1.0, 0.1)]
WEIGHTS = torch.tensor([-3.0, -0.2, -1e-3, 0.0, 1e-6, 0.004, 0.05, 0.7, 5.0], dtype=torch.float64)


def log_joints(w, inclusion, sigma, v0, v1, scaled=True):
    s = sigma if scaled else 1.0
    one = torch.ones((), dtype=torch.float64)
    slab = Normal(0.0 * one, s * math.sqrt(v1) * one).log_prob(w) + math.log(inclusion)
    return slab, Laplace(0.0 * one, s * v0 * one).log_prob(w) + math.log1p(-inclusion)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("setting", SETTINGS)
def test_slab_probability_and_density_at_extreme_settings(setting, scaled):
    slab, spike = log_joints(WEIGHTS, *setting, scaled=scaled)
    torch.testing.assert_close(slab_log_odds(WEIGHTS, *setting, scaled=scaled), slab - spike, rtol=1e-12, atol=1e-12)
    probability = slab_probability(WEIGHTS, *setting, scaled=scaled)
    torch.testing.assert_close(probability, torch.sigmoid(slab - spike), rtol=1e-10, atol=1e-300)
    # numbers and tensors take different paths
    tensors = [torch.tensor(value, dtype=torch.float64) for value in setting]
    torch.testing.assert_close(slab_probability(WEIGHTS, *tensors, scaled=scaled), probability, rtol=1e-10, atol=1e-300)
    if scaled:  # softplus(z) is taken to be z beyond 20, which is e^-20 = 2e-9 off
        mixture = torch.logsumexp(torch.stack([slab, spike]), dim=0)
        torch.testing.assert_close(ssgl_log_density(WEIGHTS, *setting), mixture, rtol=1e-12, atol=3e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("v1", [1e-12, 1e-5, 10.0])
def test_nothing_overflows(dtype, v1):
    w = torch.tensor([0.0, 1e-30, 1e-6, 1.0, 1e4, -1e4], dtype=dtype)
    rho = slab_probability(w, 0.5, 1.0, 0.1, v1)
    assert torch.isfinite(rho).all() and (rho >= 0).all() and (rho <= 1).all()
    precisions = expected_precisions(rho, 0.1, v1)
    for values in (
        ssgl_log_density(w, 0.5, 1.0, 0.1, v1),
        ssgl_penalty(w, *precisions, 1.0),
        ssgl_penalty_gradient(w, *precisions, 1.0),
    ):
        assert torch.isfinite(values).all()
    assert ssgl_penalty_gradient(w, *precisions, 1.0)[0] == 0.0


def test_settings_differ_between_replicates():
    w = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    columns = [
        torch.tensor(v, dtype=torch.float64)[:, None] for v in ([0.2, 0.5, 0.9], [1.0, 2.0, 3.0], [0.1, 1.0, 2.0])
    ]
    stacked = slab_probability(w, *columns, 0.5)
    for r in range(3):
        row = slab_probability(w[r], *(float(c[r]) for c in columns), 0.5)
        torch.testing.assert_close(stacked[r], row, rtol=1e-12, atol=1e-300)

"""Scales that softplus rounds to 0: divergences and gradients stay finite, and ordinary ones are the same bits."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib import nn as bnn
from bnnlib.functional import softplus_scale
from bnnlib.functional.gaussian import softplus_slope
from tests.bnnlib.nn.conftest import MIXTURE, Divergence

KINDS = {
    "gaussian": {},
    "gaussian_spike_slab": MIXTURE,
    "scale_mixture": MIXTURE,
    "spike_slab": {"prior_inclusion_probability": 0.1},
    "horseshoe": {},
}
WAYS = [*((kind, "weight") for kind in KINDS), ("gaussian", "local"), ("gaussian_spike_slab", "flipout")]


def built(kind, estimator, rho):
    torch.manual_seed(0)
    settings = KINDS[kind] | ({} if estimator == "weight" else {"estimator": estimator})
    model = bnn.to_bayesian(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), kind, **settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("_rho"):
                parameter.fill_(rho)
    return model


def step(model, divergence):
    """The divergence, and all gradients of a loss with a hundredth of it."""
    value = divergence(model)
    (model(torch.ones(5, 4)).square().mean() + value / 100).backward()
    return value, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("rho", [-120.0, -math.inf])
@pytest.mark.parametrize(("kind", "estimator"), WAYS)
def test_divergence_and_gradients_are_finite(kind, estimator, rho):
    for divergence in (bnn.kl_divergence, bnn.kl_gradient):
        value, gradients = step(built(kind, estimator, rho), divergence)
        assert value.isfinite() and all(gradient.isfinite().all() for gradient in gradients.values())
        if kind != "scale_mixture" or rho > -math.inf:
            # that of -log sigma: a hundredth of -1, times the inclusion probability .99 of a spike and slab
            spreads = [g for name, g in gradients.items() if name.endswith("_rho")]
            assert all(bool(((g < -0.0098) & (g > -0.0102)).all()) for g in spreads)


@pytest.mark.parametrize("rho", [-120.0, -79.0, -5.0])
def test_the_graph_of_plain_operations_has_the_same_gradient(rho):
    """What `torch.func` and the compiler follow, beside the closed form."""
    model = built("gaussian", "weight", rho)
    bnn.kl_divergence(model).backward()
    values = {name: p.detach() for name, p in model.named_parameters()}
    named = lambda v: {f"network.{name}": p for name, p in v.items()}  # noqa: E731
    plain = torch.func.grad(lambda v: torch.func.functional_call(Divergence(model), named(v), ()))
    for name, gradient in plain(values).items():
        torch.testing.assert_close(gradient, model.get_parameter(name).grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ordinary_scales_are_the_same_bits(dtype):
    rho = torch.linspace(-79.9, 30.0, 10_001, dtype=dtype)
    assert torch.equal(softplus_scale(rho), F.softplus(rho)) and torch.equal(softplus_slope(rho), torch.sigmoid(rho))
    leaf = rho.clone().requires_grad_()
    assert torch.equal(softplus_scale(leaf), F.softplus(rho))
    (mine,) = torch.autograd.grad(softplus_scale(leaf).sum(), leaf)
    (theirs,) = torch.autograd.grad(F.softplus(leaf).sum(), leaf)
    assert torch.equal(mine, theirs)


@pytest.mark.parametrize(("dtype", "lowest"), [(torch.float32, -80.0), (torch.float64, -700.0)])
def test_the_smallest_scale(dtype, lowest):
    rho = torch.tensor([-1e30, lowest - 1.0], dtype=dtype)
    # exp rounds differently from softplus by a few units in the last place of a number with an exponent of -80
    torch.testing.assert_close(softplus_scale(rho), torch.full_like(rho, math.exp(lowest)), rtol=1e-5, atol=0.0)
    assert softplus_scale(rho).reciprocal().isfinite().all()

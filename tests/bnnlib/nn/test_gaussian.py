"""The three estimators: same gradient in the mean, their stated laws, numeric edge cases."""

from functools import partial

import pytest
import torch

from bnnlib import nn as bnn
from bnnlib.nn.gaussian import ESTIMATORS
from tests.bnnlib.nn.test_sparse_vd import layer_of as dropout
from tests.seeded import seeded as generator


def layer_of(estimator, kind=bnn.GaussianLinear, size=(4, 3)):
    torch.manual_seed(0)
    return kind(*size, initial_scale=0.3, estimator=estimator, dtype=torch.float64)


@pytest.mark.slow
def test_all_estimators_have_the_same_expected_loss_and_gradient():
    x = torch.randn(6, 4, generator=generator(1), dtype=torch.float64)
    y = torch.randn(6, 3, generator=generator(2), dtype=torch.float64)
    results, draws = {}, 1000
    for estimator in ESTIMATORS:
        layer, noise = layer_of(estimator), generator(3)
        samples = []
        for _ in range(draws):
            loss = (layer(x, noise) - y).square().mean()
            grads = torch.autograd.grad(loss, list(layer.parameters()))
            samples.append(torch.cat([loss.detach()[None], *(g.flatten() for g in grads)]))
        stack = torch.stack(samples)
        results[estimator] = stack.mean(dim=0), stack.var(dim=0) / draws
    # the expected loss of a linear model is known: loss at the mean plus the variance of the outputs
    layer = layer_of("weight")
    scale, bias_scale = layer.scale()
    spread = x.square() @ scale.square().T + bias_scale.square()
    output = torch.nn.functional.linear(x, layer.weight, layer.bias)
    exact = (output - y).square().mean() + spread.mean()
    truth = torch.cat([exact.detach()[None], *(g.flatten() for g in torch.autograd.grad(exact, layer.parameters()))])
    for estimator, (mean, variance) in results.items():
        # 31 numbers per estimator: 4.5 standard errors leave a chance of 2e-4, and the seed is fixed
        assert ((mean - truth).abs() < 4.5 * variance.sqrt()).all(), estimator


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        *((partial(layer_of, estimator), (2, 4)) for estimator in ("local", "flipout")),
        *((partial(layer_of, one, bnn.GaussianConv2d, (2, 3, 3)), (2, 2, 4, 4)) for one in ("local", "flipout")),
        (dropout, (2, 6)),
    ],
)
def test_outputs_have_the_exact_marginal_moments(make, shape):
    layer, x = make(), torch.randn(shape, generator=generator(1), dtype=torch.float64)
    with torch.no_grad():
        mean = layer._affine(x, layer.weight, layer.bias)
        variance = layer._affine(x.square(), *(one if one is None else one.square() for one in layer.scale()))
        noise, n = generator(2), 2500
        draws = torch.stack([layer(x, noise) for _ in range(n)])
    # five standard errors; the variance of a variance of Gaussians is 2 / n relative, flipout's products are no worse
    assert ((draws.mean(dim=0) - mean).abs() < 5 * (variance / n).sqrt()).all()
    assert ((draws.var(dim=0) / variance - 1).abs() < 5 * (2 / n) ** 0.5).all()


@pytest.mark.slow
def test_rows_are_independent_with_local_and_uncorrelated_with_flipout_but_shared_with_weight():
    x = torch.ones(2, 4, dtype=torch.float64)
    for estimator in ESTIMATORS:
        layer, noise = layer_of(estimator), generator(5)
        with torch.no_grad():
            draws = torch.stack([layer(x, noise)[:, 0] for _ in range(2000)])
        correlation = torch.corrcoef(draws.T)[0, 1].item()
        assert correlation == pytest.approx(1.0) if estimator == "weight" else abs(correlation) < 5 / 2000**0.5


def test_local_gradient_is_finite_at_inputs_of_zero():
    layer = bnn.GaussianLinear(4, 3, bias=False, estimator="local")
    layer(torch.zeros(2, 4)).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())

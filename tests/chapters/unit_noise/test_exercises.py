"""Reference answers of the exercises on Structured Bayesian Pruning, against quadrature and brute force."""

import math

import numpy as np
import pytest
import torch

from book.display import exercises
from book.display.exercises.judge import judge

V = torch.linspace(-20, 0, 400_001, dtype=torch.float64)  # log theta; the trapezoid rule is exact to 1e-9 here


def density(mean: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Of log theta on the grid V for each unit, by normalizing numerically."""
    weight = torch.exp(-0.5 * ((V - mean[:, None]) / scale[:, None]) ** 2)
    return weight / torch.trapezoid(weight, V)[:, None]


def test_the_learned_ratio_is_the_larger_maximum_on_a_grid():
    grid = torch.linspace(0.7, 12, 200_001, dtype=torch.float64)[:, None]
    for gain, weight in exercises.get("sbp-1").cases():
        value = gain * grid**2 / (1 + grid**2) - weight * grid.log()
        inner = (value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:])
        found = (inner * grid[1:-1]).max(dim=0).values
        # steps of the grid, 6e-5
        assert exercises.get("sbp-1").reference()(gain, weight) == pytest.approx(found.numpy(), abs=1e-4)


def test_twins_cost_what_the_exact_prices_say():
    from chapters.unit_noise.prices import cheapest

    one, half = cheapest(np.array([20, 20 / math.sqrt(2)]))[0]
    assert exercises.get("sbp-9").reference() == pytest.approx(2 * half - one, abs=0.005)


def test_the_mean_agrees_with_quadrature():
    (wide,) = exercises.get("sbp-2").stress
    for mean, scale in [*exercises.get("sbp-2").cases(), *wide()]:
        first = torch.trapezoid(density(mean, scale) * V.exp(), V)
        assert exercises.get("sbp-2").reference()(mean, scale) == pytest.approx(first.numpy(), rel=1e-7)


def test_the_printed_form_of_the_mean_does_not_survive_wide_noise():
    def printed(mean, scale):
        normal = torch.distributions.Normal(0.0, 1.0)
        alpha, beta = (-20 - mean) / scale, -mean / scale
        share = (normal.cdf(scale - alpha) - normal.cdf(scale - beta)) / (normal.cdf(beta) - normal.cdf(alpha))
        return torch.exp(mean + scale**2 / 2) * share

    verdict = judge(exercises.get("sbp-2"), printed)
    assert not verdict.right and "right on the ordinary tests" in verdict.message and "overflows" in verdict.message


def test_without_truncation_more_noise_always_pays():
    from chapters.unit_noise.formulas import truncated_log_normal_kl

    # an interval that grows with sigma stands in for (0, inf); the prior's undefined constant is log of its width
    sigma = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    divergence = [
        float(truncated_log_normal_kl(0 * s, s, -20.0 * float(s), 20.0 * float(s))) - math.log(40 * float(s))
        for s in sigma
    ]
    assert np.diff(divergence) == pytest.approx([-math.log(10)] * 2, rel=1e-6)
    assert exercises.get("sbp-3").reference() == "b"
    assert not judge(exercises.get("sbp-3"), "a").right


def test_a_folded_weight_computes_what_the_layer_computes():
    from bnnlib.nn import StructuredBayesianPruning, selected_weights

    layer = StructuredBayesianPruning(6, dtype=torch.float64)
    with torch.no_grad():
        layer.log_scale.copy_(torch.linspace(-3, 3, 6))
    mean, snr = layer.mean().detach(), layer.signal_to_noise()
    assert 0 < int((snr > 1).sum()) < 6
    generator = torch.Generator().manual_seed(1)
    weight, x = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((4, 6), (5, 6)))
    folded = exercises.get("sbp-6").reference()(weight, mean, snr)
    assert folded.shape == (4, layer.num_active())
    with selected_weights(layer):
        expected = layer(x) @ weight.T
    assert x[:, snr > 1] @ folded.T == pytest.approx(expected.detach().numpy(), rel=1e-9)


def test_at_the_scale_of_the_threshold_signal_equals_noise():
    sigma = torch.tensor([exercises.get("sbp-5").reference()], dtype=torch.float64)
    q = density(torch.zeros(1, dtype=torch.float64), sigma)
    first, second = (torch.trapezoid(q * torch.exp(k * V), V) for k in (1, 2))
    assert float(second - first**2) == pytest.approx(float(first**2), rel=1e-7)


def test_a_unit_without_data_goes_to_the_prior():
    from bnnlib.nn import StructuredBayesianPruning

    layer = StructuredBayesianPruning(1, dtype=torch.float64)
    adam = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(300):
        adam.zero_grad()
        layer.kl_divergence().backward()
        adam.step()
    assert float(layer.signal_to_noise()) == pytest.approx(1 / 3, abs=0.01) and not layer.active().any()
    assert exercises.get("sbp-8").reference() == "c"

"""The learned noise of a stack: the density of torch.distributions, and known noise found again."""

import math

import pytest
import torch
from torch.distributions import Normal

from bnnlib.replicates import GaussianLikelihood, Layout, StackedDeterministic, StackedMLP, fit_stacked, gaussian_nll
from tests.seeded import seeded as generator

NOISE = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64)


def problem(n=800):
    """y = x w + noise of a standard deviation of its own in each of three replicates."""
    x = torch.randn(n, 3, 4, generator=generator(1), dtype=torch.float64)
    effect = torch.tensor([1.0, -0.5, 0.0, 0.3], dtype=torch.float64)
    noise = torch.randn(n, 3, 1, generator=generator(2), dtype=torch.float64)
    return x, (x @ effect).unsqueeze(2) + NOISE.view(3, 1) * noise


def test_it_is_the_mean_negative_log_density_summed_over_replicates():
    likelihood = GaussianLikelihood(3).double()
    with torch.no_grad():
        likelihood.log_scale.copy_(NOISE.log().unsqueeze(1))
    output, target = torch.randn(2, 3, 7, 2, generator=generator(), dtype=torch.float64)
    each = -Normal(output, NOISE.view(3, 1, 1)).log_prob(target) - 0.5 * math.log(2 * math.pi)
    torch.testing.assert_close(likelihood(output, target), each.sum() / 7, rtol=1e-13, atol=0)
    torch.testing.assert_close(likelihood.scale(), NOISE, rtol=1e-15, atol=0)
    unit = GaussianLikelihood(3, initial_scale=1.0).double()
    torch.testing.assert_close(unit(output, target), gaussian_nll(output, target), rtol=1e-13, atol=0)


def test_known_noise_is_learned_with_the_weights_for_each_replicate():
    (x, y), layout = problem(), Layout((4, 1), 3)
    stack = StackedMLP(StackedDeterministic(layout, layout.kaiming_uniform(generator(), torch.float64)))
    likelihood = GaussianLikelihood(3).double()
    fit_stacked(stack, x, y, epochs=250, batch_size=800, learning_rate=0.05, generator=generator(3), loss=likelihood)
    # at the optimum it is the root mean square of the residuals, to the last steps of Adam
    residual = y.transpose(0, 1) - stack.mean_forward(x.transpose(0, 1))
    torch.testing.assert_close(likelihood.scale(), residual.square().mean(dim=(1, 2)).sqrt(), rtol=1e-3, atol=0)
    # four standard errors of an estimated standard deviation
    assert (likelihood.scale() / NOISE - 1).abs().max() < 4 / math.sqrt(2 * 800)


def test_the_loss_is_trained_alone_where_the_network_fits_and_stays_above_its_minimum():
    likelihood = GaussianLikelihood(2, initial_scale=0.1, minimum=0.01)
    optimizer = torch.optim.Adam(likelihood.parameters(), lr=0.03)
    target = torch.zeros(2, 5, 1)
    target[1] = 0.3
    for _ in range(200):
        optimizer.zero_grad()
        likelihood(torch.zeros(2, 5, 1), target).backward()
        optimizer.step()
    # to the rounding of a float32, and to the last steps of Adam
    assert likelihood.scale()[0] == pytest.approx(0.01, rel=1e-6)
    assert likelihood.scale()[1] == pytest.approx(0.3, rel=1e-2)
    assert likelihood(torch.zeros(2, 5, 1), target).isfinite()

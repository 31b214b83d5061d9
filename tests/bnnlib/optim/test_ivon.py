"""IVON: its arithmetic as the algorithm is printed, and the Gaussian that it settles on."""

import math

import pytest
import torch

from bnnlib.optim import IVON
from tests.seeded import seeded

SETTINGS = {"lr": 0.2, "num_data": 50, "betas": (0.8, 0.9), "weight_decay": 0.01, "hess_init": 0.5}


def parameter(*values: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values, dtype=torch.float64))


def trained(theta, optimizer, curvature, optimum, steps: int) -> None:
    """Steps on the mean loss curvature (theta - optimum)^2 / 2, whose gradients are taken at draws."""
    for _ in range(steps):
        with optimizer.sampled_parameters():
            optimizer.zero_grad()
            (0.5 * curvature * (theta - optimum).square()).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("clip", [math.inf, 0.3])
def test_steps_are_those_of_the_printed_algorithm(clip):
    theta = parameter(0.3, -1.0, 2.0)
    optimizer = IVON([theta], **SETTINGS, clip_radius=clip, generator=seeded(0))
    (beta, beta2), wd, n = SETTINGS["betas"], SETTINGS["weight_decay"], SETTINGS["num_data"]
    mean, g, h = theta.detach().clone(), torch.zeros(3).double(), torch.full((3,), 0.5).double()
    noise = seeded(0)
    for step in range(1, 6):
        trained(theta, optimizer, 2.0, 1.0, 1)
        drawn = torch.randn(3, dtype=torch.float64, generator=noise) / (n * (h + wd)).sqrt()
        gradient = 2.0 * (mean + drawn - 1.0)
        estimate = gradient * drawn * n * (h + wd)  # of the curvature, by Stein's identity
        g = beta * g + (1 - beta) * gradient
        h = beta2 * h + (1 - beta2) * estimate + 0.5 * (1 - beta2) ** 2 * (h - estimate) ** 2 / (h + wd)
        moved = (g / (1 - beta**step) + wd * mean) / (h + wd)
        mean = mean - SETTINGS["lr"] * (0.5 + wd) * moved.clamp(-clip, clip)
        torch.testing.assert_close(theta.detach(), mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(optimizer.scale(theta), (h + wd).rsqrt(), rtol=1e-12, atol=1e-12)


def test_it_settles_on_the_posterior_of_a_gaussian_target():
    curvature, copies = torch.tensor([0.2, 1.0, 4.0]).double(), 400
    theta = torch.nn.Parameter(torch.zeros(copies, 3).double())
    settings = SETTINGS | {"betas": (0.9, 0.99), "hess_init": 1.0, "lr": 0.05}
    optimizer = IVON([theta], **settings, generator=seeded(1))
    trained(theta, optimizer, curvature, 1.0, 800)
    precision = curvature + SETTINGS["weight_decay"]  # and N times it that of the posterior
    # over 400 copies errors of the averages are below 1 %; the curvature's fluctuations of 10 % bias it by about that
    torch.testing.assert_close(optimizer.scale(theta).pow(-2).mean(0), precision, rtol=0.06, atol=0.0)
    torch.testing.assert_close(theta.detach().mean(0), curvature / precision, rtol=0.02, atol=0.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        *(({name: 0.0}, f"{name} is 0") for name in ("weight_decay", "hess_init", "clip_radius")),
        ({"betas": (1.0, 0.9)}, "momentum is 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        IVON([parameter(0.0)], **SETTINGS | settings)


@pytest.mark.parametrize("groups", [lambda free, frozen: [free, frozen], lambda *p: [{"params": [q]} for q in p]])
def test_frozen_parameters_carry_no_noise(groups):
    alone, free, frozen = parameter(0.0, 1.0), parameter(0.0, 1.0), parameter(2.0).requires_grad_(False)
    both = IVON([alone], **SETTINGS, generator=seeded(0)), IVON(groups(free, frozen), **SETTINGS, generator=seeded(0))
    for _ in range(3):
        with both[0].sampled_parameters(), both[1].sampled_parameters():
            assert torch.equal(free, alone) and frozen == 2.0
            ((free - 1.0).square().sum() + (alone - 1.0).square().sum()).backward()
        for optimizer in both:
            optimizer.step()
            optimizer.zero_grad()

"""The adaptive variational optimizer: its arithmetic, its law, its state."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov
from torch import nn

from bnnlib import functional as bF
from bnnlib.optim import AdaptiveVariational
from bnnlib.sampling import DivergedError
from chapters.adaptive_optimizer import formulas
from tests.bnnlib.optim.problem import network, train, values
from tests.refused import refusals
from tests.seeded import seeded

FORMS = ("sghmc", "natural")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_a_fixed_scale_preconditions_by_its_power(form, alpha):
    """Without noise, at any fixed scale s, a step is SGD's with lr s^(2 alpha)."""
    ours, theirs = network(), network()
    fixed, both = {"temperature": 0.0, "scale_lr": 0.0, "initial_scale": 0.3}, {"momentum": 0.5, "weight_decay": 0.01}
    train(ours, AdaptiveVariational(ours.parameters(), 0.2, 50, form=form, alpha=alpha, **fixed, **both), 50)
    train(theirs, torch.optim.SGD(theirs.parameters(), 0.2 * 0.3 ** (2 * alpha), **both), 50)
    # rounding of 50 steps in float64
    torch.testing.assert_close(values(ours), values(theirs), rtol=1e-12, atol=1e-12)


def test_steps_of_the_published_form_are_those_of_the_functions():
    parameter = nn.Parameter(torch.randn(6, generator=seeded(0), dtype=torch.float64))
    settings = {"lr": 0.04, "num_data": 30, "momentum": 0.2, "temperature": 0.5, "weight_decay": 0.1, "scale_lr": 0.3}
    optimizer = AdaptiveVariational([parameter], generator=seeded(7), **settings)
    w, rho, m, noise = parameter.detach().clone(), torch.zeros(6), torch.zeros(6), torch.zeros(6)
    rho, m, noise = (part.double() for part in (rho, m, noise))
    tau, generator = torch.sigmoid(rho), seeded(7)
    for _ in range(5):
        gradient = torch.sin(3.0 * w)
        parameter.grad = torch.sin(3.0 * parameter.detach())
        optimizer.step()
        change = formulas.scale_gradient(tau, gradient, noise, 0.04, 0.5, 0.1, 30)
        rho, tau = formulas.scale_step(rho, change, 0.3)
        noise = torch.empty(6, dtype=torch.float64).normal_(generator=generator)
        m = formulas.momentum_step(m, gradient, w, noise, 0.04, 0.2, 0.1, 0.5)
        w = w + tau * m
        torch.testing.assert_close(parameter.detach(), w)
        torch.testing.assert_close(optimizer.scale(parameter), tau)


@pytest.mark.parametrize("estimator", ["squared", "stein"])
def test_steps_of_the_natural_form_are_those_of_the_functions(estimator):
    parameter = nn.Parameter(torch.randn(6, generator=seeded(0), dtype=torch.float64))
    settings = {"lr": 0.04, "num_data": 30, "momentum": 0.0, "weight_decay": 0.1, "scale_lr": 0.3, "alpha": 1}
    optimizer = AdaptiveVariational([parameter], form="natural", estimator=estimator, generator=seeded(7), **settings)
    mean, precision, generator = parameter.detach().clone(), torch.ones(6, dtype=torch.float64), seeded(7)
    for _ in range(5):
        eps = torch.empty(6, dtype=torch.float64).normal_(generator=generator)
        scale = 30**-0.5 / precision.sqrt()
        with optimizer.sampled_parameters():
            torch.testing.assert_close(parameter.detach(), mean + scale * eps)
            gradient = torch.sin(3.0 * parameter.detach())
        assert torch.equal(parameter.detach(), mean)
        parameter.grad = gradient
        optimizer.step()
        curvature = formulas.expected_curvature(gradient[None], eps[None], scale, estimator)
        step = formulas.precision_step if estimator == "squared" else bF.positive_precision_step
        precision = step(precision, curvature, 0.1 * 30, 30, 0.3)
        mean = formulas.mean_step(mean, 1.0 / precision, gradient + 0.1 * mean, 0.04, 1.0)
        torch.testing.assert_close(parameter.detach(), mean)
        mean = parameter.detach().clone()  # equal to the last bit, for the comparison inside the context


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_the_stationary_variance_is_that_of_the_linear_recursion(alpha):
    """On a Gaussian target a step is linear in (w, m), so its law solves a discrete Lyapunov equation."""
    lr, beta, temperature, decay, tau, count, steps = 0.2, 0.4, 0.5, 0.1, 0.6, 100_000, 40
    curvature = torch.tensor([2.0, 5.0, 12.0], dtype=torch.float64)
    parameter = nn.Parameter(torch.zeros(count, 3, dtype=torch.float64))
    settings = {"momentum": beta, "temperature": temperature, "weight_decay": decay, "alpha": alpha}
    optimizer = AdaptiveVariational(
        [parameter], lr, 100, scale_lr=0.0, initial_scale=tau, generator=seeded(7), **settings
    )
    for _ in range(steps):
        parameter.grad = curvature * parameter.detach()
        optimizer.step()
    reach, amount = tau ** (2 * alpha), bF.injected_scale(lr, beta, temperature)
    for column, h in enumerate(curvature.tolist()):
        force = lr * (h + decay)
        move = np.array([[1.0 - reach * force, reach * beta], [-force, beta]])
        noise = np.array([[reach], [1.0]]) * amount / tau ** (2 * alpha - 1)
        exact = solve_discrete_lyapunov(move, noise @ noise.T)[0, 0]
        assert np.abs(np.linalg.eigvals(move)).max() ** steps < 1e-3  # the start is forgotten
        # four standard errors of the variance of independent normal coordinates
        assert parameter.detach()[:, column].var().item() == pytest.approx(exact, rel=4 * math.sqrt(2 / count))


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_the_natural_form_finds_a_gaussian_posterior(alpha):
    """Curvatures of a mean loss and its prior: the precision by "stein" and the mean are those of the posterior."""
    curvature, center, decay = torch.tensor([0.2, 1.0, 5.0]), torch.tensor([1.0, -2.0, 0.5]), 0.05
    parameter = nn.Parameter(torch.zeros(2_000, 3))
    settings = {"estimator": "stein", "weight_decay": decay, "momentum": 0.0, "scale_lr": 0.01, "alpha": alpha}
    optimizer = AdaptiveVariational([parameter], 0.05, 100, form="natural", generator=seeded(7), **settings)
    for _ in range(1_500):
        with optimizer.sampled_parameters():
            parameter.grad = curvature * (parameter.detach() - center)
        optimizer.step()
    precision = optimizer.scale(parameter).pow(-2).mean(dim=0)
    # the multiplicative noise of the steps biases the precision by a share of the order of the rate
    torch.testing.assert_close(precision, curvature + decay, rtol=0.05, atol=0.0)
    wanted = curvature * center / (curvature + decay)
    torch.testing.assert_close(parameter.detach().mean(dim=0), wanted, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("form", FORMS)
def test_a_stack_moves_as_its_networks_alone(form):
    """With the same noise, which the stack draws for all at once."""
    start = torch.randn(3, 4, 17, generator=seeded(0))

    class Given(AdaptiveVariational):
        def _draw(self, parameters, temperature):
            return [self.given.clone()]

    def run(first, given):
        parameter = nn.Parameter(first.clone())
        optimizer = Given([parameter], 0.05, 40, form=form, weight_decay=0.01)
        for step in range(20):
            optimizer.given = given[step]
            if form == "natural":
                with optimizer.sampled_parameters():
                    parameter.grad = torch.sin(3.0 * parameter.detach())
            else:
                parameter.grad = torch.sin(3.0 * parameter.detach())
            optimizer.step()
        return parameter.detach()

    noise = torch.randn(20, 3, 4, 17, generator=seeded(1))
    stack = run(start, noise)
    for r in range(3):
        assert torch.equal(stack[r], run(start[r], noise[:, r]))


def test_a_draw_that_is_waiting_for_its_step_is_saved_too():
    def build():
        parameter = nn.Parameter(torch.ones(4))
        settings = {"form": "natural", "estimator": "stein", "generator": seeded(7)}
        return parameter, AdaptiveVariational([parameter], 0.1, 10, **settings)

    parameter, optimizer = build()
    with optimizer.sampled_parameters():
        parameter.grad = parameter.detach().clone()
    other, later = build()
    later.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    other.grad = parameter.grad.clone()
    optimizer.step()
    later.step()
    assert torch.equal(parameter, other) and torch.equal(optimizer.scale(parameter), later.scale(other))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_draw_leaves_the_means(error):
    model = network()
    optimizer = AdaptiveVariational(model.parameters(), 0.05, 50, form="natural", estimator="stein")
    train(model, optimizer, 3)
    before = values(model)

    def closure():
        assert not torch.equal(values(model), before)
        raise error

    with pytest.raises(error):
        optimizer.step(closure)
    assert torch.equal(values(model), before)
    with pytest.raises(ValueError, match="needs the draw"):  # the interrupted one does not count
        optimizer.step()
    train(model, optimizer, 1)
    assert not torch.equal(values(model), before)


def test_lr_zero_at_the_end_of_a_schedule_is_a_step_that_stands_still_but_for_momentum():
    parameter = nn.Parameter(torch.ones(3))
    optimizer = AdaptiveVariational([parameter], 0.1, 10, momentum=0.0, generator=seeded(7))
    optimizer.param_groups[0]["lr"] = 0.0
    parameter.grad = torch.ones(3)
    optimizer.step()
    assert parameter.tolist() == [1.0, 1.0, 1.0]


def test_a_chain_that_diverges_says_so():
    parameter = nn.Parameter(torch.ones(3))
    optimizer = AdaptiveVariational([parameter], 100.0, 10, scale_lr=0.0, initial_scale=1.0)
    with pytest.raises(DivergedError, match="mean over the batch"):
        for _ in range(200):
            parameter.grad = parameter.detach().clone()
            optimizer.step()


BAD = [
    *(({name: value}, f"{name} is {value!r}") for name, values in (
        ("alpha", (0.75, math.nan)), ("form", ("adam",)), ("estimator", ("hutchinson",)),
        ("num_data", (0, -5, None, math.nan)), ("lr", (0, math.nan)), ("temperature", (-1, math.inf)),
        ("weight_decay", (-0.1,)), ("scale_lr", (-0.1,)), ("momentum", (1,)), ("initial_scale", (0, 1.5)),
    ) for value in values),
    ({"estimator": "stein"}, "estimator is of form='natural'"),
    ({"scale_lr": 1.0, "form": "natural"}, "must be below 1"),
    ({"initial_scale": 1.0}, "initial_scale is 1, from where"),
    ({"params": [nn.Parameter(torch.ones(2, device="meta"))], "generator": seeded()}, "generator is on cpu"),
    ({}, "weights are draws already"),
]  # fmt: skip
SETTINGS = {"params": [nn.Parameter(torch.ones(2))], "lr": 0.1, "num_data": 10}
test_bad_settings_are_named = refusals(
    [(lambda s=s: AdaptiveVariational(**(SETTINGS | s)).sampled_parameters().__enter__(), words) for s, words in BAD]
)

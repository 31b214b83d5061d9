"""Hamiltonian Monte Carlo: its order, reversibility, warm-up, and densities that are wrong."""

import math

import pytest
import torch

from bnnlib.sampling import HamiltonianMonteCarlo, effective_sample_size, sample, warm_up
from tests.bnnlib.sampling.conftest import COVARIANCE, DOUBLE
from tests.seeded import seeded

METRICS = {"identity": None, "diagonal": COVARIANCE.diagonal().clone(), "dense": COVARIANCE}


def quartic(points):
    """Not a Gaussian, so that leapfrog errors do not cancel."""
    return -0.25 * points.pow(4).sum(-1) - 0.5 * (points[:, 0] - points[:, 1]).square()


def energy(kernel, state, momentum):
    return -state.log_prob + 0.5 * (momentum * kernel._velocity(momentum)).sum(-1)


@pytest.mark.parametrize("metric", METRICS)
def test_leapfrog_is_reversible_and_keeps_volume(metric, generator):
    kernel = HamiltonianMonteCarlo(quartic, 0.06, 7, METRICS[metric])
    state = kernel.start(torch.randn(50, 2, generator=generator, dtype=DOUBLE))
    momentum = torch.randn(50, 2, generator=generator, dtype=DOUBLE)
    end, turned = kernel.leapfrog(state, momentum, 0.06)
    back, again = kernel.leapfrog(end, -turned, 0.06)
    assert (end.position - state.position).abs().mean() > 0.1
    for found, expected in ((back.position, state.position), (-again, momentum), (back.cache, state.cache)):
        assert (found - expected).abs().max() < 1e-12
    # the Jacobian of (position, momentum) by central differences
    columns = []
    for i in range(4):
        ends = []
        for sign in (1.0, -1.0):
            shift = torch.zeros(4, dtype=DOUBLE)
            shift[i] = sign * 1e-5
            moved = kernel.leapfrog(kernel.start(state.position + shift[:2]), momentum + shift[2:], 0.06)
            ends.append(torch.cat([moved[0].position, moved[1]], dim=1))
        columns.append((ends[0] - ends[1]) / 2e-5)
    assert (torch.linalg.det(torch.stack(columns, dim=-1)) - 1.0).abs().max() < 1e-6


@pytest.mark.parametrize("metric", METRICS)
def test_the_energy_error_is_of_second_order(metric, generator):
    start, momentum = (0.5 * torch.randn(200, 2, generator=generator, dtype=DOUBLE) for _ in range(2))
    errors = []
    for steps in (40, 80, 160):
        kernel = HamiltonianMonteCarlo(quartic, 1.0, steps, METRICS[metric])
        state = kernel.start(start)
        before = energy(kernel, state, momentum)
        errors.append(float((energy(kernel, *kernel.leapfrog(state, momentum, 1.0 / steps)) - before).abs().mean()))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.1)


@pytest.mark.slow
def test_warm_up_on_scales_from_a_hundredth_to_a_hundred(generator):
    scale = torch.logspace(-2, 2, 9, dtype=DOUBLE)

    def log_prob(points):
        return -0.5 * (points / scale).square().sum(-1)

    start = torch.randn(32, 9, generator=generator, dtype=DOUBLE)
    found = warm_up(log_prob, start, 500, generator=generator)
    covariance = found.kernel.covariance
    spread = covariance.diagonal().sqrt() / scale
    assert 0.8 < spread.min() and spread.max() < 1.25
    trace = sample(found.kernel, found.state, 200, generator=generator)
    assert float(trace.acceptance.mean()) == pytest.approx(0.8, abs=0.08)
    worth = effective_sample_size(trace.draws)
    assert worth.min() > 0.2 * 32 * 200
    # the standard error of an estimated deviation is 1 / sqrt(2 n) of it
    error = 4.0 / (2.0 * effective_sample_size(trace.draws.square())).sqrt()
    assert ((trace.draws.std(dim=(0, 1)) / scale - 1.0).abs() < error).all()


@pytest.mark.slow
def test_warm_up_meets_its_target_rate(generator):
    found = warm_up(quartic, torch.randn(64, 2, generator=generator, dtype=DOUBLE), 400, generator=generator)
    trace = sample(found.kernel, found.state, 200, generator=generator)
    # the rate is concave in the step's logarithm: at the mean of the logarithms it lies above the mean of the rates
    assert 0.77 < float(trace.acceptance.mean()) < 0.92


def test_warm_up_learns_a_correlation(generator):
    precision = torch.linalg.inv(COVARIANCE)
    start = torch.zeros(64, 2, dtype=DOUBLE)
    found = warm_up(lambda x: -0.5 * (x @ precision * x).sum(-1), start, 300, generator=generator)
    assert (found.kernel.covariance - COVARIANCE).abs().max() < 0.5


def test_the_same_generator_makes_the_same_warm_up():
    runs = [warm_up(quartic, torch.zeros(4, 2, dtype=DOUBLE), 20, generator=seeded(4)) for _ in range(2)]
    assert torch.equal(*(run.state.position for run in runs)) and torch.equal(*(run.kernel.covariance for run in runs))


def test_a_trajectory_that_runs_off_is_refused(generator):
    """Far too large a step: the quartic's gradient throws the chain beyond all numbers, where its density is NaN."""
    kernel = HamiltonianMonteCarlo(lambda x: quartic(x) + 0.0 * x.pow(4).sum(-1), 20.0, 8)
    start = torch.randn(16, 2, generator=generator, dtype=DOUBLE)
    with pytest.warns(UserWarning, match="16 of 16 chains never moved"):
        trace = sample(kernel, start, 5, generator=generator)
    assert torch.equal(trace.state.position, start) and float(trace.acceptance.max()) == 0.0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_warm_up_ends_at_finite_points_where_a_density_is_wrong(value, generator):
    def log_prob(points):
        return torch.where(points[:, 0] > 1.0, value, -0.5 * points.square().sum(-1))

    found = warm_up(log_prob, torch.zeros(200, 2, dtype=DOUBLE), 40, generator=generator)
    assert found.kernel.covariance.isfinite().all() and found.state.position.isfinite().all()


def test_a_bounded_support_is_kept_by_hmc(generator):
    """-inf outside is no mistake: an exponential law on [0, inf)."""

    def log_prob(points):
        return torch.where(points[:, 0] < 0.0, -torch.inf, -points[:, 0])

    start = -torch.rand(20_000, 1, generator=generator, dtype=DOUBLE).log()
    trace = sample(HamiltonianMonteCarlo(log_prob, 0.3, 3), start, 1, thin=20, generator=generator)
    draws = trace.draws[:, 0, 0]
    assert draws.min() > 0.0 and trace.acceptance.mean() < 0.95
    assert abs(float(draws.mean()) - 1.0) < 4.0 / 20_000**0.5

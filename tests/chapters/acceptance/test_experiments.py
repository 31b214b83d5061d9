"""Experiments on acceptance: what their cells count, resume and compare; and a generator that only draws."""

import math
import statistics
import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import nn

from bnnlib import datasets
from bnnlib import sampling as mcmc
from book import lab
from book.lab.cells import Cell
from chapters.acceptance.adversarial import ADVERSARIAL_OBJECTIVES, learn_adversarial_proposal
from chapters.acceptance.experiments import lenet, logistic, short_learning, six_gaussians
from chapters.acceptance.figures.results import HMC_GRADIENTS, HMC_WARM_UP, crossings, crossings_in_evaluations
from chapters.acceptance.formulas import mean_of
from chapters.acceptance.targets import logistic_posterior
from tests.chapters import cells
from tests.chapters.cells import CPU, values
from tests.seeded import seeded

needs_sets = pytest.mark.skipif(not datasets.available("breast_cancer"), reason="scikit-learn is absent")


def smoke(name: str, method: str):
    cell = cells.smoke(name, method)
    return replace(cell, params=cell.params | {k: v for k, v in lab.get(name).tiny.items() if k in cell.params})


@pytest.mark.slow
def test_six_gaussians_counts_what_the_chain_drew():
    cell = smoke("mh-six-gaussians", "VI")
    result = six_gaussians.run_cell(cell, CPU)
    found, table = values(result), result.arrays["histogram"]
    assert table.shape == (six_gaussians.BINS, six_gaussians.BINS)
    assert table.sum() <= cell.params["draws"]  # the rest lies outside of the picture
    assert 0 <= found["modes_found"] <= 6 and 0 <= found["acceptance"] <= 100


def test_a_histogram_has_the_second_coordinate_upward():
    table = six_gaussians.histogram(torch.tensor([[-7.9, 7.9], [-7.9, 7.8]]))
    assert table[-1, 0] == 2 and table.sum() == 2


def test_total_variation_of_a_proposal_far_away_is_one_and_counts_what_leaves_the_grid():
    density = mcmc.RealNVP(2, 2, 4, scale=0.1)
    with torch.no_grad():
        density.base.mean.fill_(100.0)
    # float32 sums over 160,000 cells
    assert six_gaussians.proposal_tv(density) == pytest.approx(1.0, abs=1e-5)
    with torch.no_grad():
        density.base.mean.fill_(0.0)
    # a narrow spot in the middle of the ring shares nothing with six Gaussians at distance ten sds
    assert six_gaussians.proposal_tv(density) == pytest.approx(1.0, abs=1e-5)


def test_the_reduced_lenet_is_the_network_of_torch():
    generator = torch.Generator().manual_seed(0)
    weights, x = torch.randn(lenet.NUM_WEIGHTS, generator=generator) / 10, torch.rand(3, 1, 28, 28, generator=generator)
    layers = [nn.Conv2d(1, 6, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, 10))
    nn.utils.vector_to_parameters(weights, network.parameters())
    torch.testing.assert_close(lenet.logits(weights, x), network(x))


def test_without_entropy_the_gradient_is_that_of_the_noisy_loss():
    """One epoch of one batch: VI less "No entropy" moves the scales by the entropy's gradient, up."""
    x, y = torch.rand(16, 1, 28, 28, generator=torch.Generator().manual_seed(1)), torch.arange(16) % 10
    scales = {}
    for method in ("VI", "No entropy"):
        density = lenet._start(0.02, 0)
        optimizer = torch.optim.SGD(density.parameters(), lr=1e-3)
        state = {"position": density.mean.detach()[None].clone(), "accepted": [], "nll": []}
        lenet._epoch(method, density, optimizer, state, x, y, 16, torch.Generator().manual_seed(2))
        scales[method] = density.rho.detach().clone()
    sd = F.softplus(lenet._start(0.02, 0).rho.detach()) + 1e-6
    slope = torch.sigmoid(lenet._start(0.02, 0).rho.detach()) / sd  # of log sd in rho
    # rho is near -4, where float32 has a spacing of 2.4e-7: two roundings
    torch.testing.assert_close(scales["VI"] - scales["No entropy"], 1e-3 * slope / len(x), rtol=0.01, atol=5e-7)


@pytest.mark.slow
@needs_sets
def test_logistic_regression_compares_all_methods_with_the_reference():
    cells = lab.get("mh-logistic").profiles["smoke"]()
    tiny = {k: v for k, v in lab.get("mh-logistic").tiny.items() if k in cells[0].params}
    reference = logistic.run_reference(replace(cells[0], params=cells[0].params | tiny), CPU)
    assert set(reference.product) == {"mean", "sd"} and (reference.product["sd"] > 0).all()
    cell = smoke("mh-logistic", "all methods")
    rows = logistic.run_cell(cell, CPU, None, [reference.product]).rows
    assert {row["method"] for row in rows} == {*logistic.OBJECTIVES, "Laplace", "HMC"}
    # the chains' own moments as the reference: no error
    trace = mcmc.sample(
        mcmc.metropolis_hastings(lambda p: -0.5 * p.square().sum(1), mcmc.RandomWalk(1.0)), torch.zeros(8, 2), 20
    )
    draws = trace.draws.double()
    own = {"mean": draws.mean((0, 1)), "sd": draws.flatten(0, 1).std(0)}
    found = {r["metric"]: r["value"] for r in logistic._rows(cell, "HMC", trace, 2.0, 6.0, own)}
    assert found["mean_error"] == 0 and found["sd_error"] == 0
    assert found["ess_per_second"] == pytest.approx(4 * found["ess_per_second_with_training"])


def test_moments_of_every_draw_have_the_way_from_the_start_in_them(monkeypatch):
    sizes, sd = [], 0.1

    class Recorded(mcmc.HamiltonianMonteCarlo):
        def step(self, state, generator=None):
            sizes.append(self.step_size)
            return super().step(state, generator)

    monkeypatch.setattr(mcmc, "HamiltonianMonteCarlo", Recorded)
    monkeypatch.setattr(logistic, "_target", lambda cell, device: (lambda p: -0.5 * (p / sd).square().sum(1), 2))
    params = {"chains": 1000, "step_size": 0.01, "num_leapfrog": 40, "hmc_draws": 4}
    rows = logistic.run_kept(Cell("Heart", logistic.KEPT, (0,), params), CPU).rows
    # the first step is not longer than it was, since the acceptance starts at what is wanted of it; all are accepted
    assert sizes == pytest.approx([0.01, 0.0097, 0.0097 * 1.03, 0.0097 * 1.03**2])
    # a trajectory of length t leaves cos^2(t / sd) of a variance and adds sd^2 sin^2(t / sd)
    variance, every = 1.0, []
    for size in sizes:
        turn = math.cos(40 * size / sd) ** 2
        variance = turn * variance + (1 - turn) * sd**2
        every.append(variance)
    found = [row["value"] for row in rows if row["metric"] == "posterior_sd"]
    # a variance of 1000 chains is known to sqrt(2 / 1000), 4.5 %, half of it in the sd, of which three
    assert found == pytest.approx([statistics.fmean(every) ** 0.5] * 2, rel=0.07)
    assert [row["setting"] for row in rows] == ["Heart, w1"] * 2 + ["Heart, bias"] * 2


def test_where_learning_has_paid_both_take_equally_long():
    """Run by run: a method that is faster in one run and slower in the other catches up in the first alone."""
    race = {"A": ((100.0, 10.0), (40.0, 1.0)), "HMC": ((25.0, 20.0), (4.0, 2.0))}
    rows = [
        {"setting": "s", "method": method, "metric": metric, "values": values, "profile": "book"}
        for method, pair in race.items()
        for metric, values in zip(("ess_per_second", "seconds_training"), pair, strict=True)
    ]
    draws, never = crossings(rows, "s", "A")
    assert 40 + draws / 100 == pytest.approx(4 + draws / 25)
    assert never == math.inf  # slower for good
    assert crossings([], "s", "A") == []


def test_counted_by_evaluations_learning_has_paid_where_both_have_spent_the_same():
    shares = {"A": (80.0, 20.0), "HMC": (40.0, 50.0)}
    rows = [
        {"setting": "s", "method": method, "metric": "ess_share_geyer", "values": values, "profile": "book"}
        for method, values in shares.items()
    ]
    draws, never = crossings_in_evaluations(rows, "s", "A", 512_000)
    assert 512_000 + draws / 0.8 == pytest.approx(HMC_WARM_UP + HMC_GRADIENTS * draws / 0.4)
    assert never == math.inf  # five evaluations an effective draw, and HMC four
    assert crossings_in_evaluations([], "s", "A", 512_000) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Heart", "Australian", "German"])
def test_a_warm_up_of_hmc_takes_what_the_count_of_evaluations_says(name):
    if not datasets.available(logistic.SETS[name]):
        pytest.skip(f"{name} is absent")
    book = lab.get("mh-logistic").profiles["book"]()
    cell = next(one for one in book if (one.setting, one.method) == (name, "all methods"))
    log_prob, dim = logistic._target(cell, CPU)
    evaluations = 0

    def counted(points):
        nonlocal evaluations
        evaluations += len(points)
        return log_prob(points)

    generator = torch.Generator().manual_seed(76_000 + cell.replicates[0])
    start = 0.1 * torch.randn(cell.params["chains"], dim, generator=generator)
    found = mcmc.warm_up(counted, start, cell.params["warm_up"], generator=generator)
    assert (evaluations, found.kernel.num_leapfrog) == (HMC_WARM_UP, HMC_GRADIENTS)


@needs_sets
@pytest.mark.parametrize("method", short_learning.METHODS)
def test_short_learning_counts_the_points_at_which_the_posterior_was_asked_for(method):
    cell = smoke("mh-short", method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # three steps of learning: some chains never move
        found = values(short_learning.run_cell(cell, CPU))
    if method == short_learning.HMC:
        # at first two evaluations each, then windows of 3, 2, 3, 6, 3 and 3 of 20 steps: 8 leapfrog steps in the first
        # two, by dimension round(1.5 * 31^(1/4)) = 4 up to the last, whose number is learned
        assert found["evaluations_learning"] == 8 * (2 + 5 * 8 + 12 * 4 + 3 * found["evaluations_draw"])
    else:
        chain = method != "VI"  # it asks at its start, too
        assert found["evaluations_learning"] == 16 * (3 + chain) and found["evaluations_draw"] == 1


def test_the_posterior_does_not_overflow():
    x = torch.tensor([[1e3], [-1e3]])
    log_prob = logistic_posterior(x, torch.tensor([True, False]))
    assert log_prob(torch.tensor([[100.0, 0.0], [-100.0, 0.0]])).isfinite().all()


SEED = 7


def networks(dim=1, hidden=32):
    torch.manual_seed(0)
    score = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))
    return nn.Linear(2, dim), score


@pytest.fixture(autouse=True)
def own_seed():
    with torch.random.fork_rng():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("objective", ADVERSARIAL_OBJECTIVES)
def test_moments_of_a_normal_law_are_learned(objective, generator):
    samples = 1.5 + 0.7 * torch.randn(20_000, 1, generator=generator)
    network, score = networks()
    settings = {"latent_dim": 2, "num_steps": 1200, "batch_size": 128, "learning_rate": 4e-3, "score_steps": 2}
    rates = learn_adversarial_proposal(samples, network, score, objective, **settings, generator=generator)
    assert rates.shape == (1200,) and ((rates >= 0) & (rates <= 1)).all()
    points = network(torch.randn(20_000, 2, generator=generator))
    # the equilibrium is circled, not reached: within a seventh of the deviation
    assert abs(float(points.mean()) - 1.5) < 0.1
    assert abs(float(points.std()) - 0.7) < 0.1
    assert float(rates[-200:].mean()) > 0.8


@pytest.mark.slow
def test_the_score_learns_the_log_ratio(generator):
    """With a generator that does not move, the difference of scores is the log ratio of the acceptance test."""
    samples = 0.5 + torch.randn(50_000, 1, generator=generator)
    score = nn.Linear(1, 1)

    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.idle = nn.Parameter(torch.zeros(1))

        def forward(self, noise):
            return noise + 0.0 * self.idle

    rates = learn_adversarial_proposal(
        samples, Frozen(), score, latent_dim=1, num_steps=3000, batch_size=1024, learning_rate=3e-3, generator=generator
    )
    # log p / q = x / 2 - 1 / 8
    assert float(score.weight) == pytest.approx(0.5, abs=0.04)
    # and 1 - TV(p x q, q x p), two normal laws at distance 1 / sqrt(2) along the diagonal
    exact = 2.0 * float(torch.special.ndtr(torch.tensor(-0.5 / 2**0.5)))
    assert float(rates[-300:].mean()) == pytest.approx(exact, abs=0.02)


def test_the_same_generator_learns_the_same():
    found, settings = [], {"latent_dim": 2, "num_steps": 5, "batch_size": 8}
    for _ in range(2):
        network, score = networks()
        samples = torch.randn(50, 1, generator=seeded(1))
        learn_adversarial_proposal(samples, network, score, **settings, generator=seeded())
        found.append(network.weight.detach())
    assert torch.equal(*found)


def test_the_mean_and_its_error():
    values = torch.tensor([1.0, 2.0, 4.0, 9.0])
    assert mean_of(values) == (4.0, pytest.approx(stats.sem(values.numpy())))
    assert mean_of(values[:1]).mean == 1.0 and math.isnan(mean_of(values[:1]).standard_error)

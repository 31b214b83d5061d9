"""The runs behind the coverage of the dense teacher: chains against weighted draws of the prior, what each changes."""

import itertools
from dataclasses import replace

import pytest
import torch

from bnnlib.replicates import Layout
from book import lab
from chapters.shared import simulated
from chapters.spike_slab.experiments import coverage
from chapters.spike_slab.gibbs import GateChains, outputs

CPU, DOUBLE = torch.device("cpu"), {"dtype": torch.float64}


def _cells(method: str):
    return [cell for cell in lab.get("svbnn-coverage").profiles["smoke"]() if cell.method == method]


@pytest.mark.slow
def test_the_chains_keep_the_posterior_of_weighted_draws_of_the_prior():
    generator, sizes, lam, scale = torch.Generator().manual_seed(0), (1, 2, 1, 1), 0.4, 3.0
    x = torch.linspace(-1, 1, 9, **DOUBLE)[:, None]
    y = 3.0 * torch.sigmoid(4.0 * x[:, 0])
    prior = Layout(sizes, 1_000_000)
    theta = scale * torch.randn(prior.replicates, prior.num_parameters, generator=generator, **DOUBLE)
    theta *= torch.rand(theta.shape, generator=generator, **DOUBLE) < lam
    weight = (-0.5 * (y - outputs(prior, theta, x)).square().sum(1)).softmax(0)
    said = weight @ torch.cat([(theta != 0).double(), outputs(prior, theta, x)], dim=1)
    start = theta[torch.multinomial(weight, 500, replacement=True, generator=generator)]
    chains, seen = GateChains(x, y, start, sizes, lam, scale, generator), []
    changed = 0.0
    for _ in range(60):
        chains.sweep()
        chains.move((0.5, 0.5, 0.5), 5)
        changed = changed + torch.stack([chains.path() for _ in range(3)]).double().mean()
        seen.append(torch.cat([(chains.theta != 0).double(), outputs(chains.layout, chains.theta, x)], 1).mean(0))
    # a million weighted draws are worth some 3,000 equal ones, the chains at least their 500 starts: sd 0.02
    torch.testing.assert_close(torch.stack(seen[20:]).mean(0), said, atol=0.06, rtol=0.0)
    assert changed / 60 > 0.03
    assert said[:9].max() > lam + 0.2  # the data have a say in the gates


def test_what_a_sweep_keeps_is_what_the_weights_give():
    generator = torch.Generator().manual_seed(0)
    x, y, _ = simulated.dense_teacher(50, generator)
    start = Layout(simulated.DENSE_SIZES, 3).uniform(-0.6, 0.6, generator, torch.float64)
    chains = GateChains(x.double(), y[:, 0].double(), start, simulated.DENSE_SIZES, 0.5, 1.3, generator)
    for _ in range(3):
        chains.sweep()
        torch.testing.assert_close(chains._f, outputs(chains.layout, chains.theta, chains.x), atol=1e-9, rtol=0.0)
    assert (chains.theta != start).any() and (chains.theta == 0).any()


def test_the_teacher_is_that_of_the_simulation_and_new_ones_change_the_mean_alone():
    x, y, test_x, test_y, test_f = coverage.data((0, 1), False)
    f = outputs(Layout(simulated.DENSE_SIZES, 1), coverage.teacher(coverage.FIXED), test_x)[0]
    torch.testing.assert_close(f, test_f[0, :, 0], atol=1e-5, rtol=0.0)
    new_x, new_y, _, new_test_y, new_f = coverage.data((0, 1), True)
    assert torch.equal(x, new_x) and (new_f[0] - new_f[1]).abs().mean() > 0.05
    torch.testing.assert_close(new_test_y - new_f, test_y - test_f, atol=1e-5, rtol=0.0)
    one = outputs(Layout(simulated.DENSE_SIZES, 1), coverage.teacher(coverage.FIRST_NEW + 1), x[:, 1])[0]
    old = outputs(Layout(simulated.DENSE_SIZES, 1), coverage.teacher(coverage.FIXED), x[:, 1])[0]
    torch.testing.assert_close(new_y[:, 1, 0] - y[:, 1, 0], one - old, atol=1e-5, rtol=0.0)


def test_initial_scales_share_their_start_and_every_snapshot_has_rows(monkeypatch):
    found = {}
    fit = coverage.fit_stacked

    def watched(model, *rest, **named):
        started = {name: value.detach().clone() for name, value in model.posterior.named_parameters()}
        found.update(named, model=started)
        fit(model, *rest, **named)

    monkeypatch.setattr(coverage, "fit_stacked", watched)
    cell = _cells("SVBNN")[1]
    rows = coverage.run_cell(cell, CPU, None).rows
    posterior = found["model"]
    assert found["kl_scale"] == cell.params["kl_scale"] == 0.1
    assert torch.nn.functional.softplus(posterior["weight_rho"]).mean(1).tolist() == pytest.approx([0.0025, 0.05, 0.3])
    assert torch.equal(posterior["weight"][0], posterior["weight"][1])
    asked = {f"sigma={s:g}, KL x 0.1, {e} epochs" for s, e in itertools.product((0.0025, 0.05, 0.3), (2, 4))}
    assert {row["setting"] for row in rows} == asked


def test_measuring_on_the_way_changes_nothing_and_is_that_of_the_simulation():
    cell = next(cell for cell in _cells("SVBNN") if cell.setting == "KL x 1")
    both = coverage.run_cell(cell, CPU, None).rows
    last = coverage.run_cell(replace(cell, params=cell.params | {"snapshots": [4]}), CPU, None).rows
    assert [row for row in both if row["setting"].endswith(" 4 epochs")] == last

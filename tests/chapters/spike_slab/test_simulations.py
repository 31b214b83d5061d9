"""The simulation cells: what they return, that they resume bit for bit, what is chosen; and the pruning of a stack."""

import math
from dataclasses import replace

import pytest
import torch

from bnnlib.functional import inclusion_probability_for
from bnnlib.replicates import Layout, StackedDeterministic
from chapters.shared import simulated
from chapters.spike_slab.experiments import simulations as sims
from chapters.spike_slab.pruned import prune_stacked
from tests.chapters.cells import CPU, smoke


@pytest.fixture(autouse=True)
def small_test_set(monkeypatch):
    """Predictions for 10,000 test inputs would be most of these tests' time."""
    monkeypatch.setattr(sims, "NUM_TEST", 200)
    monkeypatch.setattr(sims, "NUM_INTERVAL_POINTS", 50)


EXPERIMENTS = {experiment.name: experiment for experiment in sims.EXPERIMENTS}
EXPECTED = {"rmse_train", "rmse_test", "sparsity"}


@pytest.mark.parametrize("method", sims._METHODS)
@pytest.mark.parametrize(("name", "setting"), [("svbnn-simulation-1a", "dense"), ("svbnn-simulation-2", "N(0,1)")])
def test_a_cell_has_one_finite_row_for_every_metric_and_replicate(name, setting, method):
    cell = smoke(name, method, setting)
    rows = sims.run_cell(cell, CPU, None).rows
    metrics = {row["metric"] for row in rows}
    assert metrics >= EXPECTED
    assert ("fpr" in metrics) == (name.endswith("2") and method != "HS-BNN")
    assert ("coverage" in metrics) == (method not in ("AGP", "LOT"))
    assert len(rows) == len(metrics) * len(cell.replicates)
    assert all(math.isfinite(row["value"]) for row in rows)


def test_paper_profile_has_the_published_sizes():
    cells = EXPERIMENTS["svbnn-simulation-2"].profiles["paper"]()
    cell = next(cell for cell in cells if (cell.setting, cell.method) == ("U(-1,1)", "SVBNN"))
    assert len(cell.replicates) == 30
    assert cell.params["epochs"] == 7_000
    assert cell.params["batch_size"] == 512
    assert cell.params["learning_rate"] == 5e-3
    for half in ("1a", "1b"):  # 60 replicates for the coverage
        assert len(EXPERIMENTS[f"svbnn-simulation-{half}"].profiles["paper"]()[0].replicates) == 60


def test_data_of_a_replicate_do_not_depend_on_the_others():
    problem = sims.PROBLEMS["1b"]
    together, _ = problem.data((3, 5))
    alone, _ = problem.data((5,))
    assert torch.equal(together[:, 1], alone[:, 0])
    assert not torch.equal(together[:, 0], together[:, 1])


def test_sweep_rows_name_their_lambda_and_share_the_data_of_a_replicate():
    cell = smoke("svbnn-lambda", "SVBNN", "1b")
    rows = sims.run_cell(cell, CPU, None).rows
    assert {row["setting"] for row in rows} == {f"1b/lambda={value}" for value in sims.LAMBDAS}
    problem = sims.PROBLEMS["1b"]
    priors = sims._priors(problem, cell.params, len(sims.LAMBDAS) * 2)
    assert priors[:2] == [1e-200, 1e-200]
    assert priors[-1] == 0.99
    assert priors[12] == priors[13] == inclusion_probability_for(problem.sizes, problem.num_samples)


def test_the_kept_share_is_chosen_without_the_test_set(monkeypatch):
    cell = smoke("svbnn-simulation-1b", "AGP", "sparse")

    def no_test_data(self):
        raise AssertionError("the test set was read before the choice was made")

    problem = sims.PROBLEMS["1b"]
    x, y = problem.data(cell.replicates)
    monkeypatch.setattr(sims.Problem, "test_data", no_test_data)
    kept, scores = sims._choose_kept(problem, "AGP", x, y, cell.params, CPU)
    assert {key: len(values) for key, values in scores.items()} == dict.fromkeys(cell.params["grid"], 2)
    assert all(scores[kept].mean() <= values.mean() for values in scores.values())


def test_the_kept_share_is_chosen_on_the_first_data_sets_and_all_train_with_it(monkeypatch):
    cell = replace(smoke("svbnn-simulation-1b", "AGP", "sparse"), replicates=(0, 1, 2))
    monkeypatch.setattr(sims, "_CHOOSERS", 2)
    rows = sims.run_cell(cell, CPU, None).rows
    held_out = [row["replicate"] for row in rows if row["metric"] == f"rmse_validation@{cell.params['grid'][0]:g}"]
    assert held_out == [0, 1]
    assert [row["replicate"] for row in rows if row["metric"] == "rmse_test"] == [0, 1, 2]


def test_the_divergence_of_variational_dropout_rises_over_a_quarter_of_the_epochs(monkeypatch):
    cell = next(c for c in EXPERIMENTS["svbnn-simulation-2"].profiles["paper"]() if c.method == "VD")
    asked = []
    monkeypatch.setattr(
        sims, "fit_stacked", lambda *_, kl_scale, **__: asked.extend(map(kl_scale, (0, 874, 1749, 6999)))
    )
    monkeypatch.setattr(sims, "measured", lambda *_: {})
    sims.run_cell(cell, CPU, None)
    assert asked == [1 / 1750, 0.5, 1.0, 1.0]


def test_designs_have_the_stated_moments():
    generator = torch.Generator().manual_seed(0)
    for design, variance in (("uniform", 1 / 3), ("normal", 1.0)):
        x, y, f = simulated.simulation_two(2_000, generator, design)
        # 400,000 entries: the relative standard error of the variance is at most sqrt(2 / 400000) = 0.0022
        assert x.var().item() == pytest.approx(variance, rel=0.01)
        # noise N(0, 1) from 2,000 draws: standard error 0.032
        assert (y - f).var().item() == pytest.approx(1.0, abs=0.13)


def test_the_null_model_of_simulation_two_has_the_published_plateau():
    """An over-small lambda leaves only the output bias: sqrt(Var f0 + 1), which is 3.9 under U(-1, 1) only."""
    for design, plateau in (("uniform", 3.9), ("normal", 6.0)):
        _, y, _ = simulated.simulation_two(50_000, torch.Generator().manual_seed(1), design)
        # the standard error of a standard deviation from 50,000 draws of these tails is below 0.03
        assert y.std().item() == pytest.approx(plateau, abs=0.1)


def _posterior(sizes=(20, 6, 6, 1), replicates=3):
    layout = Layout(sizes, replicates)
    return StackedDeterministic(layout, layout.kaiming_uniform(torch.Generator().manual_seed(0)))


def _kept(posterior):
    return torch.stack([mask.flatten(1).sum(1) for mask, _ in posterior.layout.layers(posterior.mask)], dim=1)


@pytest.mark.parametrize("sizes", [(20, 6, 6, 1), (100, 6, 6, 1), (200, 7, 7, 7, 1)])
def test_no_layer_is_empty_at_any_share_of_the_grid(sizes):
    for kept in (0.05, 0.1, 0.3, 0.5):
        posterior = _posterior(sizes)
        total = _kept(posterior).sum(1)[0].item()
        prune_stacked(posterior, 1.0 - kept)
        assert (_kept(posterior) > 0).all()
        assert (_kept(posterior).sum(1) == total - round((1.0 - kept) * total)).all()


def test_weights_are_ranked_over_all_layers_of_their_own_network():
    posterior = _posterior()
    with torch.no_grad():
        for number in range(2):  # in the first network the first layer is small, in the second the last two
            for place, (weight, _) in enumerate(posterior.layout.layers(posterior.weight)):
                weight[number].fill_(2.0 if (place == 0) == (number == 1) else 1.0)
    prune_stacked(posterior, 0.7)  # 49 of 162 weights stay, of which 42 are not in the first layer
    assert _kept(posterior)[:2].tolist() == [[7, 36, 6], [47, 1, 1]]


def test_removed_weights_stay_removed_and_biases_are_left_alone():
    posterior = _posterior()
    prune_stacked(posterior, 0.5)
    gone = ~posterior.mask
    with torch.no_grad():
        posterior.weight[gone] = 10.0  # what an optimizer may do to a weight that is out
    prune_stacked(posterior, 0.9)
    assert not posterior.mask[gone].any() and (posterior.weight[gone] == 0).all()
    assert all(bias.all() for _, bias in posterior.layout.layers(posterior.mask))

"""UCI and logistic regression: rows, settings as published, splits, and what happens to a chain that diverges."""

import dataclasses
import math

import pytest
import torch

from bnnlib import datasets
from chapters.learned_priors.experiments import logistic, uci
from tests.chapters.cells import CPU, smoke

UCI, LOGISTIC = uci.EXPERIMENTS[0], logistic.EXPERIMENTS[0]


@pytest.mark.parametrize("cell", UCI.profiles["smoke"](), ids=lambda cell: cell.method)
def test_every_replicate_is_scored(cell):
    rows = uci.run_cell(cell, CPU, None).rows
    scores = [row for row in rows if row["metric"] == "rmse_test"]
    assert [row["replicate"] for row in scores] == list(cell.replicates)
    assert all(math.isfinite(row["value"]) and row["value"] > 0 for row in scores)
    assert any(row["metric"] == "sigma" for row in rows) == (cell.method not in ("SGHMC", "A-SGHMC"))


def test_training_beats_the_mean_of_the_targets():
    cell = smoke("aeb-uci", "A-SGHMC-SA", epochs=60, learning_rate=1e-4)
    *_, test_y = uci._load(uci.SIMULATED, cell.replicates, "standard")
    rows = uci.run_cell(cell, CPU, None).rows
    score = sum(row["value"] for row in rows if row["metric"] == "rmse_test") / len(cell.replicates)
    assert score < 0.5 * test_y.std().item()


def test_settings_are_the_published_ones():
    cells = UCI.profiles["paper"]()
    published = [cell for cell in cells if cell.setting in uci.SETS]
    assert len(published) == 5 * 6
    assert {cell.params["epochs"] for cell in cells} == {201}
    assert {len(cell.replicates) for cell in published} == {20}
    steps = {cell.setting: cell.params["learning_rate"] for cell in cells}
    assert {name for name, step in steps.items() if step != 1e-5} == {"concrete", "concrete, random splits"}
    scales = {cell.setting: cell.params["spike_scale"] for cell in published}
    assert scales == {"boston": 0.1, "yacht": 0.1, "energy": 0.1, "wine-red": 0.01, "concrete": 0.07}


def test_a_diverging_chain_is_not_a_number_and_the_others_go_on(scramble):
    cell = smoke("aeb-uci", "SGHMC", epochs=30)
    # targets of the first chain far beyond what the step size can follow
    scramble(uci, "_load", lambda data: (data[0], torch.cat([1e9 * data[1][:1], data[1][1:]]), *data[2:]))
    rows = [row for row in uci.run_cell(cell, CPU, None).rows if row["metric"] == "rmse_test"]
    assert math.isnan(rows[0]["value"])
    assert math.isfinite(rows[1]["value"])


@pytest.mark.skipif(not datasets.available("yacht"), reason="needs the yacht data set")
def test_random_splits_partition_the_rows_and_differ_by_seed():
    whole = datasets.load("yacht", split=0)
    rows = len(whole.train_y) + len(whole.test_y)
    _, train_y, _, test_y = uci._split("yacht", 3, "random")
    assert len(test_y) == -(-rows // 10)
    together = torch.cat([train_y, test_y]).flatten().sort().values
    assert torch.equal(together, torch.cat([whole.train_y, whole.test_y]).flatten().sort().values)
    assert not torch.equal(test_y, uci._split("yacht", 4, "random")[3])
    train_x = uci._split("yacht", 3, "random")[0]
    assert torch.allclose(train_x.mean(dim=0), torch.zeros(train_x.shape[1]), atol=1e-5)


def test_logistic_rows_and_labels():
    cell = LOGISTIC.profiles["smoke"]()[0]
    rows = logistic.run_cell(cell, CPU, None).rows
    metrics = {row["metric"] for row in rows}
    assert {"accuracy", "nll", "covered", "fnr", "fpr"} <= metrics
    assert len(rows) == len(metrics) * len(logistic.WEIGHTS) * len(logistic.SPIKE_SCALES)
    assert all(math.isfinite(row["value"]) for row in rows)
    x, y, _, _ = logistic.problem(LOGISTIC.profiles["paper"]()[0].params | {"num_train": 5000}, 0)
    # the labels follow sigmoid(3 x1 + 2 x2 + x3): the mean of y given a high logit is its mean probability, here
    # within five standard errors sqrt(p (1 - p) / n) of at most 0.013
    logit = 3.0 * x[:, 0] + 2.0 * x[:, 1] + x[:, 2]
    high = logit > 1.0
    assert y[high].mean().item() == pytest.approx(logit[high].sigmoid().mean().item(), abs=0.065)


def test_every_method_has_noise_of_its_own(monkeypatch):
    seeds, sampler = [], uci.SGHMC
    monkeypatch.setattr(
        uci, "SGHMC", lambda *args, generator, **more: seeds.append(generator.initial_seed()) or sampler(*args, **more)
    )
    for cell in UCI.profiles["smoke"]():
        uci.run_cell(cell, CPU, None)
    assert len(set(seeds)) == len(seeds) == len(uci.METHODS)


def test_the_average_is_of_the_second_half(monkeypatch):
    """With the networks' outputs replaced by the number of the epoch, of four, from 0."""
    cell = UCI.profiles["smoke"]()[0]
    cell = dataclasses.replace(cell, params=cell.params | {"epochs": 4, "batch_size": 110})
    calls, forward = [], uci._forward

    def numbered(net, x):
        if torch.is_grad_enabled():
            return forward(net, x)
        calls.append(x.shape[1])
        return torch.full((*x.shape[:2], 1), 2.0 + len(calls))

    monkeypatch.setattr(uci, "_forward", numbered)
    monkeypatch.setattr(uci.metrics, "rmse", lambda prediction, target, dim: prediction.mean(dim=dim))
    rows = uci.run_cell(cell, CPU, None).rows
    # epochs 2 and 3 say 3 and 4, the last draw 5
    assert {row["value"] for row in rows if row["metric"] == "rmse_test_average"} == {3.5}
    assert {row["value"] for row in rows if row["metric"] == "rmse_test"} == {5.0}

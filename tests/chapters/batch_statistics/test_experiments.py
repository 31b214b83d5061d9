"""The experiments of Stochastic Batch Normalization on enlarged digits: resuming, averaging, what is held out."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bnnlib import datasets, metrics
from bnnlib.nn import bayesian_layers, match_moments, predict, to_stochastic_batch_norm
from book import lab
from book.lab import Cell
from book.lab.cells import Need
from chapters.batch_statistics.experiments import cifar5 as sbn_cifar5
from chapters.batch_statistics.experiments import images as sbn_images
from chapters.batch_statistics.experiments.matched import run_matched
from tests.chapters import cells
from tests.chapters.cells import CPU, needs_digits

NAMES = ("sbn-mnist", "sbn-cifar5")
pytestmark = [needs_digits, pytest.mark.slow]


def short(name: str, method: str = "BN", setting: str = "", **params) -> Cell:
    """A smoke cell with small numbers."""
    cells = lab.get(name).profiles["smoke"]()
    cell = next(one for one in cells if one.method == method and one.setting.startswith(setting))
    small = {"epochs": 1, "batch_size": 64, "batches": 6, "draws": 3, "shown_batches": 12}
    return replace(cell, params={**cell.params, **small, **params})


def values(result, method: str, replicate: int = 0) -> dict[str, float]:
    return cells.values(result, method=method, replicate=replicate)


@pytest.fixture(scope="module")
def result():
    return sbn_images.run_cell(short("sbn-mnist"), CPU, None)


@pytest.fixture(scope="module")
def dropout_result():
    return sbn_images.run_cell(replace(short("sbn-mnist", "DO"), replicates=(0,)), CPU, None)


@pytest.fixture(scope="module")
def plain():
    """Two networks of the second study, and not in the order of their seeds."""
    return sbn_images.run_cell(replace(short("sbn-cifar5", "BN", "ResNet"), replicates=(1, 0)), CPU, None)


def test_every_method_has_every_number(result, dropout_result):
    plain = {"error_test", "temperature"} | {
        f"{name}{suffix}" for name in ("nll", "ece", "entropy_known", "entropy_unknown", "auroc")
        for suffix in ("", "_scaled")
    }  # fmt: skip
    plain |= {"error_test_best_epoch", "nll_best_epoch"}
    gains = {"error_gain", "auroc_gain", "nll_gain", "entropy_gain"}
    fits = {"ks_mean", "ks_scale", "correlation"}
    for replicate in (0, 1):
        assert set(values(result, "BN", replicate)) == plain
        assert set(values(result, "SBN", replicate)) == plain | gains | fits
    assert set(values(result, "DE")) == plain and set(values(result, "DE+SBN")) == plain | gains
    assert not values(result, "DE", 1)
    assert set(values(dropout_result, "DO")) == plain and set(values(dropout_result, "DO+SBN")) == plain | gains
    assert all(math.isfinite(row["value"]) for row in result.rows + dropout_result.rows)
    assert {row["setting"] for row in result.rows} == {"LeNet-5"}


def test_gains_are_paired_differences(result):
    for replicate in (0, 1):
        without, with_sbn = values(result, "BN", replicate), values(result, "SBN", replicate)
        for gain, name in (("error", "error_test"), ("auroc", "auroc"), ("nll", "nll"), ("entropy", "entropy_unknown")):
            assert with_sbn[f"{gain}_gain"] == pytest.approx(with_sbn[name] - without[name], abs=1e-12)


def test_the_control_is_the_same_network_without_the_noise(plain):
    """Its running statistics give BN's error, and its moments those of SBN: without spread the two agree."""
    cell = short("sbn-cifar5", sbn_cifar5.MATCHED, "ResNet")
    control = run_matched(cell, CPU, None, [plain.product])  # it takes the one of its own seed
    found = values(control, sbn_cifar5.MATCHED)
    assert found["error_running"] == values(plain, "BN")["error_test"]
    assert lab.get("sbn-cifar5").function(cell) is run_matched
    again = run_matched(replace(cell, needs=()), CPU, None)
    assert again.rows == control.rows  # trained again from the same seed
    images = sbn_images.load_images(cell.params, CPU)
    model = sbn_images.network(cell.params, 0)
    model.load_state_dict(plain.product["models"][0])
    model = to_stochastic_batch_norm(model)
    random = torch.Generator().manual_seed(92_000)
    match_moments(model, sbn_images.training_batches(images, cell.params, cell.params["batches"], random))
    for layer in bayesian_layers(model):
        layer.running_mean_variance.zero_()
        layer.running_log_scale_variance.zero_()
    draw = predict(model, images["test"].contiguous(memory_format=torch.channels_last), 1)[0]
    assert 100.0 - metrics.accuracy(draw, images["test_y"]) == pytest.approx(found["error_test"], abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("profile", ["smoke", "book", "paper"])
def test_every_network_without_dropout_has_its_control(name, profile):
    """Of the same parameters and seeds; where it starts from trained networks, from those of its cell."""
    cells = lab.get(name).profiles[profile]()
    for trained in (cell for cell in cells if cell.method == "BN" and cell.setting != sbn_cifar5.DRAWN):
        controls = [one for one in cells if (one.setting, one.method) == (trained.setting, sbn_cifar5.MATCHED)]
        assert sorted(seed for one in controls for seed in one.replicates) == list(trained.replicates)
        for one in controls:
            assert {key: value for key, value in one.params.items() if "noise" not in key} == trained.params
            assert one.needs in ((), (Need(name, trained),)) and (profile == "book" or one.needs)


def test_the_drawn_classes_are_five_and_not_the_first():
    known = sbn_cifar5.drawn_classes()
    assert known == sorted(set(known)) and len(known) == 5 and set(known) <= set(range(10))
    cell = next(one for one in lab.get("sbn-cifar5").profiles["book"]() if one.setting == sbn_cifar5.DRAWN)
    assert cell.params["known"] == known != list(range(5))


def test_the_noise_is_measured_where_a_cell_asks_for_it(plain):
    asked = {"noise_draws": 4, "noise_rows": 30}
    cell = short("sbn-cifar5", sbn_cifar5.MATCHED, "ResNet", **asked)
    found = values(run_matched(cell, CPU, None, [plain.product]), sbn_cifar5.MATCHED)
    params = {key: value for key, value in cell.params.items() if key not in asked}
    without = values(run_matched(replace(cell, params=params), CPU, None, [plain.product]), sbn_cifar5.MATCHED)
    assert {name: value for name, value in found.items() if name in without} == without
    scores = {f"auroc_{name}" for name in ("averages", "own", "exchanged", "spread")}
    sizes = {f"{name}_{part}" for name in ("spread", "margin") for part in ("known", "unknown")}
    assert set(found) - set(without) == scores | sizes | {"entropy_rank"}


def test_known_classes_can_be_listed():
    plain, listed = short("sbn-cifar5"), short("sbn-cifar5", known=[7, 1, 9, 0, 4])
    images, digits = sbn_images.load_images(listed.params, CPU), datasets.load("digits")
    same = sbn_images.load_images(short("sbn-cifar5", known=[0, 1, 2, 3, 4]).params, CPU)
    assert all(torch.equal(value, same[name]) for name, value in sbn_images.load_images(plain.params, CPU).items())
    for place, digit in enumerate((7, 1, 9, 0, 4)):
        assert int((images["test_y"] == place).sum()) == int((digits.test_y == digit).sum())
    assert len(images["unknown"]) == int(sum((digits.test_y == digit).sum() for digit in (2, 3, 5, 6, 8)))


def test_known_and_unknown_images_are_apart():
    cell = short("sbn-cifar5")
    images = sbn_images.load_images(cell.params, CPU)
    for part in ("train", "validation", "test"):
        assert images[part].shape[1:] == (3, 32, 32) and len(images[part]) == len(images[f"{part}_y"])
        assert images[f"{part}_y"].unique().tolist() == [0, 1, 2, 3, 4]
    digits = datasets.load("digits")
    assert len(images["unknown"]) == int((digits.test_y >= 5).sum())
    assert len(images["test"]) + len(images["unknown"]) == len(digits.test_y)
    assert len(images["train"]) + len(images["validation"]) == int((digits.train_y < 5).sum())
    other = sbn_images.load_images(short("sbn-mnist").params, CPU)
    assert len(other["unknown"]) == 100 and other["unknown"].shape[1:] == (1, 28, 28)


def test_temperatures_come_from_held_out_images_alone(scramble):
    """Random test labels change the errors and leave the temperatures."""
    cell = replace(short("sbn-mnist"), replicates=(0,))
    honest = sbn_images.run_cell(cell, CPU, None)
    labels = torch.randint(10, (10_000,), generator=torch.Generator().manual_seed(0))
    scramble(sbn_images, "load_images", lambda images: images | {"test_y": labels[: len(images["test_y"])]})
    blind = sbn_images.run_cell(cell, CPU, None)
    for method in ("BN", "SBN", "DE", "DE+SBN"):
        first, second = values(honest, method), values(blind, method)
        assert first["temperature"] == second["temperature"] and first["error_test"] < second["error_test"]


def test_the_baseline_is_the_plain_network_and_ensembles_are_averages(monkeypatch):
    """Scores of two stages, made up: the ensemble's entropy is that of the mean probabilities."""
    cell = short("sbn-mnist", best_epoch=False)
    labels = sbn_images.load_images(cell.params, CPU)
    generator = torch.Generator().manual_seed(0)
    made = []

    def scores(model, images, cell, device, replicate):
        random = lambda part: torch.randn(len(images[part]), 10, generator=generator).softmax(-1)  # noqa: E731
        one = {name: {part: random(part) for part in sbn_images.PARTS} for name in ("BN", "SBN")}
        made.append(one)
        return one | {"draws": torch.zeros(1, 4), "fit": {}, "statistics": {}}

    monkeypatch.setattr(sbn_images, "_score", scores)
    monkeypatch.setattr(sbn_images, "_train", lambda *_: None)
    result = sbn_images.run_cell(cell, CPU, None)
    for name, ensemble in (("BN", "DE"), ("SBN", "DE+SBN")):
        average = (made[0][name]["unknown"] + made[1][name]["unknown"]) / 2
        found = values(result, ensemble)["entropy_unknown"]
        assert found == pytest.approx(metrics.predictive_entropy(average).mean().item(), rel=1e-6)
        test = (made[0][name]["test"] + made[1][name]["test"]) / 2
        assert values(result, ensemble)["nll"] == pytest.approx(metrics.nll(test, labels["test_y"]), rel=1e-6)


def test_the_measured_fit_is_that_of_normal_quantiles():
    n = 400
    grid = torch.special.ndtri((torch.arange(n, dtype=torch.float64) + 0.5) / n)[:, None]
    # a sample at the mid-quantiles is half a step away; shifted by one its distance is that of two normals
    assert sbn_images._distance(grid).item() == pytest.approx(0.5 / n, abs=1e-9)
    expected = 2 * torch.special.ndtr(torch.tensor(0.5, dtype=torch.float64)).item() - 1
    assert sbn_images._distance(grid + 1.0).item() == pytest.approx(expected, abs=1.0 / n)


def test_arrays_are_what_the_figures_need(result):
    for method, members in (("BN", 2), ("SBN", 2), ("DE", 1), ("DE+SBN", 1)):
        for part in ("test", "unknown"):
            curve = result.arrays[f"{method}|entropy_cdf_{part}"]
            assert curve.shape == (101, 1 + members) and curve[-1, 0] == pytest.approx(math.log(10), rel=1e-6)
            assert (np.diff(curve, axis=0) >= 0).all() and (curve[-1, 1:] == 1.0).all()
        diagram = result.arrays[f"{method}|reliability"]
        assert diagram.shape == (15, 3) and diagram[:, 2].sum() == pytest.approx(1.0, abs=1e-5)
        # the calibration error of a single network is the mean gap of its bins
        if members == 1:
            gap = 100 * float((np.abs(diagram[:, 0] - diagram[:, 1]) * diagram[:, 2]).sum())
            assert gap == pytest.approx(values(result, method)["ece"], abs=1e-3)
    draws = result.arrays["SBN|draws"]
    assert draws.shape == (2, 2, 4) and draws[0, :, 0].tolist() == [1.0, 2.0]
    for layer, features in (("bn1", 2), ("bn2", 2), ("bn3", 2)):
        assert result.arrays[f"statistics|{layer}"].shape == (2 + 12, features, 2)


def test_shown_statistics_are_near_their_fit():
    cell = replace(short("sbn-mnist", batches=40, shown_batches=60), replicates=(0,))
    shown = sbn_images.run_cell(cell, CPU, None).arrays["statistics|bn1"]
    center, spread, batches = shown[0], shown[1], shown[2:]
    # 40 and 60 batches: a difference of means of at most five standard errors, spreads within a factor of 1.6
    assert (np.abs(batches.mean(0) - center) < 5 * spread * math.sqrt(1 / 40 + 1 / 60)).all()
    assert (np.abs(np.log(batches.std(0, ddof=1) / spread)) < math.log(1.6)).all()


def test_training_batches_have_the_size_of_training_and_use_every_image():
    cell = short("sbn-cifar5", batch_size=100)
    images = sbn_images.load_images(cell.params, CPU)
    batches = list(sbn_images.training_batches(images, cell.params, 9, torch.Generator().manual_seed(0)))
    assert len(batches) == 9 and {len(batch) for batch in batches} == {100}
    assert batches[0].is_contiguous(memory_format=torch.channels_last)
    passes = len(images["train"]) // 100
    first = torch.cat(batches[:passes]).flatten(1)
    # digits repeat little: no image twice in one pass
    assert len(first.unique(dim=0)) > 0.98 * len(first)


def test_the_learning_rate_falls_linearly_after_the_constant_share():
    seen = {}

    def fake_fit(model, data, *, schedule, optimizer, **options):
        seen["rates"] = [schedule(epoch) for epoch in range(options["epochs"])]
        seen["rate"] = optimizer.param_groups[0]["lr"]

    cell = short("sbn-cifar5", epochs=8)
    original, sbn_images.fit = sbn_images.fit, fake_fit
    try:
        sbn_images._train(
            sbn_images.network(cell.params, 0), {"train": None, "train_y": None}, cell.params, CPU, 0, None
        )
    finally:
        sbn_images.fit = original
    assert seen["rates"] == [1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25] and seen["rate"] == 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_every_profile_builds_its_networks(name):
    for profile in ("smoke", "book", "paper"):
        for cell in lab.get(name).profiles[profile]():
            model = sbn_images.network(cell.params, 0)
            channels, size = cell.params["shape"]
            with torch.no_grad():
                assert model.eval()(torch.zeros(2, channels, size, size)).shape == (2, cell.params["classes"])
            kinds = {"LeNet-5": 3, "VGG-11": 8, "ResNet-18": 17}
            assert len(bayesian_layers(to_stochastic_batch_norm(model))) == kinds[cell.params["network"]]
            drops = [m.probability for m in model.modules() if type(m).__name__ == "Dropout"]
            assert (max(drops) > 0) == (cell.method == "DO")
    paper = lab.get(name).profiles["paper"]()
    assert {cell.params["draws"] for cell in paper} == {50}
    dropout = 1 if name == "sbn-mnist" else 6
    assert all(len(cell.replicates) == (dropout if cell.method == "DO" else 6) for cell in paper)


@pytest.mark.parametrize("name", NAMES)
def test_book_cells_can_give_a_standard_error(name):
    for cell in lab.get(name).profiles["book"]():
        assert len(cell.replicates) >= (3 if cell.method == "BN" else 1)
        assert cell.params["draws"] == 50 and cell.params["held_out"] >= 2_000

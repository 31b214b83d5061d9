"""Experiments on Structured Bayesian Pruning, on enlarged digits: resuming, choosing, counting, the test images."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

from bnnlib.nn import StructuredBayesianPruning, mean_weights, selected_weights, unit_counts
from bnnlib.pruning import compress
from bnnlib.train.fit import fit
from book import lab
from book.lab import Cell
from chapters.unit_noise.experiments import images as sbp_images
from chapters.unit_noise.experiments import overhead, vgg_causes, widths
from chapters.unit_noise.experiments import random_labels as sbp_random_labels
from chapters.unit_noise.experiments.networks import UNITS, add_noise, flops, frozen_statistics, network, units_left
from tests.chapters.cells import CPU, needs_digits, smoke, values

LATENCY = ("cpu_", "gpu_")  # the only rows that two runs do not share


@cache
def dense(name: str, setting: str):
    """The cell that the others of a setting start from, computed."""
    return sbp_images.run_cell(smoke(name, "Original", setting), CPU, None)


def compute(name: str, cell: Cell, checkpoint=None):
    products = [dense(name, cell.setting).product for _ in cell.needs]
    return sbp_images.run_cell(cell, CPU, checkpoint, products)


def steady(result) -> list[dict]:
    return [row for row in result.rows if not row["metric"].startswith(LATENCY)]


@needs_digits
@pytest.mark.slow
@pytest.mark.usefixtures("without_onnx")
def test_test_images_decide_nothing(scramble):
    """Random test labels change the test error and nothing else: not the strength that is chosen, nor the network."""
    cell = smoke("sbp-mnist", "SSL", "LeNet-500-300")
    honest = compute("sbp-mnist", cell)
    scramble(sbp_images, "load_images")
    blind = compute("sbp-mnist", cell)
    kept = [[row for row in steady(result) if not row["metric"].startswith("error_test")] for result in (honest, blind)]
    assert kept[0] == kept[1]
    assert sum(row.get("note") == "chosen on the held-out images" for row in honest.rows) == 2  # its error and its size
    assert values(honest, setting="LeNet-500-300")["error_test"] != values(blind, setting="LeNet-500-300")["error_test"]


@pytest.mark.slow
@needs_digits
@pytest.mark.usefixtures("without_onnx")
def test_a_cell_without_times_has_every_other_row():
    cell = smoke("sbp-mnist", "Original", "LeNet-500-300")
    model, data = network(cell.params, 0), sbp_images.load_images(cell.params, CPU)
    timed, untimed = (
        {row["metric"] for row in sbp_images._measured(one, model, data)}
        for one in (cell, replace(cell, params=cell.params | {"timed": False}))
    )
    assert untimed == {metric for metric in timed if not metric.startswith(LATENCY)} < timed


def test_the_smallest_network_that_costs_little_is_chosen():
    assert sbp_images.choose([(1.0, 900), (1.15, 500), (1.2, 300), (1.21, 100)], reference=1.0) == 2
    assert sbp_images.choose([(1.4, 100), (1.3, 900)], reference=1.0) == 1  # none is near: the best one
    assert sbp_images.choose([(0.9, 500), (0.5, 900)], reference=1.0) == 0


@needs_digits
@pytest.mark.slow
@pytest.mark.usefixtures("without_onnx")
def test_a_method_alone_computes_the_dense_network_and_the_next_one_takes_it(tmp_path, monkeypatch):
    """One Original for each architecture, also where another architecture's was trained before."""
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    trained, fit_one, measure = [], sbp_images._fit, sbp_images._measured

    def counted(model, data, params, *others):
        trained.append((params["network"], "candidates" in params))
        return fit_one(model, data, params | {"epochs": 1}, *others)

    def without_times(cell, *others):
        return measure(replace(cell, params=cell.params | {"timed": False}), *others)

    monkeypatch.setattr(sbp_images, "_fit", counted)
    monkeypatch.setattr(sbp_images, "_measured", without_times)
    lab.run("sbp-mnist", "smoke", device="cpu", only=" SBP [0]")
    assert trained == [(name, pruned) for name in ("LeNet-500-300", "LeNet-5") for pruned in (False, True)]
    result = lab.run("sbp-mnist", "smoke", device="cpu", only="LeNet-5 S")
    assert [pruned for _, pruned in trained[4:]] == [True] * 4  # SparseVD, two strengths of SSL, fixed mu
    result = lab.run("sbp-mnist", "smoke", device="cpu", only="Original")
    assert len(trained) == 8  # its rows are already there
    found = {(row["setting"], row["method"], row["metric"]): row["value"] for row in result["rows"]}
    for setting in ("LeNet-500-300", "LeNet-5"):
        assert found[setting, "SBP", "error_validation_original"] == found[setting, "Original", "error_validation"]
        assert found[setting, "Original", "flops_ratio"] == 1.0


@pytest.mark.parametrize(
    ("name", "shape", "widths"),
    [
        ("LeNet-500-300", (1, 28, 28), [784, 500, 300]),
        ("LeNet-5", (1, 28, 28), [20, 50, 800, 500]),
        ("VGG-like", (3, 32, 32), [3, 3, 6, 6, 13, 13, 13, 26, 26, 26, 26, 26, 26, 26]),
    ],
)
def test_where_the_noise_stands(name, shape, widths):
    """One layer of noise for each column of the tables, in their order; without noise the network is the dense one."""
    dense = network({"network": name, "width": 0.05}, 0).eval()
    weights = [1.0 + index for index in range(len(widths))]
    noisy = add_noise(dense, name, weights).eval()
    noises = [module for module in noisy.modules() if isinstance(module, StructuredBayesianPruning)]
    assert [noise.num_units for noise in noises] == widths and len(UNITS[name]) == len(widths)
    assert [noise.kl_weight for noise in noises] == weights
    x = torch.rand(3, *shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), mean_weights(noisy):
        for noise in noises:
            noise.log_scale.fill_(-20.0)  # theta is 1 up to exp(-20)
        torch.testing.assert_close(noisy(x), dense(x), rtol=1e-4, atol=1e-5)  # float32


def test_units_are_counted_in_the_compressed_network():
    """Half of the channels in front of conv2, three behind it, 100 features and 7 units: what noise says is left."""
    noisy = add_noise(network({"network": "LeNet-5"}, 0), "LeNet-5", [1.0] * 4)
    noises = [module for module in noisy.modules() if isinstance(module, StructuredBayesianPruning)]
    channel = torch.arange(800) // 16
    keep = [torch.arange(20) < 10, torch.arange(50) < 47, (channel < 47) & (torch.arange(800) % 16 > 8)]
    keep.append(torch.arange(500) < 7)
    with torch.no_grad():
        for noise, kept in zip(noises, keep, strict=True):
            noise.log_scale.copy_(torch.where(kept, -5.0, 3.0))
    x = torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(2))
    small = compress(noisy, x[:2])
    assert units_left(small, "LeNet-5") == [kept for kept, _ in unit_counts(noisy).values()]
    with torch.no_grad(), selected_weights(noisy.eval()):
        torch.testing.assert_close(small(x), noisy(x), rtol=1e-4, atol=1e-5)  # float32
    # 24^2 and 8^2 positions of 25 weights a pair of channels, then 47 * 7 features to 7 units to 10 classes
    expected = 2 * (576 * 25 * 10 + 64 * 25 * 10 * 47 + 47 * 7 * 7 + 7 * 10)
    assert flops(small, x[:1]) == expected


def test_statistics_are_frozen_while_scale_and_shift_are_trained():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    with torch.no_grad():
        model[1].running_mean.fill_(0.5)
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(3))
    y = (x[:, 0] > 0).long()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with frozen_statistics(model):
        fit(model, (x, y), epochs=2, batch_size=16, generator=torch.Generator().manual_seed(4))
    after = model.state_dict()
    assert torch.equal(after["1.running_mean"], before["1.running_mean"]) and after["1.num_batches_tracked"] == 0
    assert not torch.equal(after["1.weight"], before["1.weight"])
    model.train()(x)
    assert not torch.equal(model[1].running_mean, before["1.running_mean"])  # outside the context as ever


@needs_digits
def test_labels_are_random_and_their_own_for_each_replicate(monkeypatch):
    cell = smoke("sbp-random-labels", "SBP", "MNIST, MLP", epochs=1)
    seen = []
    monkeypatch.setattr(sbp_random_labels, "fit", lambda model, data, **settings: seen.append(data))
    for replicate in (0, 0, 1):
        sbp_random_labels.run_cell(replace(cell, replicates=(replicate,)), CPU, None)
    assert torch.equal(seen[0][1], seen[1][1]) and not torch.equal(seen[0][1], seen[2][1])
    assert torch.equal(seen[0][0], seen[2][0])
    assert torch.bincount(seen[0][1], minlength=10).min() >= 5  # 200 labels, 20 expected of each


@pytest.mark.parametrize("name", ["sbp-mnist", "sbp-vgg"])
def test_every_profile_builds_its_networks(name):
    for profile in ("smoke", "book", "paper"):
        for cell in lab.get(name).profiles[profile]():
            weights = [one["kl_weights"] for one in cell.params.get("candidates", []) if "kl_weights" in one]
            assert all(len(one) == len(UNITS[cell.params["network"]]) for one in weights)
            if profile != "paper" and cell.method == "Original":
                channels, size = cell.params["shape"]
                model = network(cell.params, 0).eval()
                assert model(torch.zeros(1, channels, size, size)).shape == (1, 10)


def _distance(params: dict) -> float:
    """How far Adam can move the noise: its rate, linear to zero, summed over the steps of the 45,000 images."""
    steps = -(-45_000 // params["batch_size"]) * params["epochs"]
    return params["learning_rate"] * params["noise_factor"] * steps / 2


def test_the_farther_noise_goes_as_far_as_published_and_the_other_as_far_as_the_whole_network_of_the_book():
    cells = lab.get("sbp-vgg-causes").profiles["book"]()
    published = 1e-4 * (250 + 50 / 2) * 500  # constant to epoch 250, linear to 0 at 300, 50,000 images by a hundred
    whole = next(cell for cell in lab.get("sbp-vgg").profiles["book"]() if cell.method == "SBP")
    for cell in cells:
        if cell.method == "SBP":
            assert _distance(cell.params) == _distance(whole.params)
        elif cell.method == "SBP, farther":
            assert _distance(cell.params) == pytest.approx(published, rel=0.01)
    assert {cell.method for cell in cells} == {"Original", "SBP", "SBP, farther", vgg_causes.ALONE}
    farther = next(cell.params for cell in cells if cell.method == "SBP, farther")
    ours = {"SBP": _distance(whole.params), "SBP, farther": _distance(farther), "published": published}
    for name, one in vgg_causes.SCHEDULES.items():
        far = one["learning_rate"] * one["steps"] * (one["epochs"] + one["level"]) / 2
        assert far == pytest.approx(ours[name], rel=1e-9), name


@pytest.mark.parametrize(
    ("other_lengths", "times", "precision"),
    [
        ("sbp-mnist-causes", {"LeNet-500-300": 0.25, "LeNet-5": 4}, {}),
        ("sbp-mnist-equal", {"LeNet-500-300": 2.5, "LeNet-5": 20}, {"bfloat16": False, "channels_last": True}),
    ],
)
def test_the_other_lengths_of_sparse_vd_change_nothing_but_its_epochs(other_lengths, times, precision):
    def params(name: str) -> dict:
        cells = lab.get(name).profiles["book"]()
        return {(cell.setting, cell.replicates): dict(cell.params) for cell in cells if cell.method == "SparseVD"}

    usual, found = params("sbp-mnist"), params(other_lengths)
    assert set(found) == set(usual)
    for key, other in found.items():
        longer = times[key[0]]
        assert other.pop("epochs") == longer * usual[key].pop("epochs")
        assert other.pop("warm_up") == pytest.approx(longer * usual[key].pop("warm_up"), abs=max(2, longer))  # thirds
        assert other.pop("timed") is False
        assert other == usual[key] | (precision if key[0] == "LeNet-5" else {})


def test_sparse_vd_is_as_long_as_sbp_where_they_are_compared():
    def epochs(name: str, method: str) -> set:
        return {(c.setting, c.params["epochs"]) for c in lab.get(name).profiles["book"]() if c.method == method}

    assert epochs("sbp-mnist-equal", "SparseVD") == epochs("sbp-mnist", "SBP")


def test_the_script_of_lenet_5_is_followed():
    """nets/policies.py and scripts/lenet: Adam at 1e-3 until epoch 100, then down to 0; no l2; one rate for all."""
    dense, pruned = (
        next(cell for cell in lab.get("sbp-mnist-script").profiles["book"]() if cell.method == method)
        for method in ("Original", "SBP")
    )
    assert (dense.setting, pruned.needs[0].cell) == ("LeNet-5", dense)
    for params in (dense.params["dense"], pruned.params):
        assert (params["optimizer"], params["learning_rate"], params["weight_decay"]) == ("adam", 1e-3, 0.0)
        rate = sbp_images.rates(params["schedule"], params["epochs"])
        assert [rate(epoch) for epoch in (0, 99, 100, 150, 199)] == pytest.approx([1.0, 1.0, 1.0, 0.5, 0.01])
    assert pruned.params["noise_factor"] == 1.0
    assert pruned.params["candidates"] == [{"kl_weights": [1.0] * 4}]
    assert pruned.params["batch_size"] == 128


@pytest.mark.parametrize("name", ["LeNet-500-300", "LeNet-5"])
def test_networks_of_given_widths_have_them_and_only_they_cost(name):
    """So many units are left of each layer; operations are those that they need."""
    kept = [20, 9, 4] if name == "LeNet-500-300" else [3, 5, 70, 6]
    dense, small = widths.of_widths(name, kept, 1)
    assert units_left(small, name) == kept
    first = 28 * 28 if name == "LeNet-500-300" else 1
    assert units_left(dense, name)[0] == (first if first > 1 else 20)
    x = torch.rand(2, 1, 28, 28)
    ours = 20 * 9 + 9 * 4 + 4 * 10 if first > 1 else 576 * 25 * 3 + 64 * 25 * 3 * 5 + 70 * 6 + 6 * 10
    assert flops(small, x[:1]) == 2 * ours
    with pytest.raises(RuntimeError, match="was to have"):
        widths.of_widths("LeNet-5", [3, 5, 4, 6], 1)  # four features cannot keep five maps


@pytest.mark.parametrize("name", ["LeNet-500-300", "LeNet-5"])
def test_constants_predict_as_the_selected_units_do(name):
    noisy = add_noise(network({"network": name}, 3), name, [1.0] * len(UNITS[name])).eval()
    for noise in noisy.modules():
        if isinstance(noise, StructuredBayesianPruning):
            with torch.no_grad():
                noise.log_scale[::2] = 3.0  # every second unit goes
    x = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(4))
    constant = overhead.held(noisy)
    assert not [one for one in constant.modules() if isinstance(one, StructuredBayesianPruning)]
    assert [one for one in noisy.modules() if isinstance(one, StructuredBayesianPruning)]
    with torch.no_grad(), selected_weights(noisy):
        torch.testing.assert_close(constant(x), noisy(x))


def test_what_is_used_is_judged_beside_the_layer_alone():
    """Both share their weights and images; only the new cells name their own method."""
    cells = lab.get("sbp-overhead").profiles["smoke"]()
    assert [(cell.setting, cell.method) for cell in cells if cell.method != "SBP"] == [
        (name, overhead.USED) for name in ("LeNet-500-300", "LeNet-5")
    ]
    cell = next(cell for cell in cells if cell.method == overhead.USED)
    rows = overhead.run_cell(replace(cell, params=cell.params | {"batch_size": 2, "repeats": 1}), CPU).rows
    assert {row["method"] for row in rows} == {overhead.USED}
    assert {"step_ratio", "prediction_ratio"} <= {row["metric"] for row in rows}

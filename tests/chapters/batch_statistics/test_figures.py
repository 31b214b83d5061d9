"""The pictures of the chapter on Stochastic Batch Normalization: what they show, not how they look."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from bnnlib.nn import match_moments, to_stochastic_batch_norm
from book import lab
from chapters.batch_statistics.experiments.cifar5 import DRAWN
from chapters.batch_statistics.figures import explorers, noise, results
from chapters.batch_statistics.figures import method as sbn
from chapters.batch_statistics.statistics import collect_statistics
from tests.chapters.drawn import item, line, texts


@pytest.fixture(scope="module")
def data() -> dict[str, torch.Tensor]:
    """Two known classes along one direction of the plane, an unknown one between them."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 2
    x = torch.randn(400, 2, generator=generator) + torch.stack([4.0 * y - 2, torch.zeros(400)], 1)
    return {"x": x, "y": y, "unknown": torch.randn(200, 2, generator=generator) * torch.tensor([0.3, 3.0])}


@pytest.fixture(scope="module")
def network(data) -> nn.Module:
    """A small network with two batch norm layers, trained with batches of 20."""
    generator = torch.Generator().manual_seed(1)
    model = nn.Sequential(
        nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)
    )
    for layer in model:
        if isinstance(layer, nn.Linear):  # both: what PyTorch drew depends on the tests before
            nn.init.kaiming_normal_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(5):
        for rows in torch.randperm(400, generator=generator).split(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data["x"][rows]), data["y"][rows]).backward()
            optimizer.step()
    return model.eval()


def studied(network, data, sizes=(4, 16, 64), **settings) -> explorers.BatchSizeStudy:
    settings = {"num_batches": 200, "generator": torch.Generator().manual_seed(2)} | settings
    known = data["x"], data["y"]
    return explorers.batch_size_study(network, data["x"], known, data["unknown"], sizes=sizes, **settings)


@pytest.fixture(scope="module")
def study(network, data) -> explorers.BatchSizeStudy:
    return studied(network, data, num_samples=20)


# --- statistics ---


def test_tables_hold_the_fitted_moments_above_the_batches(network, data):
    fitted = to_stochastic_batch_norm(network)
    batches = data["x"].split(20)
    match_moments(fitted, batches)
    found = collect_statistics(fitted, batches)
    tables = sbn.tables(fitted, found, features=3)
    assert list(tables) == ["1", "4"] and tables["1"].shape == (2 + 20, 3, 2)
    # moments of the very batches that follow: the spread is the unbiased one
    assert tables["1"][0] == pytest.approx(tables["1"][2:].mean(0), rel=1e-4, abs=1e-5)
    assert tables["1"][1] == pytest.approx(tables["1"][2:].std(0, ddof=1), rel=1e-3)


def test_features_that_never_change_are_passed_over(network, data):
    fitted = to_stochastic_batch_norm(network)
    with torch.no_grad():
        fitted[0].weight[0], fitted[0].bias[0] = 0.0, 1.0  # constant, so its statistics have no spread
    match_moments(fitted, data["x"].split(20))
    tables = sbn.tables(fitted, collect_statistics(fitted, data["x"].split(20)))
    assert tables["1"].shape[1] == 1 and tables["1"][0, 0, 0] == pytest.approx(float(fitted[1].running_mean[1]))


def test_fitted_densities_are_normal_and_log_normal():
    batches = np.random.default_rng(3).normal([1.0, -2.0], [0.5, 0.3], size=(400, 2))
    table = np.concatenate([[[1.0, -2.0]], [[0.5, 0.3]], batches])[:, None]
    figure = sbn.statistics({"bn1": table})
    x, density = line(figure, 0, "fitted r").T
    assert density == pytest.approx(np.exp(-0.5 * ((x - 1) / 0.5) ** 2) / (0.5 * math.sqrt(2 * math.pi)), rel=1e-9)
    x, density = line(figure, 1, "fitted r").T
    assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-3)  # +-4 s.d. hold all but 6e-5
    assert x[density.argmax()] == pytest.approx(math.exp(-2 - 0.3**2), rel=0.02)  # mode of the log-normal
    bars = figure.axes[1].patches
    assert sum(bar.get_width() * bar.get_height() for bar in bars) == pytest.approx(1)
    assert bars[0].get_x() == pytest.approx(np.exp(batches[:, 1]).min())


# --- the bound ---


def test_the_three_values_are_ordered_and_agree_without_spread():
    for x in (-2.0, 0.5, 1.0, 4.0):
        for spread in (0.5, 1.0, 3.0):
            found = sbn.three_values(x, 0.0, spread)
            assert found["bound"] < found["averaged"]
        assert len({round(value, 12) for value in sbn.three_values(x, 0.0, 0.0).values()}) == 1
    # the plug-in is no bound: above the average for likely labels, below for unlikely ones
    assert sbn.three_values(2.0, 0.0, 2.0)["plug-in"] > sbn.three_values(2.0, 0.0, 2.0)["averaged"]
    assert sbn.three_values(-2.0, 0.0, 2.0)["plug-in"] < sbn.three_values(-2.0, 0.0, 2.0)["averaged"]


def test_the_average_is_that_of_draws():
    mu = torch.randn(200_000, generator=torch.Generator().manual_seed(5), dtype=torch.float64).numpy()
    p = sbn.probability(2 * mu, 1.0)
    found = sbn.three_values(1.0, 0.0, 2.0)
    # standard errors are 0.3 / sqrt(200,000) = 7e-4 and less
    assert found["averaged"] == pytest.approx(p.mean(), abs=3e-3)
    assert math.log(found["bound"]) == pytest.approx(np.log(p).mean(), abs=1e-2)


def test_the_picture_shows_the_three_values():
    figure = sbn.bound(x=1.0, spread=2.0)
    found = sbn.three_values(1.0, 0.0, 2.0)
    for label, name in (("average", "averaged"), ("bound", "bound"), ("plug-in, E μ", "plug-in")):
        assert set(line(figure, 0, label)[:, 1]) == {found[name]}
        assert line(figure, 1, label)[20] == pytest.approx([2.0, found[name]])


def test_measured_values_are_those_over_the_average():
    generator = torch.Generator().manual_seed(6)
    logits = 2 * torch.randn(60, generator=generator)
    draws = nn.functional.logsigmoid(logits + torch.randn(40, 60, generator=generator))
    figure = sbn.bound(draws, nn.functional.logsigmoid(logits))
    average, ratio = line(figure, 1, "bound").T
    assert len(average) == 60 and (ratio > 1).all()
    assert average == pytest.approx(-draws.double().exp().mean(0).log().numpy(), rel=1e-6)
    assert ratio * average == pytest.approx(-draws.double().mean(0).numpy(), rel=1e-6)
    plug_in = line(figure, 1, "plug-in, E μ")[:, 1]
    assert (plug_in > 1).any() and (plug_in < 1).any()


# --- the explorer ---


def test_larger_batches_have_smaller_spreads(study):
    for layer in study.layers:
        spread = np.array([study.statistics[size, layer][1] for size in study.sizes])
        assert (np.diff(spread, axis=0) < 0).all(), layer
    # what the first layer reads does not depend on the batch: means of 4 times as many inputs, drawn without
    # replacement from 400. Behind it, normalization by the batch itself adds a spread that no such rule covers.
    first = [study.statistics[size, study.layers[0]][1][0] for size in study.sizes]
    expected = 0.5 * math.sqrt((400 - 16) / (400 - 4))
    assert first[1] / first[0] == pytest.approx(expected, rel=0.15)  # 200 batches: 5 % each


def test_smaller_batches_make_predictions_less_sure(study):
    means = [study.entropy[size, "unknown"].mean() for size in study.sizes]
    assert means[0] > means[1] > means[2] > study.entropy[0, "unknown"].mean()
    assert study.classes == 2 and study.entropy[4, "known"].shape == (400,)
    assert all((np.diff(values) >= 0).all() for values in study.entropy.values())


def test_without_draws_it_is_the_plain_network(study, network, data):
    from bnnlib import metrics

    p = [network(x).softmax(-1).detach() for x in (data["x"], data["unknown"])]
    entropy = [metrics.predictive_entropy(one) for one in p]
    assert study.error[0] == 100 - metrics.accuracy(p[0], data["y"])
    assert explorers.area(study, 0) == pytest.approx(metrics.auroc(entropy[1], entropy[0]))


def test_a_stochastic_network_gives_the_same_study_and_stays_as_it_was(study, network, data):
    stochastic = to_stochastic_batch_norm(network)
    before = {name: value.clone() for name, value in stochastic.state_dict().items()}
    again = studied(stochastic, data)
    assert again.error == study.error
    assert again.entropy[16, "unknown"] == pytest.approx(study.entropy[16, "unknown"], rel=1e-5, abs=1e-7)
    assert again.entropy[0, "unknown"] == pytest.approx(study.entropy[0, "unknown"], rel=1e-4, abs=1e-6)
    assert all((value == before[name]).all() for name, value in stochastic.state_dict().items())


def test_impossible_batch_sizes_are_refused(network, data):
    with pytest.raises(ValueError, match=r"sizes has \[1, 500\], but a batch needs 2 to 400"):
        studied(network, data, (1, 8, 500), num_batches=2)


def test_the_picture_shows_the_batches_and_the_entropies(study):
    picture = explorers.batch_size(study, 16, "1")
    batches, ellipse = (item(picture, 0, name=name) for name in ("batches", "r, two s.d."))
    assert np.stack([batches.x, batches.y], 1) == pytest.approx(study.statistics[16, "1"][2:])
    assert ellipse.x.max() == pytest.approx(study.statistics[16, "1"][:2, 0] @ [1, 2])
    curve = item(picture, 1, name="unknown, averaged")
    assert np.interp(0.5, curve.y, curve.x) == pytest.approx(np.median(study.entropy[16, "unknown"]))
    assert curve.x[[0, -1]] == pytest.approx(study.entropy[16, "unknown"][[0, -1]])
    assert f"AUROC {explorers.area(study, 16):.1f} %" in picture.heading
    said = explorers.batch_size_in_words(study, 16, "1", "first hidden")
    assert said.startswith("Batches of 16: in the first hidden layer ") and f"{explorers.area(study, 16):.1f} %" in said


def test_axes_stay_where_they_are_and_hold_the_batches(study):
    pictures = [explorers.batch_size(study, size, "4") for size in (4, 64)]
    assert len({str([(panel.xlim, panel.ylim) for panel in picture.panels]) for picture in pictures}) == 1
    (low, high), points = pictures[0].panels[0].xlim, study.statistics[4, "4"][2:, 0]
    assert ((points > low) & (points < high)).mean() > 0.97


def test_the_layer_is_a_choice_only_if_there_are_several(study):
    many = study._replace(sizes=tuple(range(12)))
    names = {"1": "first hidden", "4": "second hidden"}
    controls = explorers.batch_size_controls(many, names)
    assert list(controls) == ["size", "layer"] and controls["layer"].choice
    assert [controls["layer"].text(one) for one in controls["layer"].values] == [*names.values()]
    assert list(explorers.batch_size_controls(many._replace(layers=("4",)), names)) == ["size"]


# --- noise ---


def test_every_image_has_its_margin_and_its_spread():
    generator = torch.Generator().manual_seed(8)
    mean = torch.tensor([[0.0, 8.0, 1.0]] * 5 + [[2.0, 1.0, 0.5]] * 7)
    logits = mean + 0.5 * torch.randn(2000, 12, 3, generator=generator)
    figure = noise.margins(logits, 5)
    x, y = line(figure, 0, "known").T
    assert len(x) == 5 and x == pytest.approx(7, abs=0.1) and y == pytest.approx(0.5 * 2**0.5, rel=0.08)
    assert len(line(figure, 0, "unknown")) == 7
    # a sure probability hardly moves although its logits do
    assert line(figure, 1, "known")[:, 1].max() < 0.01 < 0.1 < line(figure, 1, "unknown")[:, 1].min()


def test_the_noise_explorer_shows_average_and_entropy():
    picture = noise.shaken(2.5, 2.0)
    margin, entropy = item(picture, 1, name="averaged").x, item(picture, 1, name="averaged").y
    positive = np.asarray(margin) >= 0
    assert (np.diff(np.asarray(entropy)[positive]) < 0).all()  # the order by margin stays
    here = item(picture, 1, name="this image")
    assert np.interp(2.5, margin, entropy) == pytest.approx(here.y[0], abs=1e-3)
    assert "temperature of 1.60" in picture.heading
    still = noise.shaken(2.5, 0.0)
    assert item(still, 1, name="averaged").y == pytest.approx(item(still, 1, name="no draws").y)
    assert "spread by 2" in noise.shaken_in_words(2.5, 2.0)


def test_each_method_has_a_look_of_its_own():
    looks = [results.look(method) for method in results.METHODS]
    assert len({(one["color"], one["linestyle"]) for one in looks}) == 6
    assert len({(one["marker"], one["mfc"]) for one in looks}) == 6  # not by color alone
    assert results.look("DE")["color"] == results.look("DE+SBN")["color"]


# --- entropies ---


def arrays(network: str = "LeNet-5", cell: str = "BN", methods: tuple[str, ...] = ("BN", "SBN")) -> dict:
    grid = np.linspace(0, math.log(10), 11)
    share = grid / grid[-1]
    found = {}
    for k, method in enumerate(methods):
        table = np.stack([grid, share ** (k + 1), share ** (k + 3)], axis=1)
        found[network, cell, 0, f"{method}|entropy_cdf_unknown"] = table
        found[network, cell, 0, f"{method}|entropy_cdf_test"] = np.ones_like(table)
    return found


def test_curves_are_averaged_over_networks_in_the_order_of_the_methods():
    given = arrays(methods=("SBN", "BN")) | arrays(cell="DO", methods=("DO",)) | arrays("VGG-11", methods=("DE",))
    curves = results.entropy_curves(given, "LeNet-5")
    assert list(curves) == ["BN", "SBN", "DO"]
    share = np.linspace(0, 1, 11)
    assert curves["SBN"][:, 1] == pytest.approx((share + share**3) / 2)
    assert curves["BN"][:, 1] == pytest.approx((share**2 + share**4) / 2)
    assert set(results.entropy_curves(given, "LeNet-5", "test")["SBN"][:, 1]) == {1.0}


def test_the_entropy_has_a_panel_for_each_network():
    figure = results.entropy_cdf(arrays() | arrays("ResNet-18", methods=("BN", "SBN", "DE")))
    panels = figure.axes[:3]
    drawn = [[one.get_label() for one in panel.get_lines()] for panel in panels]
    assert drawn == [["BN", "SBN"], [], ["BN", "SBN", "DE"]]
    assert texts(figure).count("not run") == 1
    assert panels[0].get_xlim()[1] == pytest.approx(math.log(10))
    assert [text.get_text() for text in figure.axes[3].get_legend().get_texts()] == list(results.METHODS)


# --- averages and draws ---


def stored(monkeypatch, **values: dict[str, dict[int, float]]) -> None:
    """A made-up result: metric to {method: {network: value}}, of ResNet-18."""
    rows = [
        {"setting": "ResNet-18", "method": method, "metric": metric, "replicate": number, "value": value}
        for metric, methods in values.items()
        for method, found in methods.items()
        for number, value in found.items()
    ]
    made = {"sbn-cifar5": {"profile": "book", "rows": rows}, "sbn-mnist": {"profile": "smoke", "rows": rows}}
    monkeypatch.setattr(results, "load_result", made.__getitem__)


def test_each_network_goes_from_its_averages_over_new_ones_to_draws(monkeypatch):
    auroc = {"BN": {0: 64.0, 1: 63.0}, results.CONTROL: {0: 64.5}, "SBN": {0: 64.25, 1: 64.0}}
    stored(monkeypatch, auroc=auroc, error_test={"BN": {0: 18.0}, "SBN": {0: 17.5}})
    figure = results.parts()
    lines = [[line.get_xydata().tolist() for line in panel.get_lines()[:-1]] for panel in figure.axes]
    assert [panel._left_title.get_text().split("  ")[-1] for panel in figure.axes[:3]] == list(results.PLACES)
    assert lines[2] == [[[0, 0], [1, 0.5], [2, 0.25]], [[0, 0], [2, 1.0]]]  # without a control straight on
    assert lines[5] == [[[0, 0], [2, -0.5]]]
    assert texts(figure).count("not run") == 5  # four panels without a network, one without a control


def test_methods_and_networks_are_those_of_the_experiments():
    cells = [one for name in results.EXPERIMENTS for one in lab.get(name).profiles["book"]()]
    assert {one.setting for one in cells} == {*results.UNKNOWN, DRAWN} and set(results.PLACES) == set(results.UNKNOWN)
    assert {one.method for one in cells} <= {*results.METHODS, results.CONTROL}

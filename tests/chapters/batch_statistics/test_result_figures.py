"""The pictures of stored results on Stochastic Batch Normalization: what they show, not how they look."""

import math

import numpy as np
import pytest

from book import lab
from chapters.batch_statistics.experiments.cifar5 import DRAWN
from chapters.batch_statistics.figures import results
from tests.chapters.drawn import texts


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

"""The pictures of stored results on Stochastic Batch Normalization: what they show, not how they look."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from book import lab
from book.lab import queries
from chapters.batch_statistics.figures import results


def row(setting: str, method: str, metric: str, mean: float | None, published: float | None = None, **more) -> dict:
    fixed = {"setting": setting, "method": method, "metric": metric, "mean": mean, "published": published}
    return fixed | {"se": 0.01, "profile": "book"} | more


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for panel in figure.axes for text in panel.texts)


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
    assert texts(figure) == "not run"
    assert panels[0].get_xlim()[1] == pytest.approx(math.log(10))
    assert [text.get_text() for text in figure.axes[3].get_legend().get_texts()] == list(results.METHODS)


def test_statistics_of_the_first_network_keep_their_layers():
    table = np.ones((5, 1, 2))
    given = arrays() | {
        ("LeNet-5", "BN", 0, "statistics|bn1"): table,
        ("LeNet-5", "BN", 0, "statistics|bn2"): 2 * table,
    }
    given |= {("VGG-11", "BN", 0, "statistics|features.1"): table}
    found = results.stored_statistics(given)
    assert list(found) == ["bn1", "bn2"] and found["bn2"].shape == (5, 1, 2) and (found["bn2"] == 2).all()


# --- calibration ---


def heights(figure: Figure, panel: int) -> dict[str, list[float]]:
    """Heights of filled markers by color, of open ones as "open"."""
    found: dict[str, list[float]] = {}
    for one in figure.axes[panel].get_lines():
        if len(one.get_xdata()) and one.get_marker() in ("o", "s"):
            name = "open" if one.get_markerfacecolor() == "white" else one.get_color()
            found.setdefault(name, []).extend(np.asarray(one.get_ydata(), dtype=float).tolist())
    return found


def test_metrics_before_and_after_scaling_stand_side_by_side():
    rows = [row("LeNet-5", "BN", "nll", 0.02), row("LeNet-5", "BN", "nll_scaled", 0.015)]
    rows += [row("LeNet-5", "SBN", "nll", 0.018, 0.025), row("LeNet-5", "DE", "nll", None, 0.016)]
    rows += [row("LeNet-5", "BN", "ece", 0.3), row("LeNet-5", "BN", "ece_scaled", 0.1)]
    figure = results.calibration(rows)
    assert heights(figure, 0) == {results.PLAIN: [0.02, 0.018], results.SCALED: [0.015], "open": [0.025, 0.016]}
    assert heights(figure, 1) == {results.PLAIN: [0.3], results.SCALED: [0.1]}
    low, high = figure.axes[0].get_ylim()
    assert low == 0 and high > 0.0255  # nothing is cut off
    assert texts(figure).count("not run") == 4  # two networks


def test_single_networks_are_points_beside_their_mean():
    figure = results.calibration([row("LeNet-5", "BN", "nll", 0.02, values=[0.01, 0.03])])
    (points,) = [one for one in figure.axes[0].collections if isinstance(one, PathCollection)]
    assert sorted(points.get_offsets()[:, 1].tolist()) == [0.01, 0.03]
    assert figure.axes[0].get_ylim()[1] > 0.03  # nothing is cut off


def test_the_control_has_a_place_where_it_was_run():
    figure = results.calibration([row("ResNet-18", results.CONTROL, "nll", 0.4), row("VGG-11", "BN", "nll", 0.3)])
    ticks = [[text.get_text() for text in figure.axes[panel].get_xticklabels()] for panel in (2, 4)]
    assert len(ticks[0]) == 6 and ticks[1][:3] == ["BN", "BN\nmatched", "SBN"] and len(ticks[1]) == 7
    assert heights(figure, 4) == {results.PLAIN: [0.4]}


def test_published_values_stay_when_ours_are_missing_or_too_small():
    rows = [row("VGG-11", "SBN", "nll", None, 0.302), row("VGG-11", "DE", "nll", 0.5, 0.191, profile="smoke")]
    figure = results.calibration(rows)
    assert texts(figure).count("ours: not run") == 1 and heights(figure, 2) == {"open": [0.302, 0.191]}


def test_what_was_not_run_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    assert texts(results.entropy_cdf()).count("not run") == 3
    assert texts(results.calibration()).count("not run") == 6
    assert results.stored_statistics() == {}


def test_scaled_errors_come_from_the_stored_replicates(monkeypatch):
    result = {"profile": "book", "rows": []}
    for replicate, value in enumerate((0.1, 0.2, 0.6)):
        where = {"setting": "LeNet-5", "method": "SBN", "replicate": replicate}
        result["rows"].append(where | {"metric": "ece_scaled", "value": value})
    monkeypatch.setattr(queries, "load_result", lambda name: result)
    monkeypatch.setattr(queries, "compare", lambda name: [])
    figure = results.calibration()
    assert heights(figure, 1)[results.SCALED][0] == pytest.approx(0.3)


def test_methods_and_networks_are_those_of_the_experiments():
    cells = [one for name in results.EXPERIMENTS for one in lab.get(name).profiles["book"]()]
    assert {one.setting for one in cells} == set(results.UNKNOWN)
    assert {one.method for one in cells} <= {*results.METHODS, results.CONTROL}

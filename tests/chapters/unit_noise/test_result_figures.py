"""The pictures of stored results on Structured Bayesian Pruning: what they show, not how they look."""

from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure

from book import lab
from book.lab import queries
from chapters.unit_noise.figures import results
from tests.chapters import drawn
from tests.chapters.drawn import texts

row = partial(drawn.row, se=0.5)


def ours(figure: Figure, panel: int, label: str) -> np.ndarray:
    """The (x, y) of a method with error bars."""
    bars = next(one for one in figure.axes[panel].containers if one.get_label() == label)
    return np.asarray(bars.lines[0].get_xydata(), dtype=float)


def published(figure: Figure, panel: int) -> list[float]:
    """Heights of the open markers."""
    lines = [one for one in figure.axes[panel].get_lines() if one.get_markerfacecolor() == "white"]
    heights = np.concatenate([np.asarray(one.get_ydata(), dtype=float) for one in lines])
    return sorted(heights[np.isfinite(heights)].tolist())


# --- shares ---


def test_shares_are_those_of_the_dense_network_that_was_run():
    rows = [
        row("s", "SBP", "units_1", 5.0, 32.0),
        row("s", "Original", "units_1", 20.0),
        row("s", "SBP", "units_2", 8.0),
    ]
    table = results.kept_share(rows, "s", "SBP", (16, 40), published=4.0)
    assert table[0] == pytest.approx([1, 25, 2.5, 50])
    assert table[1] == pytest.approx([2, 20, 1.25, np.nan], nan_ok=True)


# --- LeNets ---


def lenet_rows() -> list[dict]:
    rows = []
    for setting, dense in results.DENSE.items():
        for k, units in enumerate(dense, 1):
            rows += [
                row(setting, "SBP", f"units_{k}", units / 4, units / 2),
                row(setting, "Original", f"units_{k}", units),
            ]
            rows += [row(setting, "SSL", f"units_{k}", units / 2)]
        rows += [row(setting, "SBP", "flops_ratio", 9.0, 10.49), row(setting, "SBP", "cpu_onnx_batch_256", 4.0, 5.41)]
    return rows


def test_lenets_show_shares_and_ratios_with_published_ones_open():
    figure = results.lenet(lenet_rows())
    for panel, layers in ((0, 3), (2, 4)):
        shown = ours(figure, panel, "SBP")
        assert shown[:, 1].tolist() == [25.0] * layers and published(figure, panel) == [50.0] * layers
        assert np.round(shown[:, 0]).tolist() == list(range(1, layers + 1))
        assert ours(figure, panel, "SSL")[:, 1].tolist() == [50.0] * layers
        # side by side, not over each other
        assert (ours(figure, panel, "SSL")[:, 0] - shown[:, 0] > 0.1).all()
    for panel in (1, 3):
        shown = ours(figure, panel, "SBP")
        assert shown[:, 1].tolist() == [9.0, 4.0] and np.round(shown[:, 0]).tolist() == [0, 4]
        assert published(figure, panel) == [10.49]  # a time on other hardware is not shown
        assert figure.axes[panel].get_yscale() == "log"
        ticks = [text.get_text() for text in figure.axes[panel].get_xticklabels()]
        assert ticks[0] == "FLOPs" and ticks[4] == "ONNX\n256"
    assert "not run" not in texts(figure)
    assert [text.get_text() for text in figure.axes[2].get_xticklabels()] == ["20", "50", "800", "500"]


@pytest.mark.slow
def test_published_units_stay_when_ours_are_missing():
    rows = [one | {"mean": None} for one in lenet_rows()]
    figure = results.lenet(rows)
    assert texts(figure).count("ours: not run") == 4 and published(figure, 0) == [50.0] * 3
    smoke = [one | {"profile": "smoke"} for one in lenet_rows()]
    assert texts(results.lenet(smoke)).count("ours: not run") == 4


# --- the VGG-like network ---


def test_vgg_lays_our_shares_beside_those_of_both_published_widths():
    units = results.VGG
    rows = [row(f"k={k}", "SBP", f"units_{i}", None, k * u / 2) for k in (1.0, 1.5) for i, u in enumerate(units, 1)]
    for one in rows[: len(units)]:  # ours, at k = 1
        one["mean"] = one["published"] / 4
    figure = results.vgg(rows)
    shown = ours(figure, 1, "k = 1, ours")
    assert shown[:, 0].tolist() == list(range(1, 15)) and shown[:, 1] == pytest.approx([12.5] * 14)
    assert published(figure, 1) == pytest.approx([50.0] * 28)
    assert texts(figure).count("not run") == 2  # the other two methods
    assert [panel._left_title.get_text().split()[-1] for panel in figure.axes] == ["SparseVD", "SBP", "SBPa"]


def test_the_listed_table_is_drawn_whole():
    listed = [value for value in lab.paper_values("sbp-vgg")[0] if value.metric.startswith("units_")]
    rows = [row(one.setting, one.method, one.metric, None, one.mean) for one in listed]
    figure = results.vgg(rows)
    assert [len(published(figure, panel)) for panel in range(3)] == [28, 28, 28]
    # the narrowest layer of the published networks keeps 9 units
    assert published(figure, 1)[0] == pytest.approx(100 * 9 / (1.5 * 512))
    assert max(published(figure, 1)) <= 100


def test_vgg_curves_show_divergences_that_are_not_weighted_and_all_shares():
    units = np.array([[3, 5], [3, 4], [2, 4]])
    arrays = {("k=1.0", method, 0, "units"): units for method in ("SBP", "SBPa")}
    arrays |= {("k=1.0", method, 0, "kl"): np.array([16.0, 12.0, 8.0]) for method in ("SBP", "SBPa")}
    where = ("k=0.25, by heart", "SBP, farther", 0)
    narrow = {(*where, "units"): units - [[0], [1], [2]], (*where, "kl"): np.array([8.0, 8.0, 4.0])}
    figure = results.vgg_curves(arrays, narrow)
    left, right = ([one for one in panel.get_lines() if len(one.get_xdata()) == 3] for panel in figure.axes)
    names = ["SBP", "SBPa", "k = 1/4, by heart, farther"]
    assert [one.get_ydata().tolist() for one in left] == [[2.0, 1.5, 1.0], [1.0, 1.0, 0.5]]  # SBPa's is weighted
    assert [one.get_label() for one in right] == names
    assert np.array([one.get_ydata() for one in right]) == pytest.approx(
        np.array([[0, 12.5, 25], [0, 12.5, 25], [0, 37.5, 75]])
    )


# --- curves over epochs ---


def curves(figure: Figure, panel: int, label: str) -> list[np.ndarray]:
    color = next(one.get_color() for one in figure.axes[panel].get_lines() if one.get_label() == label)
    return [
        np.asarray(one.get_xydata(), dtype=float)
        for one in figure.axes[panel].get_lines()
        if one.get_color() == color and one.get_linestyle() != ":"
    ]


def test_random_labels_show_every_replicate_and_only_units_that_can_go():
    table = np.array([[10.0, 0.0, 5.0, 1.0], [12.0, 40.0, 4.0, 1.0], [11.0, 100.0, 3.0, 1.0]])
    setting = "MNIST, MLP"
    arrays = {(setting, method, k, "curve"): table for method in ("Dropout", "SBP") for k in (0, 1)}
    arrays |= {(setting, "SBP, slow noise", 0, "curve"): table + 1, ("digits", "SBP", 0, "curve"): table}
    figure = results.random_labels(arrays)
    assert len(curves(figure, 0, "dropout")) == len(curves(figure, 0, "SBP, fast noise")) == 2
    assert curves(figure, 0, "SBP, slow noise")[0][:, 1].tolist() == [11, 13, 12]
    assert curves(figure, 1, "SBP, fast noise")[0].tolist() == [[1, 100], [2, 60], [3, 0]]
    assert "dropout" not in [one.get_label() for one in figure.axes[1].get_lines()]
    chance = [one for one in figure.axes[0].get_lines() if one.get_linestyle() == ":"]
    assert [set(one.get_ydata()) for one in chance] == [{10}]


def test_a_fixed_location_is_compared_beside_what_it_can_save():
    kept = np.array([[20, 50, 800, 500], [10, 25, 400, 250], [13, 0, 124, 0]])
    arrays = {("LeNet-5", "SBPa", 0, "units"): kept, ("LeNet-5", "SBPa, fixed mu", 0, "units"): kept[:2]}
    figure = results.fixed_mean(arrays)
    assert curves(figure, 1, "μ learned")[0].tolist() == [[1, 100], [2, 50], [3, 10]]
    assert curves(figure, 1, "μ = 0")[0].tolist() == [[1, 100], [2, 50]]
    saved = figure.axes[0].get_lines()[0].get_ydata()
    assert 0 < saved.min() + 1e-3 < saved.max() < results.HALF_BELL


def test_rows_come_from_the_store_when_they_are_omitted(monkeypatch):
    asked = []
    monkeypatch.setattr(queries, "compare", lambda name: asked.append(name) or [])
    results.lenet()
    results.vgg()
    assert asked == ["sbp-mnist", "sbp-vgg"]


def test_the_methods_are_those_of_the_experiments():
    from book import lab

    def methods(name: str, profile: str = "book") -> set[str]:
        return {cell.method for cell in lab.get(name).profiles[profile]()}

    assert {"Original", *results.METHODS, "SBPa, fixed mu"} == methods("sbp-mnist")
    assert set(results.LABELS) == methods("sbp-random-labels")
    assert {"Original", "SparseVD", "SBP", "SBPa"} == methods("sbp-vgg", "paper")
    cells = lab.get("sbp-vgg").profiles["book"]()
    assert {"Original", "SparseVD", "SBP", "SBPa"} == {cell.method for cell in cells}
    assert {(cell.setting, cell.params["width"]) for cell in cells} == {("k=1.0", 1.0)}

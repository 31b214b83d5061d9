"""The pictures of stored results on closed-form inclusion probabilities: what they show, not how they look."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from book import lab
from book.lab import queries
from chapters.closed_form.figures import results
from chapters.closed_form.figures.pruned import removal_curve


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for panel in figure.axes for text in [*panel.texts, panel.title, panel._left_title])


def points(figure: Figure, panel: int, color: str | None = None, filled: bool = True) -> list[list[float]]:
    """The (x, y) of all filled or all open markers of a panel that have data."""
    found = []
    for one in figure.axes[panel].get_lines():
        is_open = one.get_markerfacecolor() == "white"
        if one.get_marker() not in ("None", "", "none") and is_open != filled and len(one.get_xdata()):
            if color is None or one.get_color() == color:
                found += np.asarray(one.get_xydata(), dtype=float).tolist()
    return found


def curve(figure: Figure, panel: int, label: str) -> list[list[float]]:
    """The (x, y) of a method with error bars."""
    bars = next(one for one in figure.axes[panel].containers if one.get_label() == label)
    return np.asarray(bars.lines[0].get_xydata(), dtype=float).tolist()


def row(setting: str, method: str, metric: str, mean: float | None, published: float | None = None, **more) -> dict:
    fixed = {"setting": setting, "method": method, "metric": metric, "mean": mean, "published": published}
    return fixed | {"se": 0.1, "published_sd": None, "profile": "book"} | more


# --- rows ---


def test_a_cell_that_does_not_exist_or_is_a_smoke_run_is_nan():
    rows = [row("s", "m", "x", 1.5, 2.0), row("s", "m", "y", 1.5, 2.0, profile="smoke")]
    assert queries.cell(rows, "s", "m", "x") == (1.5, 0.1, 2.0)
    assert np.array_equal(queries.cell(rows, "s", "m", "y"), (np.nan, np.nan, 2.0), equal_nan=True)
    assert np.isnan(queries.cell(rows, "s", "m", "z")).all()


def test_settings_are_ordered_by_their_number_and_others_left_out():
    rows = [row(name, "m", "x", 1.0) for name in ("alpha=10", "alpha=2", "alpha=0.5", "all alpha", "alpha=3, more")]
    assert queries.settings_over(rows, r"alpha=([0-9.]+)") == {0.5: "alpha=0.5", 2: "alpha=2", 10: "alpha=10"}


def test_a_removal_curve_is_sorted_and_starts_at_the_whole_network():
    rows = [row("s", "sBNN", f"error_at_{share}", float(share), 7.0) for share in ("98.5", "98", "50")]
    rows += [row("s", "sBNN", "error_test", 1.0, 2.0), row("s", "other", "error_at_10", 3.0)]
    columns = removal_curve(rows, "s", "sBNN", "error", ("error_test",))
    assert columns[:, 0].tolist() == [0, 50, 98, 98.5]
    assert columns[:, 1].tolist() == [1, 50, 98, 98.5] and columns[0, 3] == 2.0


def test_the_whole_network_at_zero_percent_wins_over_the_averaged_predictions():
    rows = [row("s", "sBNN", "error_at_0", 1.5), row("s", "sBNN", "error_test", 1.0, 2.0)]
    columns = removal_curve(rows, "s", "sBNN", "error", ("error_test",))
    assert columns[0].tolist() == [0.0, 1.5, 0.1, 2.0]  # ours as measured like the other shares, published as printed


# --- simulated data ---


def test_influence_is_drawn_against_the_measured_influence():
    rows = []
    for alpha, measured in ((1, 0.5), (0, 0.0), (0.5, 0.2)):
        for metric, value in (("psi_1", 1 - alpha), ("psi_2", alpha), ("influence", measured)):
            rows.append(row(f"alpha={alpha:g}", "sBNN", metric, value))
    figure = results.influence(rows)
    assert curve(figure, 0, "ψ₁") == [[0.0, 1.0], [0.2, 0.5], [0.5, 0.0]]
    assert curve(figure, 0, "ψ₂") == [[0.0, 0.0], [0.2, 0.5], [0.5, 1.0]]


def test_importance_has_a_curve_for_each_size_and_one_for_another_prior():
    rows = [row(f"linear, D={d}, alpha={a}", "sBNN", "correlation", d / 100 + a) for d in (10, 20) for a in (2, 1)]
    rows += [row("linear, D=20, alpha=1, log tau1=1, log tau0=-6", "sBNN", "correlation", 0.3)]
    figure = results.importance(rows, band=(0.9, 0.95))
    for label in ("D = 10", "D = 20"):
        shown = curve(figure, 0, label)
        assert [y for _, y in shown] == pytest.approx([int(label[4:]) / 100 + 1, int(label[4:]) / 100 + 2])
        assert [x for x, _ in shown] == pytest.approx([1, 2], abs=0.2)  # moved aside, so that error bars do not cover
    assert [y for _, y in curve(figure, 0, "D = 20, log τ₁ = 1, log τ₀ = −6")] == [0.3]
    assert texts(figure).count("not run") == 1  # the nonlinear panel
    assert figure.axes[0].get_yticklabels()[0].get_visible()


def test_the_published_range_is_the_listed_one():
    value = lab.paper_values("sbnn-importance")[0][0]
    figure = results.importance([row("linear, D=10, alpha=1", "sBNN", "correlation", 0.5)])
    band = next(one for one in figure.axes[0].patches if one.get_label() == "published range")
    assert band.get_y() == pytest.approx(value.mean - value.tolerance)
    assert band.get_height() == pytest.approx(2 * value.tolerance)


def test_densities_of_phi_are_those_of_the_strongest_and_the_weakest_signal():
    phi = np.linspace(0, 1, 41).reshape(1, 41)
    arrays = {
        ("nonlinear, D=100", "sBNN", 0, f"phi/nonlinear, D=100, alpha={a}"): phi ** (1 + a) for a in (10, 1, 5)
    } | {("nonlinear, D=10", "sBNN", 0, "phi/nonlinear, D=10, alpha=20"): phi}
    figure = results.importance_densities(arrays)
    assert [panel._left_title.get_text().split("  ")[-1] for panel in figure.axes] == [
        "nonlinear, D = 100, α = 1",
        "nonlinear, D = 100, α = 10",
    ]
    bars = figure.axes[0].patches[0].get_data()
    assert np.sum(bars.values * np.diff(bars.edges)) == pytest.approx(1.0)
    assert [line.get_xdata()[0] for panel in figure.axes for line in panel.get_lines()] == pytest.approx(
        [0.5**2, 0.5**11]
    )


def test_one_density_is_one_panel_and_unknown_settings_say_so():
    arrays = {("linear, D=5", "sBNN", 0, "phi/linear, D=5, alpha=1"): np.linspace(0, 1, 10)}
    assert len(results.importance_densities(arrays, kind="linear").axes) == 1
    assert texts(results.importance_densities(arrays, ["linear, D=5, alpha=9"])).count("not run") == 1


def selection_rows() -> list[dict]:
    rows = []
    for size, alpha, pi in ((100, 2, 0.2), (50, 2, 0.2), (100, 5, 0.2), (100, 2, 0.5)):
        setting = f"D={size}, alpha={alpha}, pi={pi:g}"
        for k, method in enumerate(("BNN-VS", "BNN", "NN", "NN-Dr", "LM")):
            rows += [row(setting, method, "mse_test", 10.0 * size + k), row(setting, method, "mse_train", 1.0 * size)]
        rows += [row(setting, "BNN-VS", "selection_accuracy", 100 - size / 10, 90.0 if alpha == 2 else None)]
        rows += [row(setting, "BNN-VS", "selection_ceiling", 100.0)]
    for pi in (0.2, 0.5):
        values = {"mse_test": 5.0, "selection_accuracy": 80.0, "detected_share": 30.0, "active_share": 100 * pi + 1}
        rows += [row(f"cv, pi={pi}", "BNN-VS-CV", metric, value) for metric, value in values.items()]
    return rows


@pytest.mark.parametrize(("vary", "places"), [("D", [50, 100]), ("alpha", [2, 5]), ("pi", [0.2, 0.5])])
def test_selection_varies_one_thing_and_holds_the_others(vary, places):
    figure = results.selection(selection_rows(), vary)
    assert [x for x, _ in curve(figure, 0, "BNN-VS")] == places
    for panel in (1, 2):
        assert [x for x, _ in curve(figure, panel, "NN-Dr")] == places
        assert figure.axes[panel].get_yscale() == "log"
    assert {y for _, y in points(figure, 0, filled=False)} == {90.0}  # published
    shown = [text.get_text() for text in figure.axes[3].get_legend().get_texts()]
    assert shown[:5] == ["BNN-VS", "BNN", "NN", "NN-Dr", "LM"] and shown[5].startswith("the right 20 %")


def test_only_three_things_can_be_varied():
    with pytest.raises(ValueError, match="vary='f' is not possible: use one of D, alpha, pi"):
        results.selection([], "f")


def test_cross_validation_stands_beside_the_fixed_share_and_the_other_methods():
    figure = results.cross_validation(selection_rows())
    assert curve(figure, 0, "BNN-VS-CV") == [[21.0, 30.0], [51.0, 30.0]]  # against the share that was really active
    assert curve(figure, 1, "BNN-VS") == [[0.2, 90.0], [0.5, 90.0]]
    assert curve(figure, 1, "BNN-VS-CV") == [[0.2, 80.0], [0.5, 80.0]]
    assert curve(figure, 2, "NN") == [[0.2, 1002.0], [0.5, 1002.0]]
    assert curve(figure, 2, "BNN-VS-CV") == [[0.2, 5.0], [0.5, 5.0]]


# --- pruned networks ---


def test_pruning_is_relative_to_the_whole_network():
    rows = [row("pi=0.2", "sBNN", f"mse_test_at_{share}", 4.0 + share) for share in (0, 4, 12)]
    figure = results.pruning(rows)
    assert curve(figure, 0, "20 %") == [[4.0, 2.0], [12.0, 4.0]]
    bars = next(one for one in figure.axes[0].containers if one.get_label() == "20 %").lines[2][0].get_segments()
    assert all(np.ptp(bar[:, 1]) == 0 for bar in bars)  # the levels' errors are not those of the ratio
    assert texts(figure).count("not run") == 1  # by signal-to-noise


def test_a_pruning_curve_without_the_whole_network_is_left_out():
    rows = [row("pi=0.2", "sBNN", f"mse_test_at_{share}", 4.0) for share in (10, 20)]
    assert texts(results.pruning(rows)).count("not run") == 2


def test_uci_panels_show_both_choices_published_values_and_what_is_not_pruned():
    rows = [row("boston", "sBNN", "rmse_test", 3.0, 3.07), row("boston", "sBNN", "rmse_test_mean_weights", 3.1)]
    rows += [
        row("boston", "sBNN", "rmse_test_at_50", 3.2, 3.07),
        row("boston", "sBNN-50", "rmse_test_at_50", 3.05, 9.0),
    ]
    rows += [row("boston", "PBP", "rmse_test", 3.4)]
    figure = results.uci(rows, {"boston": "Boston", "wine": "Wine"})
    assert curve(figure, 0, "sBNN") == [[0.0, 3.1], [50.0, 3.2]]
    assert curve(figure, 0, "sBNN-50") == [[50.0, 3.05]]
    assert sorted(points(figure, 0, filled=False)) == [[0.0, 3.07], [50.0, 3.07]]
    level = [one for one in figure.axes[0].get_lines() if one.get_label() == "PBP" and len(one.get_xdata())]
    assert set(level[0].get_ydata()) == {3.4}
    assert texts(figure).count("not run") == 1


def test_all_ten_data_sets_have_a_panel():
    figure = results.uci([])
    assert len(figure.axes) == 10 and texts(figure).count("not run") == 10


def test_images_show_both_methods_with_three_rankings_and_published_values():
    own = {"sBNN": 1.5, "BbB": 1.2}
    rows = [row("1200", m, f"error_at_{s}", e + s / 100, e) for m, e in own.items() for s in (50, 98)]
    rows += [row("1200", "sBNN by SNR", "error_at_50", 3.0), row("1200", "BbB by p*", "error_at_50", 4.0)]
    rows += [row("400", "sBNN", "error_at_50", 9.0)]
    for picture in (results.mnist_pruning, results.cifar10_pruning):
        figure = picture(rows)
        assert curve(figure, 0, "by p*") == [[50.0, 2.0], [98.0, 2.48]]
        assert curve(figure, 0, "by |m| / σ") == [[50.0, 3.0]] and curve(figure, 1, "by p*") == [[50.0, 4.0]]
        assert [y for _, y in curve(figure, 1, "by |m| / σ")] == pytest.approx([1.7, 2.18])
        assert [{y for _, y in points(figure, panel, filled=False)} for panel in (0, 1)] == [{1.5}, {1.2}]


def test_errors_that_differ_much_get_a_logarithmic_axis():
    rows = [row("VGG-like", "sBNN", f"error_at_{s}", e) for s, e in ((0, 9.0), (99, 80.0))]
    assert results.vgg(rows).axes[0].get_yscale() == "log"
    assert results.vgg(rows[:1]).axes[0].get_yscale() == "linear"


def test_lenet_is_drawn_as_error_and_as_ratio():
    rows = [row("LeNet-5, set 2", "sBNN", f"error_at_{s}", e, 2 * e) for s, e in ((0, 1.0), (96, 2.0), (99.9, 8.0))]
    figure = results.lenet(rows)
    label = "set 2: log τ₁ = −1, log τ₀ = −3"
    assert curve(figure, 0, label) == [[0.0, 1.0], [96.0, 2.0], [99.9, 8.0]]
    assert curve(figure, 1, label) == [[96.0, 2.0], [99.9, 8.0]]
    assert sorted(points(figure, 1, filled=False)) == [[96.0, 2.0], [99.9, 8.0]]


def test_published_values_stay_when_ours_are_missing():
    rows = [row("1200", "sBNN", "error_at_50", None, 1.57)]
    figure = results.mnist_pruning(rows)
    assert "ours: not run" in texts(figure) and points(figure, 0, filled=False) == [[50.0, 1.57]]
    smoke = [row("1200", "sBNN", "error_at_50", 88.0, 1.57, profile="smoke")]
    assert "ours: not run" in texts(results.mnist_pruning(smoke))


def test_the_distribution_of_p_is_drawn_with_its_cut():
    table = np.array([[0.0, 0.5], [0.25, 0.96], [1.0, 1.0]])
    arrays = {("1200", method, 0, "inclusion_cdf"): table**k for method, k in (("BbB", 2), ("sBNN", 1))}
    figure = results.inclusion_cdf(arrays | {("400", "sBNN", 0, "inclusion_cdf"): table**3})
    drawn = {one.get_label(): one.get_xydata().tolist() for one in figure.axes[0].get_lines()}
    assert drawn["sBNN"] == table.tolist() and drawn["BbB"] == (table**2).tolist()
    level = next(one for one in figure.axes[0].get_lines() if one.get_label() == "95 % of weights")
    assert set(level.get_ydata()) == {0.95}


def test_what_was_not_run_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    counts = {
        "influence": 1,
        "selection": 3,
        "cross_validation": 3,
        "pruning": 2,
        "mnist_pruning": 2,
        "cifar10_pruning": 2,
        "lenet": 2,
        "vgg": 1,
    }
    for name, number in counts.items():
        assert texts(getattr(results, name)([])).count("not run") == number, name
    assert texts(results.importance([], band=(0.9, 0.95))).count("not run") == 2
    assert texts(results.importance_densities()).count("not run") == 2
    assert texts(results.inclusion_cdf()).count("not run") == 1


def test_rows_come_from_the_store_when_they_are_omitted(monkeypatch):
    asked = []
    monkeypatch.setattr(queries, "compare", lambda name: asked.append(name) or [])
    monkeypatch.setattr(lab, "paper_values", lambda name: ([], {}))
    names = ("influence", "importance", "selection", "cross_validation", "pruning", "uci", "mnist_pruning")
    for name in (*names, "cifar10_pruning", "lenet", "vgg"):
        getattr(results, name)()
    short = (
        "influence",
        "importance",
        "selection",
        "selection",
        "pruning",
        "uci",
        "mnist",
        "cifar10-mlp",
        "lenet",
        "vgg",
    )
    assert asked == [f"sbnn-{name}" for name in short]

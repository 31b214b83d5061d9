"""The pictures of stored results on closed-form inclusion probabilities: what they show, not how they look."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from book import lab
from book.display.gallery import covered
from book.lab import queries
from chapters.closed_form.experiments.orders import LONG
from chapters.closed_form.figures import pruned, results
from chapters.closed_form.figures.pruned import removal_curve
from tests.chapters.drawn import row, texts


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


def influence_rows(suffix: str = "", slope: float = 50.0) -> list[dict]:
    rows = []
    for alpha, measured in ((1, 0.5), (0, 0.0), (0.5, 0.2)):
        setting = f"alpha={alpha:g}{suffix}"
        rows += [row(setting, "sBNN", "share_2", 25 + slope * alpha), row(setting, "sBNN", "influence", measured)]
    return rows


def importance_rows() -> list[dict]:
    read = results.READ_PRIOR
    rows = [
        row(f"linear, D={d}, alpha={a}, {read}", "sBNN", "correlation", d / 100 + a) for d in (10, 20) for a in (2, 1)
    ]
    rows += [row("linear, D=20, alpha=1", "sBNN", "correlation", 0.4)]
    return [*rows, row(f"linear, D=20, alpha=1, {results.UCI_PRIOR}", "sBNN", "correlation", 0.3)]


def simulated(**more) -> Figure:
    given = {"influence": influence_rows() + influence_rows(f", {results.ONE_HOME}", 5.0)}
    options = {"rows": given | {"importance": importance_rows()}, "arrays": {}, "band": (0.9, 0.95)}
    return results.simulated(**options | more)


def test_the_share_of_an_input_is_drawn_from_zero_against_the_measured_influence():
    figure = simulated()
    names = results.PRIOR_NAMES
    assert curve(figure, 0, names[""]) == [[0.0, 25.0], [0.2, 50.0], [0.5, 75.0]]
    assert curve(figure, 0, names[results.ONE_HOME]) == [[0.0, 25.0], [0.2, 27.5], [0.5, 30.0]]
    low, high = figure.axes[0].get_ylim()
    assert low <= 0 and high >= 100
    truth = next(one for one in figure.axes[0].get_lines() if one.get_label() == "of what both explain")
    assert truth.get_ydata()[[0, 50, -1]] == pytest.approx([0, 50, 100])
    figure.draw_without_rendering()
    assert not covered(figure.axes[0])


def test_importance_has_a_curve_for_each_size_and_one_for_each_other_prior():
    figure = simulated()
    for size in (10, 20):
        shown = curve(figure, 1, f"{size} inputs")
        assert shown == [[1, pytest.approx(size / 100 + 1)], [2, pytest.approx(size / 100 + 2)]]
    for prior, value in ((results.UCI_PRIOR, 0.3), (results.ONE_HOME, 0.4)):
        assert curve(figure, 1, f"20, {results.PRIOR_NAMES[prior]}") == [[1.0, value]]
    assert texts(figure).count("not run") == 2  # the nonlinear panel, and the densities
    assert figure.axes[1].get_ylim()[0] <= 0


def test_the_published_range_is_the_listed_one():
    low, high = lab.paper_values("sbnn-importance")[0][0].limits
    figure = simulated(band=None)
    band = next(one for one in figure.axes[1].patches if one.get_label() == "published range")
    assert (band.get_y(), band.get_height()) == pytest.approx((low, high - low)) == (0.9, pytest.approx(0.05))


def test_densities_of_phi_are_those_of_the_strongest_and_the_weakest_signal():
    phi = np.linspace(0, 1, 41).reshape(1, 41)
    read = results.READ_PRIOR
    arrays = {
        ("nonlinear, D=100", "sBNN", 0, f"phi/nonlinear, D=100, alpha={a}, {read}"): phi ** (1 + a) for a in (10, 1, 5)
    } | {("nonlinear, D=10", "sBNN", 0, f"phi/nonlinear, D=10, alpha=20, {read}"): phi}
    panel = simulated(arrays=arrays).axes[3]
    assert [patch.get_label() for patch in panel.patches] == ["α = 1", "α = 10"]
    bars = panel.patches[0].get_data()
    assert np.sum(bars.values * np.diff(bars.edges)) == pytest.approx(1.0)
    assert bars.values == pytest.approx(np.histogram(phi**2, bins=bars.edges, density=True)[0])


def selection_rows() -> list[dict]:
    rows = []
    for size, alpha, pi in ((100, 2, 0.2), (50, 2, 0.2), (100, 5, 0.2), (100, 2, 0.5)):
        setting = f"D={size}, alpha={alpha}, pi={pi:g}"
        rows += [row(setting, m, "mse_test", 10.0 * size + k) for k, m in enumerate(results.METHODS[:5])]
        rows += [row(setting, "BNN-VS", "selection_accuracy", 100 - size / 10, 90.0 if alpha == 2 else None)]
        rows += [row(setting, "BNN-VS", "selection_ceiling", 100.0)]
        rows += [row(setting, rule, "selection_accuracy", 100 * pi) for rule in results.TRIVIAL]
    for pi in (0.2, 0.5):
        values = {"mse_test": 5.0, "selection_accuracy": 80.0, "detected_share": 30.0, "active_share": 100 * pi + 1}
        rows += [row(f"cv, pi={pi}", "BNN-VS-CV", metric, value, 90.0) for metric, value in values.items()]
    return rows


def test_selection_varies_one_thing_and_holds_the_others():
    figure = results.selection(selection_rows())
    for k, places in enumerate(([50, 100], [2, 5], [0.2, 0.5])):
        left, right = 2 * k, 2 * k + 1
        assert [x for x, _ in curve(figure, left, "BNN-VS")] == places
        assert [x for x, _ in curve(figure, right, "NN-Dr")] == places
        assert figure.axes[right].get_yscale() == "log" and figure.axes[left].get_ylim()[0] == 0
        assert {y for _, y in points(figure, left, filled=False)} == {90.0}  # published
        rules = [one for one in figure.axes[left].get_lines() if one.get_label() in results.TRIVIAL]
        assert [len(one.get_xdata()) for one in rules] == [2, 2]
    shown = [text.get_text() for text in figure.axes[7].get_legend().get_texts()]
    assert shown[:6] == list(results.METHODS) and shown[6:] == ["the right 20 %", "keep all", "keep none"]


def test_cross_validation_stands_beside_the_fixed_share():
    figure = results.selection(selection_rows())
    assert curve(figure, 4, "BNN-VS-CV") == [[0.2, 80.0], [0.5, 80.0]]
    assert curve(figure, 5, "BNN-VS-CV") == [[0.2, 5.0], [0.5, 5.0]]
    assert curve(figure, 6, "BNN-VS-CV") == [[21.0, 30.0], [51.0, 30.0]]  # against the share that was really active


# --- pruned networks ---


def removed(**given) -> Figure:
    names = ("pruning", "orders", "mnist", "cifar10-mlp", "lenet", "vgg")
    return pruned.removed({name: given.get(name.replace("-", "_"), []) for name in names}, given.get("arrays", {}))


def test_pruning_is_relative_to_the_whole_network():
    figure = removed(pruning=[row("pi=0.2", "sBNN", f"mse_test_at_{share}", 4.0 + share) for share in (0, 4, 12)])
    assert curve(figure, 1, "π = 0.2") == [[4.0, 2.0], [12.0, 4.0]]
    bars = next(one for one in figure.axes[1].containers if one.get_label() == "π = 0.2").lines[2][0].get_segments()
    assert all(np.ptp(bar[:, 1]) == 0 for bar in bars)  # the levels' errors are not those of the ratio


@pytest.mark.slow
def test_the_lesson_s_network_is_pruned_in_three_orders():
    rows = [
        row(LONG, method, f"rmse_test_at_{share}", k + share)
        for k, method in enumerate(pruned.ORDERS.values())
        for share in (0, 80)
    ]
    figure = removed(orders=rows)
    assert [curve(figure, 0, name)[1] for name in pruned.ORDERS] == [[80.0, 80.0], [80.0, 81.0], [80.0, 82.0]]


def test_images_show_three_orders_the_rival_and_published_values():
    own = {"sBNN": 1.5, "BbB": 1.2}
    rows = [row("1200", m, f"error_at_{s}", e + s / 100, e) for m, e in own.items() for s in (50, 98)]
    rows += [row("1200", "sBNN by SNR", "error_at_50", 3.0), row("400", "sBNN", "error_at_50", 9.0)]
    for place, name in ((3, "mnist"), (4, "cifar10_mlp")):
        figure = removed(**{name: rows})
        assert curve(figure, place, "by p*") == [[50.0, 2.0], [98.0, 2.48]]
        assert curve(figure, place, "by |m| / σ") == [[50.0, 3.0]]
        assert [y for _, y in curve(figure, place, "Bayes by Backprop by |m| / σ")] == pytest.approx([1.7, 2.18])
        assert {y for _, y in points(figure, place, filled=False)} == {1.5, 1.2}
    rows += [row("1200, as published", "sBNN", "error_at_50", 1.6, 1.55)]
    figure = removed(mnist=rows)
    assert curve(figure, 3, "by p*") == [[50.0, 1.6]]
    assert {y for _, y in points(figure, 3, filled=False)} == {1.55, 1.2}


def test_a_published_sparsity_stands_at_its_error():
    rows = [row("VGG-like", "sBNN", f"error_at_{s}", e) for s, e in ((0, 9.0), (98.5, 80.0))]
    rows += [row("VGG-like", "sBNN", "removed", 75.0, 98.5), row("VGG-like", "sBNN", "error_pruned", 9.0, 8.7)]
    figure = removed(vgg=rows)
    assert points(figure, 5, filled=False) == [[98.5, 8.7]]
    assert curve(figure, 5, "by p*") == [[0.0, 9.0], [98.5, 80.0]]


def test_lenet_has_two_priors_and_published_values():
    rows = [row("LeNet-5, set 2", "sBNN", f"error_at_{s}", e, 2 * e) for s, e in ((0, 1.0), (96, 2.0), (99.9, 8.0))]
    figure = removed(lenet=rows)
    assert curve(figure, 6, pruned.LENET_SETS["LeNet-5, set 2"]) == [[96.0, 2.0], [99.9, 8.0]]
    assert sorted(points(figure, 6, filled=False)) == [[96.0, 4.0], [99.9, 16.0]]


def test_shares_of_rivals_count_the_biases_that_they_keep():
    # 784 * 300 + 300 * 100 + 100 * 10 weights and 410 biases
    assert pruned.parameters_left("LeNet-300-100", 99.0) == pytest.approx(100 * (2_662 + 410) / 266_610)
    assert pruned.parameters_left("LeNet-5", 99.5) == pytest.approx(100 * (2_152.5 + 580) / 431_080)
    assert pruned.parameters_left("LeNet-5, at once", 0.0) == 100.0


def test_rivals_stand_over_the_numbers_that_are_left():
    rows = [row("LeNet-5", "DC", f"error_at_{s}", e) for s, e in ((0, 0.8), (90, 0.9), (99.5, 4.0))]
    rows += [row("LeNet-5, at once", "DC", "error_at_91.7", 0.7, 0.77)]
    rows += [row("LeNet-5", "sBNN", f"error_at_{s}", e) for s, e in ((0, 0.8), (99, 0.9))]
    rows += [row("LeNet-5", "sBNN", "removed", 99.0, 99.2), row("LeNet-5", "sBNN", "error_pruned", 0.9, 1.06)]
    rows += [row("LeNet-5", "SWS", "removed", None, 99.5), row("LeNet-5", "SWS", "error_pruned", None, 0.97)]
    rows += [row("LeNet-5", "Original", "error_test", 0.7)]
    figure = removed(lenet=rows)
    left = [pruned.parameters_left("LeNet-5", share) for share in (90, 91.7, 99.5)]
    drawn = curve(figure, 8, "|w|, retrained (DC)")
    assert np.array(drawn) == pytest.approx(np.array([[left[0], 0.9], [left[2], 4.0]]))
    assert [line.get_xydata().tolist() for line in figure.axes[8].get_lines() if line.get_marker() == "D"][:1] == [
        [pytest.approx([left[1], 0.7])]
    ]
    assert curve(figure, 8, "by p*") == [[1.0, 0.9]]  # which ranks biases too
    published = np.array(sorted(points(figure, 8, filled=False)))
    assert published == pytest.approx(np.array([[0.5, 0.97], [0.8, 1.06], [left[1], 0.77]]))
    assert [tuple(line.get_ydata()) for line in figure.axes[8].get_lines() if line.get_ls() == ":"] == [(0.7, 0.7)]
    assert texts(figure).count("not run") == 8  # the other network, and the first seven panels


def test_sparse_vd_begins_where_its_own_threshold_leaves_it():
    errors = ((0, 1.0), (90, 1.0), (96, 1.0), (97, 1.1), (99, 3.0))
    rows = [row("LeNet-5", "Sparse VD", f"error_at_{s}", e, 0.75 if s == 0 else None) for s, e in errors]
    rows += [row("LeNet-5", "Sparse VD", "active", 3.8, 0.7)]
    figure = removed(lenet=rows)
    left = [pruned.parameters_left("LeNet-5", share) for share in (96.2, 97, 99)]
    drawn = np.array(sorted(curve(figure, 8, "Sparse VD"), reverse=True))
    assert drawn == pytest.approx(np.array([[left[0], 1.0], [left[1], 1.1], [left[2], 3.0]]))
    assert points(figure, 8, filled=False) == [pytest.approx([pruned.parameters_left("LeNet-5", 99.3), 0.75])]


def test_the_distribution_of_p_is_drawn_with_its_cut():
    table = np.array([[0.0, 0.5], [0.25, 0.96], [1.0, 1.0]])
    arrays = {("1200, as published", "sBNN", 0, "inclusion_cdf"): table}
    arrays[("1200", "sBNN", 0, "inclusion_cdf")] = table**3
    drawn, level = removed(arrays=arrays).axes[2].get_lines()
    assert drawn.get_xydata() == pytest.approx(table * [1, 100]) and set(level.get_ydata()) == {95.0}


def test_published_values_stay_when_ours_are_missing():
    figure = removed(mnist=[row("1200", "sBNN", "error_at_50", None, 1.57)])
    assert "ours: not run" in texts(figure) and points(figure, 3, filled=False) == [[50.0, 1.57]]
    smoke = [row("1200", "sBNN", "error_at_50", 88.0, 1.57, profile="smoke")]
    assert "ours: not run" in texts(removed(mnist=smoke))


def test_uci_panels_show_both_choices_published_values_and_what_is_not_pruned():
    rows = [row("boston", "sBNN", "rmse_test", 3.0, 3.07), row("boston", "sBNN", "rmse_test_mean_weights", 3.1)]
    rows += [
        row("boston", "sBNN", "rmse_test_at_50", 3.2, 3.07),
        row("boston", "sBNN-50", "rmse_test_at_50", 3.05, 9.0),
    ]
    rows += [row("boston", "PBP", "rmse_test", 3.4)]
    figure = pruned.uci(rows, {"boston": "Boston", "wine": "Wine"})
    assert curve(figure, 0, "sBNN") == [[0.0, 3.1], [50.0, 3.2]]
    assert curve(figure, 0, "sBNN-50") == [[50.0, 3.05]]
    assert sorted(points(figure, 0, filled=False)) == [[0.0, 3.07], [50.0, 3.07]]
    level = [one for one in figure.axes[0].get_lines() if one.get_label() == "PBP" and len(one.get_xdata())]
    assert set(level[0].get_ydata()) == {3.4}
    assert texts(figure).count("not run") == 1

"""The pictures of the chapter on Structured Bayesian Pruning: what they show, not how they look."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from book import lab
from book.display.picture import Line, Points, Text
from chapters.unit_noise import formulas
from chapters.unit_noise.figures import explorers, results
from chapters.unit_noise.figures import method as sbp
from tests.chapters import drawn
from tests.chapters.drawn import items, line, texts


def labels(figure: Figure, panel: int) -> list[str]:
    return [one.get_label() for one in figure.axes[panel].get_lines()]


def normal(v: np.ndarray, location: float, scale: float) -> np.ndarray:
    """A normal density cut to [-20, 0] and normalized on a grid."""
    weight = np.exp(-0.5 * ((v - location) / scale) ** 2)
    return weight / np.trapezoid(weight, v)


# --- densities ---


def test_densities_on_the_log_scale_are_normals_cut_to_the_interval():
    figure = sbp.densities(posteriors=((-2.0, 1.2), (-3.0, 8.0)))
    for label, settings in (("μ = −2, σ = 1.2: SNR 0.99", (-2.0, 1.2)), ("μ = −3, σ = 8: SNR 0.43", (-3.0, 8.0))):
        v, density = line(figure, 0, label).T
        # the trapezoid rule with steps of 0.0125 on densities of width 1.2
        assert density == pytest.approx(normal(v, *settings), rel=1e-4)


def test_densities_of_theta_are_those_of_its_logarithm_over_theta():
    figure = sbp.densities(posteriors=((-0.5, 0.25),))
    prior, one = labels(figure, 1)
    theta, density = line(figure, 1, one).T
    at = np.interp(np.log(theta), *line(figure, 0, one).T)
    inside = (theta > 0.3) & (theta < 0.95)
    # interpolation between points 0.0125 apart, where the density has a width of 0.25
    assert (density * theta)[inside] == pytest.approx(at[inside], rel=2e-3)
    theta, density = line(figure, 1, prior).T
    assert density == pytest.approx(1 / (20 * theta), rel=1e-9)
    assert set(line(figure, 0, prior)[:, 1]) == {0.05} and prior == "prior: SNR 0.33"


# --- the plane ---


def test_the_plane_has_the_limits_of_the_prior_and_of_the_start():
    found = sbp.plane([0.0, -10.0], [-5.0, 5.0])
    assert found["snr"].shape == found["kl"].shape == (2, 2)
    assert found["snr"][0, 0] == pytest.approx(247, rel=2e-3) and found["kl"][0, 0] == pytest.approx(7.27, abs=5e-3)
    # sigma = 148 on an interval of 20: all but the prior
    assert found["snr"][1] == pytest.approx([1 / 3, 1 / 3], abs=2e-3)
    assert found["kl"][1].max() < 1e-3


# --- numerical stability ---


def test_the_printed_forms_are_right_where_double_precision_holds_them():

    mean, scale = torch.tensor([-1.0, -3.0, -0.2]).double(), torch.tensor([0.5, 1.5, 0.1]).double()
    found = sbp.printed_forms(mean, scale)
    ours = (formulas.truncated_log_normal_kl, formulas.truncated_log_normal_mean, formulas.truncated_log_normal_snr)
    for name, function in zip(("kl", "mean", "snr"), ours, strict=True):
        assert found[name].numpy() == pytest.approx(function(mean, scale).numpy(), rel=1e-9)


def test_the_printed_forms_break_and_ours_do_not():
    figure = sbp.stability()
    for panel, ends in ((0, (-1,)), (1, (-1,))):
        printed, ours = (line(figure, panel, name)[:, 1] for name in ("printed form, float32", "bnnlib"))
        assert np.isfinite(ours).all()
        assert all(np.isnan(printed[end]) for end in ends)
        good = np.isfinite(printed)
        assert good.mean() > 0.4 and np.median(np.abs(printed[good] / ours[good] - 1)) < 1e-2
    # the shading covers what is no number, and where digits are lost below sigma = e^-8
    shaded = np.concatenate([one.vertices[:, 0] for one in figure.axes[0].collections[0].get_paths()])
    assert shaded.min() == pytest.approx(-9) and shaded.max() == pytest.approx(5)


# --- noise that is shared ---


def test_shared_noise_does_not_average_out_over_the_batch():
    spread = sbp.gradient_spread((16, 256), 200, 4, 0.5, torch.Generator().manual_seed(1))
    # own noise: the mean of 16 times as many independent terms; 200 draws of 4 units know a deviation to about 5 %
    assert spread["local"][0] / spread["local"][1] == pytest.approx(4, rel=0.15)
    # what is left is the spread of the noise itself
    assert spread["shared"][1] > 1.5 * spread["local"][1]


# --- the explorers ---


@pytest.mark.parametrize(("location", "log_scale", "fate"), [(0.0, -5.0, "kept"), (-3.0, 1.0, "pruned")])
def test_the_explorer_says_what_becomes_of_the_unit(location, log_scale, fate):
    found = explorers.noise_values(location, log_scale)
    assert (found["snr"] > 1) == (fate == "kept")
    picture = explorers.noise(location, log_scale)
    assert f"the unit is {fate}" in picture.heading and f"SNR = {found['snr']:.3g}" in picture.heading
    assert explorers.noise_in_words(location, log_scale).endswith(f"the unit is {fate}.")
    points = [(one.x.tolist(), one.y.tolist()) for one in items(picture, 1, Points)]
    assert points == [([location], [log_scale])]


@pytest.mark.parametrize("settings", [(0.0, -5.0), (-20.0, -5.0), (-10.0, 1.0), (5.0, -5.0), (5.0, 5.0)])
def test_the_drawn_density_has_all_of_its_mass(settings):
    curve = next(one for one in items(explorers.noise(*settings), 0, Line) if len(one.x) > 60)
    # drawn no lower than 5e-4 over the interval of 20, which adds up to 0.01; the rest is the trapezoid rule's
    assert np.trapezoid(curve.y, curve.x) == pytest.approx(1, abs=0.03)


def test_labels_of_the_divergence_stand_on_its_contours():
    shown = {one.text: (one.x, one.y) for one in items(explorers.noise(0.0, 0.0), 1, Text)}
    for level in explorers.LEVELS:
        location, log_scale = shown[f"{level:g}"]
        # read off a grid with steps of 0.1 in log sigma
        assert float(sbp.plane([location], [log_scale])["kl"][0, 0]) == pytest.approx(level, rel=0.03)


def test_the_explorer_starts_where_training_does_and_reaches_both_fates():
    from bnnlib.nn import StructuredBayesianPruning

    layer = StructuredBayesianPruning(1)
    start = {name: control.default for name, control in explorers.NOISE_CONTROLS.items()}
    assert start == {"location": layer.initial_location, "log_scale": math.log(layer.initial_scale)}
    grid = sbp.plane(*(control.values for control in explorers.NOISE_CONTROLS.values()))["snr"] > 1
    assert 0.3 < np.mean(grid) < 0.7


@pytest.mark.parametrize(("t", "weight", "fate"), [(3.0, 1.0, "kept"), (2.5, 1.0, "pruned"), (3.0, 2.0, "pruned")])
def test_the_trade_says_what_becomes_of_the_unit(t, weight, fate):
    found = explorers.trade_values(t, weight)
    assert (found["snr"] > 1) == (fate == "kept")
    picture = explorers.trade(t, weight)
    assert f"the unit is {fate}" in picture.heading and f"{found['snr']:.2f}" in picture.heading
    assert explorers.trade_in_words(t, weight).endswith(f"it is {fate}.")
    points = [(one.x.tolist(), one.y.tolist()) for panel in (0, 1) for one in items(picture, panel, Points)]
    assert points == [([found["snr"]], [found["bound"]]), ([t], [found["snr"]])]


def test_the_sum_is_what_is_earned_less_what_is_paid_and_best_at_its_point():
    lines = {one.name: one for one in items(explorers.trade(4.0, 1.5), 0, Line)}
    assert lines["sum"].y == pytest.approx(lines["earned"].y + lines["paid"].y)
    # from nothing, all of the gain t^2 / 2 at infinite precision
    assert lines["earned"].y[-1] == pytest.approx(8 * 3600 / 3601)
    assert explorers.trade_values(4.0, 1.5)["bound"] == lines["sum"].y.max()


def test_the_best_ratio_has_a_gap_at_the_threshold():
    line = next(one for one in items(explorers.trade(3.0, 1.0), 1, Line) if one.look == 0)
    gap = np.flatnonzero(np.isnan(line.y))
    assert len(gap) == 1 and line.y[gap[0] - 1] < 0.6 and line.y[gap[0] + 1] > 1.2


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
    assert len(curves(figure, 0, "dropout")) == len(curves(figure, 0, "SBP, noise 100 times as fast")) == 2
    assert curves(figure, 0, "SBP, ten times as fast")[0][:, 1].tolist() == [11, 13, 12]
    assert curves(figure, 1, "SBP, noise 100 times as fast")[0].tolist() == [[1, 100], [2, 60], [3, 0]]
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

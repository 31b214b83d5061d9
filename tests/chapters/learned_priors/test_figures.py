"""The pictures of the chapter on learned priors: what they show, not how they look."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from bnnlib import functional as bF
from chapters.learned_priors import figures as aeb
from chapters.learned_priors.figures import prior, results, slab
from tests.chapters.drawn import item, line, row, texts

# --- the prior ---


def test_the_two_components_add_up_to_a_density():
    w = np.linspace(-60, 60, 240_001)
    spike, slab = prior.components(w, 0.1, 10.0, sigma=2.0, inclusion=0.3)
    # the trapezoid rule at 5e-4 with a kink of scale 0.2 errs by 1e-6; the tails beyond 60 hold 1e-20
    assert np.trapezoid(spike, w) == pytest.approx(0.7, abs=1e-5)
    assert np.trapezoid(slab, w) == pytest.approx(0.3, abs=1e-5)


def test_shrinkage_by_a_normal_prior_is_the_conjugate_formula():
    z = np.array([-2.0, 0.0, 0.5, 3.0])
    means = prior.shrinkage(z, 0.5, lambda w: -0.5 * w**2)
    assert means == pytest.approx(z / 1.25, abs=1e-9)  # the trapezoid rule is spectrally exact on a Gaussian


def test_the_idea_shrinks_the_small_weight_and_leaves_the_large_one():
    both = line(aeb.idea(small=0.3, large=1.2), 1, "both")
    kept = np.interp([0.3, 1.2], *both.T)
    assert kept[0] < 0.15 and kept[1] > 1.15


@pytest.mark.parametrize("name", aeb.PUBLISHED)
def test_the_crossover_is_where_rho_is_one_half(name):
    where = prior.crossover(*aeb.PUBLISHED[name], sigma=2.0, inclusion=0.4)
    if where is not None:  # at delta = 0.4 the prior of S = 90 % never favors the Gaussian
        rho = bF.slab_probability(torch.tensor([where], dtype=torch.float64), 0.4, 2.0, *aeb.PUBLISHED[name])
        assert float(rho) == pytest.approx(0.5, abs=1e-9)


def test_a_setting_without_crossover_is_drawn_all_the_same():
    assert prior.crossover(1.0, 1.0, inclusion=0.05) is None
    assert "never crosses one half" in aeb.penalty_in_words(1.0, 1.0, inclusion=0.05)
    assert len(aeb.penalty(1.0, 1.0, inclusion=0.05).panels) == 4


@pytest.mark.parametrize("name", aeb.PUBLISHED)
def test_published_settings_are_named_and_their_reversal_is_told(name):
    pair = aeb.PUBLISHED[name]
    shown = aeb.penalty(*pair).heading
    assert f"published setting: {name}" in shown
    reversed_roles = name != "regression"
    assert ("roles reversed" in shown) is reversed_roles
    small = float(bF.slab_probability(torch.zeros(1, dtype=torch.float64), 0.5, 1.0, *pair))
    assert (small > 0.5) is reversed_roles  # reversed: it is the Gaussian that claims the weights at zero


def test_the_gradient_panel_is_the_slope_of_the_penalty_panel(monkeypatch):
    monkeypatch.setattr(prior, "POINTS", 401)
    picture = aeb.penalty(0.1, 5e-5, 2.0)
    found = [item(picture, panel, name="both") for panel in (2, 3)]
    w, height, slope = found[0].x, found[0].y, found[1].y
    away = np.abs(w) > 3 * (w[1] - w[0])  # the absolute value has no slope at 0
    # central differences on 401 points; the third derivative makes the error at most 1e-3 of the largest slope
    assert np.abs(np.gradient(height, w) - slope)[away].max() < 3e-3 * np.abs(slope).max()


def test_every_control_reaches_published_settings():
    grids = [aeb.CONTROLS[name].values for name in ("spike_scale", "slab_variance")]
    assert all(v0 in grids[0] and v1 in grids[1] for v0, v1 in aeb.PUBLISHED.values())


# --- the samplers ---


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_baoab_is_exact_on_a_gaussian_and_euler_is_not(momentum):
    for lr in (0.1, 0.9):
        assert aeb.gaussian_variance("SGHMC, BAOAB", lr, momentum) == pytest.approx(1.0, rel=1e-9)
        euler = 1 / (1 - lr / (2 * (1 + momentum)))  # (aeb-sghmc-euler)
        assert aeb.gaussian_variance("SGHMC, Euler", lr, momentum) == pytest.approx(euler, rel=1e-9)


def test_measured_variances_lie_beside_the_theory():
    assert math.isnan(aeb.gaussian_variance("SGLD", 2.5))  # unstable
    figure = aeb.discretization_bias({"SGLD": ([0.5, 1.0], [1.3, 2.1])})
    assert line(figure, 0, "_simulated").tolist() == [[0.5, 1.3], [1.0, 2.1]]
    lr, variance = line(figure, 0, "SGLD").T
    assert variance == pytest.approx(1 / (1 - lr / 2))


# --- stochastic approximation and pruning ---


def test_the_theorem_s_line_ends_at_the_slowest_sequence():
    k = np.arange(1, 5001)
    weights = {"slow": k**-0.6, "fast": k**-0.9}
    figure = aeb.stochastic_approximation(weights, {name: 2 * w for name, w in weights.items()})
    reference = line(figure, 1, "proportional to $w_k$")
    assert reference[:, 1] / reference[:, 0] == pytest.approx([2, 2])
    assert reference[1, 0] == pytest.approx(5000**-0.9)
    assert line(figure, 0, "slow")[-1].tolist() == pytest.approx([5000, 2 * 5000**-0.6])


# --- stored results ---


def test_missing_results_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    assert slab.steps(0.08, 0.7).heading == "not run" and slab.em_chains() == []


def test_every_data_set_and_the_published_number_are_drawn(monkeypatch):
    setting = "v0=0.1, sigma=1"
    known = {("aeb-regression", setting, "SGLD", "mse_test"): np.array([100.0, 200.0])}
    known |= {("aeb-coverage", setting, "both", f"covered_beta{j}"): np.array([100.0, 0.0]) for j in (1, 2, 3)}
    monkeypatch.setattr(results, "stored_values", lambda *cell: known.get(cell, np.empty(0)))
    figure = results.regression([row(setting, "SGLD", "mse_test", 150.0, 88.9)])
    drawn = [one.get_ydata().tolist() for one in figure.axes[0].get_lines()]
    points = [value for one in figure.axes[0].collections for value in one.get_offsets()[:, 1].tolist()]
    assert sorted(points) == [100.0, 200.0] and [150.0] in drawn and [88.9] in drawn
    assert line(figure, 1, "both held")[:, 1].tolist() == [50.0] * 3
    assert [panel.get_legend().get_title().get_text() for panel in figure.axes] == ["panel a", "panel b"]
    figure.draw_without_rendering()
    ends = [label.get_window_extent().intervalx for label in figure.axes[0].get_xticklabels()]
    assert all(one[1] < after[0] for one, after in pairwise(ends))  # no label runs into the next


def test_smoke_rows_show_only_what_was_published():
    rows = [row(f"S={s}", m, "accuracy", 10.0, 90.0, profile="smoke") for s in (30, 50, 70, 90) for m in ("SGHMC-SA",)]
    rows += [row(*rival, "accuracy", None, 91.0) for rival in results.RIVALS]
    figure = results.resnet20(rows)
    assert line(figure, 0, "SGHMC-SA")[:, 1].tolist() == [90.0] * 4
    assert line(figure, 0, "published: BC-GHS").tolist() == [[94.5, 91.0]]
    assert not len(line(figure, 1, "SGHMC-SA")) and texts(figure).count("not run") == 1


def test_differences_are_paired_and_in_percent_of_the_method_s_own_error(monkeypatch):
    asked = []

    def paired(name, setting, method, other, metric):
        asked.append((method, other))
        return (-0.1, 0.02, 20) if (setting, other) == ("yacht", "SGHMC") else (np.nan, np.nan, 0)

    monkeypatch.setattr(results.lab, "paired_difference", paired, raising=False)
    monkeypatch.setattr(results, "stored_values", lambda *cell: np.array([0.4, 0.6]))
    figure = results.uci_differences()
    container = figure.axes[0].containers[0]
    assert container.lines[0].get_xdata().tolist() == pytest.approx([-20.0])  # percent of 0.5
    ends = container.lines[2][0].get_segments()[0][:, 0].tolist()
    assert ends == pytest.approx([-20.0 - 2.093 * 4.0, -20.0 + 2.093 * 4.0], abs=1e-3)  # t of 19 degrees of freedom
    assert set(asked) == {("A-SGHMC-SA", other) for other in results.UCI_RIVALS}


# --- what keeps the slab ---


def slab_arrays(count: int) -> dict:
    shape, points = (len(slab.FIRST), len(slab.EXPONENTS)), len(slab.traced_steps(slab.STEPS))
    arrays = {}
    for number in range(count):
        where = (slab.SETTING, "all methods", number)
        arrays[*where, "grid mse"] = np.full(shape, 4.0 + number, dtype=np.float16)
        arrays[*where, "grid kept"] = np.full(shape, 100.0 * (number == 0), dtype=np.float16)
        for method in slab.TRACES:
            arrays[*where, f"trace {method}"] = np.full((4, points), 0.25, dtype=np.float16)
    arrays[slab.SETTING, "all methods", 0, "grid traces"] = np.full((4, *shape, points), 0.25, dtype=np.float16)
    return arrays


def test_the_explorer_counts_slabs_and_shows_every_data_set(monkeypatch):
    monkeypatch.setattr(slab, "stored_arrays", lambda name: slab_arrays(3))
    picture = slab.steps(0.08, 0.7)
    assert f"A = {0.08 * 101**0.7:.3g}" in picture.heading and "kept on 1 of 3" in picture.heading
    weights = picture.panels[0].items[0]
    assert weights.y[0] == pytest.approx(0.08) and weights.y[-1] == pytest.approx(0.08 * (101 / 4100) ** 0.7)
    points = next(one for one in picture.panels[3].items if getattr(one, "size", 0) == 4)
    assert list(points.y) == [4.0, 5.0, 6.0] and max(abs(np.asarray(points.x) / 0.08 - 1.0)) < 0.11
    assert "kept on 1 of 3" in slab.steps_in_words(0.08, 0.7)


def test_a_method_has_one_color_in_all_panels(monkeypatch):
    monkeypatch.setattr(slab, "em_chains", lambda: [(0, 5.0, True), (1, 20.0, False)])
    monkeypatch.setattr(slab, "stored_values", lambda *_: np.array([3.0, 4.0]))
    monkeypatch.setattr(slab, "_stored", lambda name: {0: np.ones((4, len(slab.traced_steps(slab.STEPS))))})
    figure = aeb.slab_traces()
    of_lines = {text.get_text(): to_hex(one.get_color()) for text, one in zip(
        figure.legends[0].get_texts(), figure.legends[0].get_lines(), strict=True
    )}  # fmt: skip
    drawn = [to_hex(one.get_facecolor()[0]) for one in figure.axes[-1].collections if len(one.get_offsets())]
    of_points = dict(zip((label.get_text() for label in figure.axes[-1].get_yticklabels()), drawn, strict=True))
    for name, look in of_lines.items():
        assert {color for run, color in of_points.items() if run.split(",")[0] == name} == {look}
    assert of_points["predict 0"] not in of_lines.values()


def test_chains_of_em_are_those_of_the_method_and_of_the_grid_s_corner(monkeypatch):
    monkeypatch.setattr(slab, "stored_arrays", lambda name: slab_arrays(2))
    known = {"mse_test": np.array([20.0, 25.0]), "kept": np.array([0.0, 100.0])}
    monkeypatch.setattr(slab, "stored_values", lambda *cell: known[cell[-1]])
    assert slab.em_chains() == [(0, 4.0, True), (1, 5.0, False), (0, 20.0, False), (1, 25.0, True)]

"""The pictures of the chapter on learned priors: what they show, not how they look."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book import lab
from chapters.learned_priors.figures import prior, results
from chapters.learned_priors.figures import samplers as aeb


def texts(figure: Figure) -> str:
    inside = [text for panel in figure.axes for text in [*panel.texts, panel.title, panel._left_title]]
    above = [figure._suptitle] if figure._suptitle else []
    return " ".join(text.get_text() for text in [*inside, *above])


def line(figure: Figure, panel: int, label: str) -> np.ndarray:
    """The (x, y) points of a labeled curve."""
    return next(one for one in figure.axes[panel].get_lines() if one.get_label() == label).get_xydata()


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
    where = aeb.crossover(*aeb.PUBLISHED[name], sigma=2.0, inclusion=0.4)
    if where is not None:  # at delta = 0.4 the prior of S = 90 % never favors the Gaussian
        rho = bF.slab_probability(torch.tensor([where], dtype=torch.float64), 0.4, 2.0, *aeb.PUBLISHED[name])
        assert float(rho) == pytest.approx(0.5, abs=1e-9)


def test_a_setting_without_crossover_is_drawn_all_the_same():
    assert aeb.crossover(1.0, 1.0, inclusion=0.05) is None
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
    found = [
        next(one for one in panel.items if getattr(one, "name", "") == "both")
        for panel in aeb.penalty(0.1, 5e-5, 2.0).panels[2:]
    ]
    w, height, slope = found[0].x, found[0].y, found[1].y
    away = np.abs(w) > 3 * (w[1] - w[0])  # the absolute value has no slope at 0
    # central differences on 401 points; the third derivative makes the error at most 1e-3 of the largest slope
    assert np.abs(np.gradient(height, w) - slope)[away].max() < 3e-3 * np.abs(slope).max()


def test_every_control_reaches_published_settings():
    for kind in ("values", "static_values"):
        grids = [getattr(aeb.CONTROLS[name], kind) for name in ("spike_scale", "slab_variance")]
        assert all(v0 in grids[0] and v1 in grids[1] for v0, v1 in aeb.PUBLISHED.values()), kind


# --- the samplers ---


def test_the_variance_of_sgld_is_the_formula_of_the_text():
    for lr in (0.1, 0.5, 1.5):
        assert aeb.gaussian_variance("SGLD", lr) == pytest.approx(1 / (1 - lr / 2), rel=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_baoab_is_exact_on_a_gaussian_and_euler_is_not(momentum):
    for lr in (0.1, 0.9):
        assert aeb.gaussian_variance("SGHMC, BAOAB", lr, momentum) == pytest.approx(1.0, rel=1e-9)
        assert aeb.gaussian_variance("SGHMC, Euler", lr, momentum) > 1 + lr / 8


def test_variances_agree_with_a_simulated_chain():
    generator = torch.Generator().manual_seed(5)
    q, v = torch.zeros(2, 20_000, dtype=torch.float64)
    for _ in range(200):
        noise = torch.randn(q.shape, generator=generator, dtype=q.dtype)
        q, v = bF.sghmc_euler_step(q, v, q, noise, 0.4, 0.5, 2.0)
    # a sample variance of 20,000 independent chains has a relative standard error of 1 %: four of them
    assert float(q.var()) == pytest.approx(aeb.gaussian_variance("SGHMC, Euler", 0.4, 0.5, 2.0), rel=0.04)


def test_an_unstable_or_unknown_scheme_is_told():
    assert math.isnan(aeb.gaussian_variance("SGLD", 2.5))
    with pytest.raises(ValueError, match="use one of SGLD"):
        aeb.gaussian_variance("HMC", 0.1)
    with pytest.raises(ValueError, match=r"measured names \['HMC'\]"):
        aeb.discretization_bias({"HMC": ([0.1], [1.0])})


def test_histograms_are_densities_and_say_what_they_leave_out():
    draws = np.concatenate([np.zeros(900), np.full(100, 9.0)])
    figure = aeb.langevin_density({"a": draws, "b": np.zeros(10), "c": np.zeros(10)}, bins=8)
    bars = figure.axes[0].patches[0].get_data()
    assert np.sum(bars.values * np.diff(bars.edges)) == pytest.approx(0.9)
    assert "10.0 %\noutside" in texts(figure) and texts(figure).count("outside") == 1


def test_measured_variances_lie_beside_the_theory():
    figure = aeb.discretization_bias({"SGLD": ([0.5, 1.0], [1.3, 2.1])})
    assert line(figure, 0, "_simulated").tolist() == [[0.5, 1.3], [1.0, 2.1]]
    lr, variance = line(figure, 0, "SGLD").T
    assert variance == pytest.approx(1 / (1 - lr / 2))


def test_densities_at_each_temperature_integrate_to_one_and_chains_are_laid_beside():
    x = np.linspace(-6, 6, 601)
    figure = aeb.temperature(x, x**2 / 2, {1.0: np.array([0.1, -0.1])}, temperatures=(1.0, 4.0))
    for value in (1, 4):
        grid, density = line(figure, 1, f"T = {value}").T
        assert np.trapezoid(density, grid) == pytest.approx(1.0)
    assert line(figure, 1, "T = 4")[300, 1] == pytest.approx(1 / math.sqrt(8 * math.pi), rel=5e-3)  # cut at 3 sd
    assert np.sum(line(figure, 1, "_chain")[:, 1]) * 0.5 == pytest.approx(1.0)
    with pytest.raises(ValueError, match="there is no temperature"):
        aeb.temperature(x, x**2)


def test_traces_of_all_chains_are_drawn_with_their_statistics():
    draws = np.arange(12.0).reshape(3, 4)
    figure = aeb.chains(draws, {"split R-hat": 1.25})
    assert line(figure, 0, "chain 2")[:, 1].tolist() == [4, 5, 6, 7]
    assert "split R-hat 1.25" in texts(figure)


# --- stochastic approximation and pruning ---


def test_the_theorem_s_line_ends_at_the_slowest_sequence():
    k = np.arange(1, 5001)
    weights = {"slow": k**-0.6, "fast": k**-0.9}
    figure = aeb.stochastic_approximation(weights, {name: 2 * w for name, w in weights.items()})
    reference = line(figure, 1, "proportional to $w_k$")
    assert reference[:, 1] / reference[:, 0] == pytest.approx([2, 2])
    assert reference[1, 0] == pytest.approx(5000**-0.9)
    assert line(figure, 0, "slow")[-1].tolist() == pytest.approx([5000, 2 * 5000**-0.6])


def test_the_schedule_is_drawn_in_percent_with_what_was_measured():
    figure = aeb.sparsity_schedule([0, 10], {"S = 0.9": [0.0, 0.5]}, {"S = 0.9": ([10], [0.25])})
    assert line(figure, 0, "S = 0.9")[:, 1].tolist() == [0, 50]
    assert line(figure, 0, "_measured").tolist() == [[10, 25]]


# --- stored results ---


def regression_arrays(methods=results.REGRESSION_METHODS) -> dict:
    rng = np.random.default_rng(0)
    where, truth = ("all settings", "all methods", 0), np.array([3.0, 2.0, 1.0])
    arrays = {(*where, "coefficients"): truth}
    for method in methods:
        arrays[*where, f"samples {method}"] = (truth + 0.1 * rng.normal(size=(200, 3))).astype(np.float16)
        arrays[*where, f"beta mean {method}"] = np.zeros(20, dtype=np.float16)
        for part in ("train", "test"):
            arrays[*where, f"fit {part} {method}"] = rng.normal(size=(9, 2)).astype(np.float16)
    return arrays


def test_the_intervals_of_the_regression_hold_95_percent_of_the_draws():
    arrays = regression_arrays()
    figure = results.regression(arrays)
    draws = arrays["all settings", "all methods", 0, "samples SGLD-EM"][:, 1].astype(float)
    intervals = [one.get_xdata() for one in figure.axes[1].get_lines() if one.get_marker() == "|"]
    assert len(intervals) == 3
    low, high = intervals[1]
    assert np.mean((draws >= low) & (draws <= high)) == pytest.approx(0.95, abs=0.01)  # two of 200 draws
    assert "not run" not in texts(figure)


def test_a_regression_with_one_method_leaves_the_others_out():
    figure = results.regression(regression_arrays(["SGLD"]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["SGLD"]


def test_a_chain_that_diverged_is_named_and_left_out():
    arrays = regression_arrays()
    arrays["all settings", "all methods", 0, "samples SGLD"][3, 1] = np.inf
    figure = results.regression(arrays)
    assert "diverged, not drawn: SGLD" in texts(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["SGLD-SA", "SGLD-EM"]


def test_missing_results_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    assert texts(results.regression()).count("not run") == 6
    assert texts(results.regression_errors([])).count("not run") == 1
    assert texts(results.uci([])).count("not run") == 5
    assert texts(results.mnist()).count("not run") == 2
    assert texts(results.fgsm([])).count("not run") == 2
    assert texts(results.resnet20([])).count("not run") == 2


def test_arrays_of_a_smoke_run_are_no_result(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    for profile, number in (("smoke", 0), ("book", 1)):
        result = {"experiment": "aeb-mnist", "profile": profile, "rows": []}
        result["provenance"] = {"cells": {"total": 1, "done": 1, "failed": 0}}
        lab.save_result(result, {"MNIST|SGHMC|0|curve": np.zeros((2, 3))})
        assert len(results.stored_arrays("aeb-mnist")) == number


def row(setting: str, method: str, metric: str, mean: float | None, published: float | None = None, **more) -> dict:
    other = {"se": 0.1, "published_sd": None, "profile": "book"}
    return {"setting": setting, "method": method, "metric": metric, "mean": mean, "published": published} | other | more


def test_every_data_set_and_the_published_number_are_drawn():
    setting = "v0=0.1, sigma=1"
    rows = [row(setting, "SGLD", "mse_test", 150.0, 88.9)]
    figure = results.regression_errors(rows, {(setting, "SGLD"): np.array([100.0, 200.0])})
    drawn = [one.get_ydata().tolist() for one in figure.axes[0].get_lines()]
    points = [value for one in figure.axes[0].collections for value in one.get_offsets()[:, 1].tolist()]
    assert sorted(points) == [100.0, 200.0] and [150.0] in drawn and [88.9] in drawn


def test_smoke_rows_show_only_what_was_published():
    rows = [row(f"S={s}", m, "accuracy", 10.0, 90.0, profile="smoke") for s in (30, 50, 70, 90) for m in ("SGHMC-SA",)]
    figure = results.resnet20(rows)
    assert line(figure, 0, "SGHMC-SA")[:, 1].tolist() == [90.0] * 4
    assert np.isnan(line(figure, 1, "SGHMC-SA")[:, 1]).all() and texts(figure).count("not run") == 1


def test_attacks_are_drawn_in_order_of_their_size():
    rows = [
        row(f"MNIST zeta={z}", "SGHMC", "accuracy", 100 - 100 * z, 80.0 if z == 0.2 else None) for z in (0.3, 0.1, 0.2)
    ]
    rows += [row("Fashion-MNIST zeta=0.5", "SGHMC", "accuracy", 7.0)]
    figure = results.fgsm(rows)
    assert line(figure, 0, "SGHMC").tolist() == pytest.approx(np.array([[0.1, 90], [0.2, 80], [0.3, 70]]))
    assert line(figure, 1, "SGHMC").tolist() == [[0.5, 7.0]]


def test_curves_of_the_images_are_those_of_the_average():
    curve = np.array([[100, 90.0, 90.0], [200, 91.0, 92.0]], dtype=np.float32)
    figure = results.mnist({"MNIST": {("MNIST", "SGHMC", 0, "curve"): curve}, "Fashion-MNIST": {}})
    average = [one for one in figure.axes[0].get_lines() if one.get_label() == "SGHMC" and len(one.get_xdata())]
    assert average[0].get_xydata().tolist() == [[100, 90], [200, 92]]
    assert texts(figure).count("not run") == 1


def test_the_uci_panels_show_both_kinds_of_splits_beside_the_published_value():
    rows = [row("yacht", "SGHMC-SA", "rmse_test", 0.8, 0.789, published_sd=0.05, values=[0.7, 0.9])]
    rows += [row("yacht, random splits", "SGHMC-SA", "rmse_test", 0.75, 0.789)]
    figure = results.uci(rows)
    drawn = [container.lines[0].get_xdata() for container in figure.axes[1].containers]
    assert [float(values[np.isfinite(values)][0]) for values in drawn] == [0.8, 0.75, 0.789]
    points = [one for one in figure.axes[1].collections if isinstance(one, PathCollection)]
    assert sorted(points[0].get_offsets()[:, 0].tolist()) == [0.7, 0.9] and len(points) == 1
    assert texts(figure).count("not run") == 4

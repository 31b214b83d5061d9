"""The pictures of the chapter on closed-form inclusion probabilities: what they show, not how they look."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book.display.picture import Line, Points
from chapters.closed_form.figures import explorers
from chapters.closed_form.figures import method as cfi


def texts(figure: Figure) -> str:
    inside = [text for panel in figure.axes for text in [*panel.texts, panel.title, panel._left_title]]
    above = [figure._suptitle] if figure._suptitle else []
    return " ".join(text.get_text() for text in [*inside, *above])


def line(figure: Figure, panel: int, label: str) -> np.ndarray:
    """The (x, y) points of a labeled curve."""
    return next(one for one in figure.axes[panel].get_lines() if one.get_label() == label).get_xydata()


def curves(figure: Figure, panel: int) -> list[np.ndarray]:
    """All drawn lines of more than 50 points."""
    return [one.get_xydata() for one in figure.axes[panel].get_lines() if len(one.get_xdata()) > 50]


def prior(log_slab: float = cfi.LOG_SLAB, log_spike: float = cfi.LOG_SPIKE, inclusion: float = 0.5):
    return bF.mixture_prior(math.exp(log_slab), math.exp(log_spike), inclusion)


# --- the idea and the derivation ---


def test_the_two_components_add_up_to_the_prior():
    figure = cfi.idea(inclusion=0.3)
    slab, spike, both = (line(figure, 0, name) for name in ("slab", "spike", "prior"))
    assert slab[:, 1] + spike[:, 1] == pytest.approx(both[:, 1], rel=1e-12)
    normal = 0.3 * np.exp(-0.5 * (both[:, 0] * math.e) ** 2) * math.e / math.sqrt(2 * math.pi)
    assert slab[:, 1] == pytest.approx(normal, rel=1e-9)


def test_the_idea_marks_both_weights_and_the_threshold():
    figure = cfi.idea(posteriors=((0.03, 0.04), (0.25, 0.06)))
    marked = [one.get_xydata()[0] for one in figure.axes[1].get_lines() if one.get_marker() == "o"]
    assert [point[0] for point in marked] == pytest.approx([0.05, math.hypot(0.25, 0.06)])
    expected = bF.closed_form_inclusion(torch.tensor([0.05], dtype=torch.float64), 0.0, prior())
    assert marked[0][1] == pytest.approx(float(expected))
    assert "p* = 1/2\nat r = 0.1" in texts(figure)


def test_the_idea_does_without_a_threshold():
    assert "p* = 1/2" not in texts(cfi.idea(inclusion=0.9))


def test_gradient_statistics_agree_with_autograd_and_quadrature():
    mean, scale, settings = torch.tensor([0.02, 0.12], dtype=torch.float64), 0.05, prior()
    # midpoints of a fine grid of quantiles stand for the draws: the error of the mean is below 1e-3 of the spread
    noise = torch.special.ndtri((torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000)
    found = cfi.gradient_statistics(mean, scale, noise, settings)
    m, s = mean.clone().requires_grad_(), torch.full((2,), scale, dtype=torch.float64, requires_grad=True)
    exact = torch.autograd.grad(bF.spike_slab_profile_penalty(m, s, settings).sum(), (m, s))
    assert found["exact"] == pytest.approx(torch.stack(exact).numpy(), rel=1e-9)
    sampled = bF.scale_mixture_kl_sample(m, s, noise[:, None], settings).mean(0).sum()
    assert found["mean"] == pytest.approx(torch.stack(torch.autograd.grad(sampled, (m, s))).numpy(), rel=1e-6)
    assert (found["sd"] > 1.0).all()


def test_the_gradient_s_band_is_one_deviation_wide_around_the_mean():
    figure = cfi.gradient_variance(generator=torch.Generator().manual_seed(0), draws=2_000)
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    middle, exact = line(figure, 0, "Bayes by Backprop, mean"), line(figure, 0, "closed form")
    assert band[:, 1].min() < middle[:, 1].min() and band[:, 1].max() > middle[:, 1].max()
    m, s = torch.as_tensor(exact[:, 0].copy()), torch.full((len(exact),), 0.05, dtype=torch.float64)
    assert exact[:, 1] == pytest.approx(bF.spike_slab_profile_grad(m, s, prior())[0].numpy(), rel=1e-12)


def test_the_same_generator_gives_the_same_picture():
    drawn = [
        line(
            cfi.gradient_variance(generator=torch.Generator().manual_seed(seed), draws=100),
            1,
            "Bayes by Backprop, mean",
        )
        for seed in (1, 1, 2)
    ]
    assert (drawn[0] == drawn[1]).all() and (drawn[0] != drawn[2]).any()


def test_every_curve_over_p_has_its_minimum_at_the_marker():
    figure = cfi.optimal_inclusion(posteriors=((0.02, 0.05), (0.15, 0.05)))
    drawn = figure.axes[0].get_lines()
    for curve, marker in zip(drawn[::2], drawn[1::2], strict=True):
        p, height = curve.get_xydata().T
        assert p[height.argmin()] == pytest.approx(marker.get_xdata()[0], abs=2 / 400)  # of the grid of 401
        assert height.min() >= marker.get_ydata()[0] - 1e-12


def test_penalties_at_fixed_p_stay_above_the_profile_and_touch_it():
    figure = cfi.envelope(probabilities=(0.0, 0.2, 0.8))
    profile = line(figure, 0, "R* (p = p*)")[:, 1]
    for label, touches in (("p = 0", False), ("p = 0.2", True), ("p = 0.8", True)):
        gap = line(figure, 0, label)[:, 1] - profile
        # between two points of the grid p* moves by about 1e-2, which costs 1e-4 nats
        assert gap.min() > -1e-12 and bool(gap.min() < 1e-3) is touches
    assert sum(one.get_markerfacecolor() == "none" for one in figure.axes[0].get_lines()) == 2


# --- networks ---


def test_a_small_network_shows_every_probability_and_the_importance_by_hand():
    figure = cfi.paths([[[0.9, 0.2], [0.5, 0.1]], [[0.8, 0.4]]])
    shown = texts(figure)
    assert all(f"{p:g}" in shown.split() for p in (0.9, 0.2, 0.5, 0.1, 0.8, 0.4))
    assert "ψ = 0.46" in shown and "ψ = 0.1" in shown
    widths = sorted(one.get_linewidth() for one in figure.axes[0].get_lines() if len(one.get_xdata()) == 2)
    assert len(widths) == 6 and widths[0] < widths[-1]


def test_two_rankings_remove_as_many_weights_but_not_the_same():
    mean, scale = np.array([0.1, 0.02, 0.2, 0.01]), np.array([0.2, 0.01, 0.05, 0.02])
    figure = cfi.ranking(mean, scale, share=0.5)
    gone = [{tuple(point) for point in line(figure, panel, "removed").tolist()} for panel in (0, 1)]
    assert gone == [{(0.02, 0.01), (0.01, 0.02)}, {(0.1, 0.2), (0.01, 0.02)}]


def test_the_border_separates_kept_from_removed_weights():
    generator = np.random.default_rng(3)
    mean, scale = np.abs(generator.normal(size=100)), generator.uniform(0.1, 1, 100)
    figure = cfi.ranking(mean, scale, share=0.3)
    border = figure.axes[0].get_lines()[2].get_xydata()
    radius = np.hypot(*border.T)
    assert np.hypot(*line(figure, 0, "removed").T).max() < radius.min()
    assert np.hypot(*line(figure, 0, "kept").T).min() > radius.max()


def test_minibatch_weights_are_drawn_with_their_sums():
    r = 0.5 ** np.arange(1, 101) / (1 - 0.5**100)
    figure = cfi.minibatches({"uniform": np.full(100, 0.01), "halving": r})
    assert line(figure, 0, "halving")[:, 1] == pytest.approx(r)
    assert line(figure, 1, "uniform")[-1, 1] == pytest.approx(1.0)
    assert line(figure, 1, "halving")[4, 1] == pytest.approx(31 / 32)


# --- explorers ---


@pytest.mark.parametrize("name", explorers.PUBLISHED)
def test_at_the_threshold_p_is_one_half(name):
    setting = explorers.PUBLISHED[name]
    where = explorers.threshold(*setting)
    assert float(explorers.inclusion_curve(np.array(where), *setting)) == pytest.approx(0.5, abs=1e-9)
    assert explorers.published_name(*setting) == name
    assert f"published setting: {name}" in explorers.inclusion(*setting).heading
    assert f"r = {where:.2g}" in explorers.inclusion_in_words(*setting)


def test_the_published_thresholds_are_those_of_the_formula():
    # r^2 = 2 log(tau_1 / tau_0) / (1 / tau_0^2 - 1 / tau_1^2)
    for name, (log_slab, log_spike, _) in explorers.PUBLISHED.items():
        by_hand = math.sqrt(2 * (log_slab - log_spike) / (math.exp(-2 * log_spike) - math.exp(-2 * log_slab)))
        assert explorers.threshold(*explorers.PUBLISHED[name]) == pytest.approx(by_hand, rel=1e-9)


def test_a_large_prior_probability_leaves_no_threshold():
    assert explorers.threshold(-1.0, -1.1, 0.9) is None
    assert "p* > 1/2 for every weight" in explorers.inclusion(-1.0, -1.1, 0.9).heading
    assert "above one half everywhere" in explorers.inclusion_in_words(-1.0, -1.1, 0.9)


def test_scales_that_agree_leave_the_prior_probability_for_small_weights():
    near = explorers.inclusion_curve(np.geomspace(1e-4, 0.1, 20), -1.0, -1.0001, 0.25)
    # Remark 2: the log-odds change by at most the difference of the logarithms of the scales
    assert near == pytest.approx(np.full(20, 0.25), abs=1e-4)


def test_the_profile_lies_below_both_bounds_and_at_most_log_two_below_the_lower():
    found = explorers.penalty_curves(np.geomspace(1e-4, 5, 4000), 0.0, -5.0, 0.3)
    lower = np.minimum(found["slab only (p = 1)"], found["spike only (p = 0)"])
    gap = lower - found["at p*"]
    assert (gap > -1e-12).all()
    # log 2 where A = B, with a cusp there: a step of the grid moves A - B by 0.03
    assert gap.max() == pytest.approx(math.log(2), abs=0.016)
    assert found["slab only (p = 1)"][0] == pytest.approx(math.log(1 / 0.3), abs=1e-6)
    assert found["spike only (p = 0)"][0] == pytest.approx(-5 - math.log(0.7), abs=2e-4)  # r^2 / (2 tau_0^2)


def test_a_wide_slab_loses_every_weight_and_a_narrow_spike_finds_it():
    r = np.array([0.03])
    slabs = [float(explorers.inclusion_curve(r, slab, -5.0)[0]) for slab in (0, 4, 8, 16)]
    assert slabs == sorted(slabs, reverse=True) and slabs[0] > 0.98 and slabs[-1] < 1e-4
    assert float(explorers.inclusion_curve(r, 16.0, -7.0)[0]) > 0.99


@pytest.mark.parametrize("r", [0.02, 0.03, 0.05])
def test_the_widest_slab_is_where_p_falls_through_one_half(r):
    where = explorers.widest_slab(r, -5.0)
    assert float(explorers.inclusion_curve(np.array(r), where, -5.0)) == pytest.approx(0.5, abs=1e-9)
    assert float(explorers.inclusion_curve(np.array(r), where + 1, -5.0)) < 0.5


def test_a_weight_inside_the_spike_has_no_widest_slab():
    assert explorers.widest_slab(0.001, -5.0) is None


def test_lindley_marks_the_same_probabilities_in_both_panels():
    picture = explorers.lindley(3.0, -5.0)
    values = explorers.inclusion_curve(np.array(explorers.LINDLEY_WEIGHTS), 3.0, -5.0)
    for panel, expected in zip(picture.panels, (list(explorers.LINDLEY_WEIGHTS), [3.0] * 4), strict=True):
        points = [one for one in panel.items if isinstance(one, Points)]
        assert [one.y[0] for one in points] == pytest.approx(values)
        assert [one.x[0] for one in points] == pytest.approx(expected)
    assert "2 of 4 weights are included" in picture.heading


def test_controls_reach_the_published_settings():
    live = [explorers.INCLUSION_CONTROLS[name].values for name in ("log_slab", "log_spike", "inclusion")]
    still = [explorers.INCLUSION_CONTROLS[name].static_values for name in ("log_slab", "log_spike", "inclusion")]
    within = {
        name: [all(value in grid for value, grid in zip(setting, grids, strict=True)) for grids in (live, still)]
        for name, setting in explorers.PUBLISHED.items()
    }
    assert all(reached[0] for reached in within.values())
    shown = {name for name, reached in within.items() if reached[1]}
    assert shown == set(explorers.PUBLISHED)


def test_every_setting_of_the_controls_can_be_drawn():
    for log_slab in explorers.INCLUSION_CONTROLS["log_slab"].values:
        for log_spike in explorers.INCLUSION_CONTROLS["log_spike"].values:
            assert explorers.inclusion_in_words(log_slab, log_spike, 0.5)  # the spike is the narrower one
    for log_slab in explorers.LINDLEY_CONTROLS["log_slab"].values:
        for log_spike in explorers.LINDLEY_CONTROLS["log_spike"].values:
            assert explorers.lindley_in_words(log_slab, log_spike)


def test_the_axes_of_the_inclusion_panels_stay_where_they_are():
    pictures = [explorers.inclusion(*setting) for setting in ((1.0, -6.0, 0.5), (-1.0, -1.1, 0.9))]
    assert len({str([(panel.xlim, panel.ylim) for panel in picture.panels]) for picture in pictures}) == 1
    assert sum(isinstance(one, Line) for one in pictures[0].panels[1].items) == 3

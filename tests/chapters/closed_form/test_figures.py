"""The pictures of the chapter on closed-form inclusion probabilities: what they show, not how they look."""

import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book.display.picture import Line, Points, Rule
from chapters.closed_form.figures import explorers
from chapters.closed_form.figures import method as cfi
from tests.chapters.drawn import item, items, line, texts
from tests.seeded import seeded


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
    drawn = [cfi.gradient_variance(generator=seeded(seed), draws=100) for seed in (1, 1, 2)]
    first, same, other = (line(figure, 1, "Bayes by Backprop, mean") for figure in drawn)
    assert (first == same).all() and (first != other).any()


# --- networks ---


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


# --- explorers ---


@pytest.mark.parametrize("name", explorers.PUBLISHED)
def test_measured_in_spikes_only_the_ratio_of_the_scales_counts(name):
    log_slab, log_spike, inclusion = explorers.PUBLISHED[name]
    r = np.geomspace(0.1, 100, 20)
    here = explorers.inclusion_curve(r, log_slab - log_spike, 0.0, inclusion)
    assert here == pytest.approx(explorers.inclusion_curve(r * math.exp(log_spike), log_slab, log_spike, inclusion))
    assert name in explorers.published_names(log_slab - log_spike)


def test_the_explorer_marks_the_threshold_in_both_panels():
    picture = explorers.inclusion(5.0, 0.5)
    where = math.sqrt(2 * 5 / (1 - math.exp(-10)))
    assert [one.x for one in items(picture, 0, Rule) if one.x is not None] == pytest.approx([where])
    here = item(picture, 1, Points, "here")
    assert (here.x[0], here.y[0]) == pytest.approx((5.0, where))
    assert "LeNet-5 set 1 and VGG" in picture.heading and f"{where:.2g} spikes" in picture.heading
    assert f"{where:.2g}" in explorers.inclusion_in_words(5.0, 0.5)
    (curve,) = items(picture, 1, Line)
    assert np.interp(5.0, curve.x, curve.y) == pytest.approx(where, rel=1e-3)


def test_a_large_prior_probability_leaves_no_threshold():
    picture = explorers.inclusion(0.1, 0.9)
    assert "p* > 1/2 for every weight" in picture.heading
    assert not len(item(picture, 1, Points, "here").x)
    assert "above one half everywhere" in explorers.inclusion_in_words(0.1, 0.9)


@pytest.mark.parametrize(("ratio", "rows"), [(0.5, 0), (2.0, 0), (3.0, 0), (3.0, 20), (3.0, 60)])
def test_homes_solve_the_equation_of_the_scale(ratio, rows):
    """kappa sigma^2 + rows sigma^2 = 1 at minima and at the border; the grid of scales is 0.2 % wide."""
    low, high = explorers.homes(ratio, rows)
    assert len(low) == len(high) + 1 == (2 if (ratio, rows) in ((2.0, 0), (3.0, 0), (3.0, 20)) else 1)
    settings = prior(ratio + math.log(0.05), math.log(0.05))
    for sigma in map(torch.tensor, low + high):
        kappa = bF.expected_precision(sigma.double() ** 2, settings)
        assert float((kappa + rows) * sigma**2) == pytest.approx(1.0, abs=0.02)
    assert low == sorted(low) and all(a < b < c for a, b, c in zip(low, high, low[1:], strict=False))


def test_the_closest_published_pair_has_two_homes_and_the_earlier_choice_one():
    assert len(explorers.homes(-1.0 - -3.0, 0)[0]) == 2
    assert len(explorers.homes(-1.0 - -1.5, 0)[0]) == 1


def test_a_start_ends_in_the_home_on_its_side_of_the_border():
    picture = explorers.unseen(3.0, 0)
    (ends,) = items(picture, 1, Line)
    low, high = explorers.homes(3.0, 0)
    for start, end in zip(ends.x, ends.y, strict=True):
        if np.isfinite(start) and start not in high:
            assert end == pytest.approx(low[0] if start < high[0] else low[1])
    assert picture.heading.startswith("two homes") and "a start above" in explorers.unseen_in_words(3.0, 0)
    assert explorers.unseen(3.0, 60).heading.startswith("one home")
    assert "every start ends" in explorers.unseen_in_words(3.0, 60)

"""Pictures of the chapter on foundations: what they show, and that every stop of the explorer is exact."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from book.display.picture import Bars, Line, Points
from chapters.foundations import example, figures, numbers
from chapters.foundations.figures import explorers, method, results
from tests.chapters.drawn import item

RNG = np.random.default_rng(0)


def test_an_ellipse_has_the_axes_of_its_covariance():
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    away = method.ellipse(np.array([1.0, -1.0]), covariance, 2.0) - np.array([[1.0], [-1.0]])
    distance = np.sqrt(np.einsum("ik,ij,jk->k", away, np.linalg.inv(covariance), away))
    assert distance == pytest.approx(2.0)
    flat = method.ellipse(np.zeros(2), np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert np.isfinite(flat).all() and np.abs(flat[1]).max() < 1e-12


def test_before_any_data_all_is_the_prior():
    now = explorers.known(0, 0.9)
    assert now.mean == pytest.approx(0.0) and now.scale == pytest.approx(1.0) and now.alone == pytest.approx(1.0)
    assert now.phi == pytest.approx(0.5) and now.field == pytest.approx(0.5)


@pytest.mark.parametrize("correlation", explorers.CORRELATIONS)
def test_mean_field_is_never_wider_and_no_observation_widens(correlation):
    along = [explorers.known(k, correlation) for k in explorers.COUNTS]
    assert all((one.alone <= one.scale + 1e-12).all() for one in along)
    assert all((later.scale <= one.scale + 1e-12).all() for one, later in pairwise(along))


def test_a_stop_shows_what_it_says():
    picture, now = explorers.growing(7, 0.9), explorers.known(7, 0.9)
    assert item(picture, 2, Bars, "exact").height == pytest.approx(now.phi)
    assert item(picture, 2, Points, "mean field").y == pytest.approx(now.field)
    assert len(item(picture, 1, Points, "").x) == 7
    assert item(picture, 3, Line, "exact").y[7] == pytest.approx(now.scale[0])
    assert f"{now.scale[0]:.2f}" in picture.heading and f"{now.scale[0]:.2f}" in explorers.growing_in_words(7, 0.9)


def test_the_example_has_the_correlation_that_it_says():
    x, _ = example.example_data(100_000, 0.9, torch.Generator().manual_seed(2))
    found = torch.corrcoef(x.T)
    assert found[0, 1].item() == pytest.approx(0.9, abs=0.005)  # (1 - 0.81) / sqrt(100,000) is 0.0006
    assert found[0, 2].item() == pytest.approx(0.0, abs=0.02)
    assert x.var(0).numpy() == pytest.approx(1.0, abs=0.03)


def test_every_word_of_the_verdicts_has_its_example():
    said = {
        "agrees": example.judged(10.1, 0.1),
        "better": example.judged(9.2, 0.2),
        "worse": example.judged(10.8, 0.2),
        "differs": example.judged(10.8, 0.2, direction="none"),
        "undecided": example.judged(10.2, 1.0),
        "not comparable": example.judged(12.0, 0.1, epochs=(100, 300)),
        "by design": example.judged(10.0, 0.0, by_design="chosen beforehand"),
        "diverged": example.judged(10.0, 0.1, n=3, failed=2),
        "not run": example.judged(None, 0.0),
    }
    assert {word: found.word for word, found in said.items()} == {word: word for word in said}
    assert example.judged(10.1, 0.1, n=1).word == "undecided"


def test_a_band_is_as_wide_as_the_draws():
    draws = {"one": RNG.normal(size=(30, 3)), "atoms": np.repeat(np.eye(3), 10, axis=0)}
    line = figures.bands(draws, np.eye(3)).axes[0].lines[0]
    assert line.get_ydata()[-1] == pytest.approx(method.GRID[-1] * 2**0.5)


def test_stored_probabilities_are_told_apart_by_design(monkeypatch):
    scores = np.arange(60 * 10, dtype=float).reshape(60, 10)
    stored = {("all designs", name, 0, "scores"): scores + shift for name, shift in (("Enumeration", 0), ("SVBNN", 1))}
    monkeypatch.setattr(results.lab, "stored_arrays", lambda name: stored)
    found = results.stored_probabilities()
    assert set(found) == {(design, "SVBNN") for design in results.ORDER}
    exact, said = found["rho=0.9", "SVBNN"]
    assert exact.tolist() == scores[40:].ravel().tolist() and (said - exact == 1).all()


def test_an_order_of_methods_needs_a_paired_difference():
    def row(method, values):
        return {"setting": "a", "method": method, "metric": "error", "profile": "book", "values": values}

    apart = [row("one", [1.0, 2.0, 3.1]), row("other", [0.5, 1.4, 2.6])]
    assert numbers.excess(apart, "a", "error", "one", "other")[0] == pytest.approx(1.6 / 3)
    assert numbers.above(apart, "a", "error", "one", "other") and not numbers.above(apart, "a", "error", "other", "one")
    assert numbers.above([], "a", "error", "one", "other")

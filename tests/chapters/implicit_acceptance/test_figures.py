"""The pictures of the implicit chapter: what they show, not how they look."""

import numpy as np
import pytest
import torch

from bnnlib import functional as bF
from book.display import vector
from book.display.picture import Band
from chapters.implicit_acceptance import figures, ring
from chapters.implicit_acceptance.figures import explorers, results
from tests.chapters.drawn import item, row, texts

# --- the explorer ---


def test_at_confidence_one_the_chain_is_nearly_exact_and_at_zero_it_is_the_generator():
    x, p, q = explorers.line_laws()
    assert p.sum() == pytest.approx(1) and q.sum() == pytest.approx(1) and len(x) == len(p)
    assert explorers.settle(1.0, 0.001).distance < 0.01
    blind = explorers.settle(0.0, 0.05)
    assert blind.distance == pytest.approx(blind.raw_distance) and blind.acceptance == pytest.approx(1.0)
    assert np.allclose(blind.law, q)


@pytest.mark.parametrize(("confidence", "lower"), [(0.5, 0.01), (1.0, 0.1), (2.5, 0.001)])
def test_both_bounds_hold_and_the_law_is_stationary(confidence, lower):
    from chapters.shared import finite

    found = explorers.settle(confidence, lower)
    assert found.distance <= found.direct and found.distance <= found.bound
    _, p, q = (torch.as_tensor(one) for one in explorers.line_laws())
    d = torch.sigmoid(bF.bounded_logit(confidence * (p / q).log(), lower))
    kernel = finite.implicit_kernel(q.expand(len(q), -1), d[:, None] * (1 - d))
    law = torch.as_tensor(found.law)
    assert (law @ kernel - law).abs().max() < 1e-12
    moved = (law[:, None] * q * torch.minimum(torch.ones(()), (d / (1 - d)) / (d / (1 - d))[:, None])).sum()
    assert found.acceptance == pytest.approx(float(moved))


@pytest.mark.slow
def test_the_explorer_moves_all_its_parts(static):
    made = figures.settled_explorer()
    first, later = (made.picture(confidence=k, lower=0.01) for k in (0.5, 2.0))
    bands = [item(picture, 0, Band) for picture in (first, later)]
    assert not np.allclose(bands[0].high, bands[1].high)
    # an area carries mass: the shaded law has the mass one
    assert np.trapezoid(bands[0].high, bands[0].x) == pytest.approx(1.0, abs=1e-3)
    assert "overconfident" in made.describe({"confidence": 2.0, "lower": 0.01})


def test_the_papers_bound_is_vacuous_at_every_stop_as_the_lesson_says():
    assert min(explorers.settle(k, b).bound for k in explorers.CONFIDENCE for b in explorers.LOWER) > 1


# --- the method ---


def test_bars_and_strokes_are_the_laws():
    law = np.array([0.2, 0.3, 0.5])
    made = figures.state_bars({"p": law, "q": law[::-1]}, {"chain": law})
    assert [bar.get_height() for bar in made.axes[0].patches] == [0.2, 0.3, 0.5, 0.5, 0.3, 0.2]
    assert made.axes[1].get_lines()[0].get_ydata().tolist() == law.tolist()
    made.draw_without_rendering()
    assert len(vector.panels(made)) > 2, "on a phone the panels stand below each other"


def test_large_numbers_have_a_power_of_ten():
    assert [explorers._plain(one) for one in (0.0291, 7.3, 120.4, 314_159.0)] == ["0.029", "7.3", "120", "3.1 × 10⁵"]


def test_maps_have_the_cell_of_a_point_where_the_point_is():
    law = ring.cell_shares(torch.tensor([[5.0, -7.9]]))
    made = figures.ring_maps({"a": law, "b": law}, {"c": law - 0.5, "d": law})
    image = np.asarray(made.axes[0].get_images()[0].get_array())
    row, column = np.unravel_index(image.argmax(), image.shape)
    assert row == 0 and column == int(13 / 16 * ring.CELLS)


def test_the_ladder_draws_what_it_is_given():
    knob = np.linspace(0.1, 0.9, 5)
    made = figures.bound_ladder((knob, {"measured": knob}), (knob, {"measured": knob**2}), {"one": knob})
    assert made.axes[1].get_lines()[0].get_ydata().tolist() == (knob**2).tolist()
    assert made.axes[2].get_lines()[0].get_xdata().tolist() == knob.tolist()


# --- results ---


def test_curves_over_iterations_are_found_in_both_ways_of_writing_them():
    rows = [row("bridges/200", "CCE", "gap", 0.5), row("bridges/0", "CCE", "gap", 1.5)]
    rows += [row("WGAN-GP, 100 iterations", results.INDEPENDENT, "feature_fid", 9.0)]
    rows += [row("WGAN-GP", results.INDEPENDENT, "feature_fid", 8.0), row("bridges/0", "UB", "gap", 7.0)]
    assert results.over_iterations(rows, "bridges", "CCE", "gap")[:, :2].tolist() == [[0, 1.5], [200, 0.5]]
    found = results.over_iterations(rows, "WGAN-GP", results.INDEPENDENT, "feature_fid")
    assert found[:, :2].tolist() == [[100, 9.0]]


def test_what_is_not_stored_is_no_number():
    assert all(np.isnan(y).all() for _, y in figures.narrowing({}).values())
    assert np.isnan(figures.failing_ring([], {"a": "bridges"})["a"][1]).all()


def test_a_part_that_is_stored_is_drawn_and_the_rest_is_not_run():
    rows, method = [], results.INDEPENDENT
    for step, fid, rate, recall in ((0, 20.0, 95.0, 60.0), (100, 12.0, 50.0, 30.0)):
        where = f"WGAN-GP, {step} iterations"
        rows += [row(where, method, "feature_fid", fid), row(where, method, "acceptance_rate", rate)]
        rows += [row(where, method, "recall", recall), row(where, method, "classifier_score", 9.0)]
    rows += [row("WGAN-GP", "Raw", "feature_fid", 20.0), row("WGAN-GP", "Raw", "recall", 60.0)]
    assert texts(figures.image_curves({"mnist": rows})).count("not run") == 2
    made = figures.rejection_curves({"mnist": rows})
    assert texts(made).count("not run") == 1
    points = made.axes[0].get_lines()[0].get_xydata()
    assert points.tolist() == [[50.0, 12.0]]  # the untrained one refuses nothing for a reason
    found = figures.narrowing({"mnist": rows})
    assert found["feature-FID"][1].tolist() == [1.0, 0.6] and found["recall"][1].tolist() == [1.0, 0.5]


def test_no_image_curve_is_cut_off():
    """A chain that makes images twice as bad stays in the picture, with its error bar."""
    rows = [row("WGAN-GP", results.RAW, "feature_fid", 10.0)]
    for step, mean in ((0, 10.0), (200, 20.0)):
        rows.append(row(f"WGAN-GP, {step} iterations", results.INDEPENDENT, "feature_fid", mean) | {"se": 5.0})
    assert figures.image_curves({"mnist": rows}).axes[0].get_ylim()[1] > 2.5


def test_sheets_show_the_first_stored_images_in_rows_beside_real_ones(monkeypatch):
    stored = {
        (one, m, 0, "sheet"): np.arange(40, dtype=np.uint8)[:, None, None, None] + np.zeros((1, 28, 28), np.uint8)
        for one in results.GENERATORS
        for m in (results.RAW, results.INDEPENDENT)
    }
    monkeypatch.setattr(results.lab, "stored_arrays", lambda name: stored if name == "imh-mnist" else {})
    monkeypatch.setattr(results.lab, "stored_values", lambda *_: np.array([80.9]))
    made = figures.image_sheets()
    shown = np.asarray(made.axes[1].get_images()[0].get_array())
    assert shown[::28, ::28].tolist() == np.arange(18).reshape(3, 6).tolist()
    assert texts(made).count("not run") == 4 and len(made.axes[11].get_images()) == 1

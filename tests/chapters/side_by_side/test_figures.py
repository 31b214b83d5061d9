"""The matrix and the pictures of the chapter side by side, on made-up results whose answer is known."""

import numpy as np
import pytest

from bnnlib.contest import METHODS
from book.display.gallery import covered
from chapters.side_by_side import figures, standing
from chapters.side_by_side.costs import costs
from chapters.side_by_side.figures import explorers
from chapters.side_by_side.figures.results import SHIFTED
from chapters.side_by_side.matrix import CALLED, SIMULATIONS, Decided, Matrix
from chapters.side_by_side.rivals import RIVALS
from chapters.side_by_side.shifts import SHIFTS
from chapters.side_by_side.signed_rank import SignedRanks
from tests.chapters.drawn import item

METRICS = ("rmse", "nll", "crps", "bytes", "flops", "rmse_shipped", "fpr", "fnr", "fdr", "active", "seconds")
SHIFT = {("spike_slab", "rmse"): -3.0, ("horseshoe", "rmse"): 3.0, ("gaussian_spike_slab", "bytes"): -9.0}
SHIFT |= {("gaussian_spike_slab", "rmse_shipped"): 5.0, ("lottery_ticket", "bytes"): -9.0}


@pytest.fixture
def stored(monkeypatch):
    """Ten seeds at B = 1 and 4 around 20 for all methods, but for the shifts above; nothing at B = 16."""
    random, index = np.random.default_rng(0), {}
    for task in SIMULATIONS:
        for method in METHODS:
            for metric in METRICS:
                for place in (f"{task}, B = {b}, {kind}" for b in (1, 4) for kind in ("tuned", "default")):
                    numbers = 20.0 + SHIFT.get((method, metric), 0.0) + 0.1 * random.standard_normal(10)
                    index[place, method, metric] = dict(enumerate(numbers))
            for budget in (1, 4):
                tried = dict(enumerate(random.random(8)))
                index[f"{task}, B = {budget}, trials", method, "validation_nll"] = tried
        for rival in RIVALS:
            for metric in ("fpr", "fnr") if rival in ("lasso", "knockoffs") else ("rmse", "nll"):
                index[f"{task}, rivals", rival, metric] = dict(enumerate(20.0 + 0.1 * random.standard_normal(10)))
    monkeypatch.setattr(standing, "_index", lambda name: index)
    explorers._means.cache_clear()
    yield index
    explorers._means.cache_clear()


@pytest.fixture
def nothing(monkeypatch):
    monkeypatch.setattr(standing, "_index", lambda name: {})


def test_a_mark_is_the_verdict_on_a_task(stored):
    found = Matrix(1)
    assert found.cells["spike_slab"]["Accurate"] == ("better",) * 3
    assert found.cells["horseshoe"]["Accurate"] == ("worse",) * 3
    assert set(found.cells["ensemble"]["Accurate"]) == {"reference"}
    assert set(found.cells["laplace"]["Accurate"]) <= {"tie", "undecided"}
    # smaller than the reference, and its error as shipped is worse: no winner
    assert found.cells["gaussian_spike_slab"]["Small"] == ("small but wrong",) * 3
    assert found.cells["lottery_ticket"]["Small"] == ("better",) * 3
    for text in (found._repr_html_(), found._repr_markdown_()):
        assert "▲ ▲ ▲" in text and "△ △ △" in text and "lasso" in text and "B = 1" in text
    assert "better, better, better" in found._repr_html_()  # what a screen reader says


def test_what_is_not_run_is_said_to_be_so(stored):
    assert set(Matrix(16).cells["sghmc"]["Accurate"]) == {"not run"}
    assert "– – –" in Matrix(16)._repr_markdown_()
    assert [row[1] for row in Decided("rmse").rows] == ["1", "4"] * 3
    assert standing.stored_budgets("simulation-2") == [1, 4]


def test_who_is_decided_is_named_by_task_and_budget(stored):
    row = Decided("rmse").rows[0]
    assert row[2] == "Dirac spike and slab" and row[3] == "horseshoe"
    assert len(row[4].split(", ")) + int(row[5]) + 2 == len(METHODS) - 1 + 2  # two rivals have errors
    assert "Dirac spike and slab" in Decided("rmse")._repr_html_() and "horseshoe" in Decided("rmse")._repr_markdown_()


def test_the_chances_of_a_reference_share_a_column(stored):
    shown = SignedRanks(SIMULATIONS)
    head, *_ = shown._repr_markdown_().partition("\n\n")[2].splitlines()
    assert head.count("better / equal / worse, %") == 2 and len(shown.columns) == 5
    assert "99 / 1 / 0" in next(row for row in shown.rows if row[0] == "Dirac spike and slab")
    marks = sum(len(one) for one in shown.marks.values())
    assert shown._repr_html_().count("inline-block; width: 1em") == marks, "those of a data set stand below each other"


def test_a_budget_of_which_a_method_is_missing_is_left_out(stored):
    del stored["correlated, B = 4, tuned", "sghmc", "seconds"], stored["correlated, B = 4, tuned", "sghmc", "rmse"]
    del stored["correlated, B = 4, tuned", "gaussian", "rmse"], stored["correlated, B = 4, tuned", "dropout", "rmse"]
    assert standing.stored_budgets("correlated") == [1]
    assert [row[1] for row in Decided("rmse", ("correlated",)).rows] == ["1"]


@pytest.mark.parametrize("name", ["time", "size", "selection"])
def test_explorers_say_what_they_show_at_every_stop(stored, static, name):
    found = getattr(figures, f"{name}_explorer")()
    assert found.to_html() and found.gzip_bytes < found.max_gzip_bytes
    for settings in found.grid[:: len(found.grid) // 7]:
        words = found.describe(settings)
        assert "not run" not in words and any(CALLED[task] in words for task in SIMULATIONS)


def test_a_budget_that_is_not_run_has_no_point(stored):
    picture = explorers.time("simulation-2", "rmse", "spike_slab")
    own = item(picture, 0, name="this method")
    assert np.isfinite(own.y).tolist() == [True, True, False]
    assert "B = 16" not in picture.heading and picture.panels[0].xlim == (0.8, 5.0)


@pytest.mark.slow
def test_still_pictures_draw_every_method(stored):
    panels = figures.differences().axes
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert len(names) == len(METHODS) - 1 and "deep ensemble" not in names
    figure = figures.step_costs()
    assert len(figure.axes[0].patches) == len(costs()["simulation-2"])
    figure.draw_without_rendering()
    assert figure.get_tightbbox().width <= figure.get_figwidth()  # nothing stands out
    bars = figures.luck([0, 1, 1, 2], [0, 0, 0, 1]).axes[0].patches
    assert [bar.get_height() for bar in bars] == [0.25, 0.5, 0.25, 0.75, 0.25, 0.0]


def test_no_legend_lies_over_a_curve(stored):
    for name in ("nll_tempered", *(f"nll_{kind}_{k}" for kind in SHIFTS for k in range(1, 6))):
        for method in SHIFTED:
            stored["MNIST, B = 1, tuned", method, name] = dict.fromkeys(range(5), 0.1)
    fig = figures.shifts()
    assert len(fig.legends[0].texts) == len(SHIFTED) and not any(panel.get_legend() for panel in fig.axes)
    assert not covered(figures.trials().axes[0])


def test_without_results_every_picture_says_not_run(nothing):
    shown = [figures.differences(), figures.trials(), figures.shifts(), figures.failed()]
    shown += [figures.time_explorer(), figures.size_explorer(), figures.selection_explorer()]
    for figure in shown:
        assert any("not run" in text.get_text() for panel in figure.axes for text in panel.texts)
    assert Decided("rmse").rows == [] and set(Matrix(1).cells["sghmc"]["Small"]) == {"not run"}

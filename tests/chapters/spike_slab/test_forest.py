"""Forest plots say what they are asked: where values stand, what was not run, what the signs mean."""

import math

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import PathCollection

from chapters.spike_slab.figures import forest
from tests.book.rows import row

mpl.use("agg")
RUNS = (1.0, 1.1, 1.2, 1.3)


def texts(panel) -> list[str]:
    return [one.get_text() for one in panel.texts]


def markers(panel, marker: str) -> list[float]:
    return [float(line.get_xdata()[0]) for line in panel.get_lines() if line.get_marker() == marker]


def legend(fig) -> list[str]:
    (found,) = fig.legends
    return [found.get_title().get_text(), *(one.get_text() for one in found.get_texts())]


def test_both_values_stand_with_their_intervals_and_every_replicate():
    fig = forest([row(values=RUNS, published=1.4, published_se=0.05)], "rmse_test")
    (panel,) = fig.axes
    assert markers(panel, "D") == [1.4] and markers(panel, "o") == [pytest.approx(1.15)]
    bars = sorted(tuple(segment[:, 0]) for bar in panel.containers for segment in bar.lines[2][0].get_segments())
    se = np.std(RUNS, ddof=1) / 2
    ours, theirs = 3.18245 * se, 1.95996 * 0.05  # three degrees of freedom, and a published error that is known
    np.testing.assert_allclose(bars, [(1.15 - ours, 1.15 + ours), (1.4 - theirs, 1.4 + theirs)], rtol=1e-5)
    points = [np.asarray(one.get_offsets())[:, 0] for one in panel.collections if isinstance(one, PathCollection)]
    np.testing.assert_allclose(np.sort(np.concatenate(points)), RUNS)
    assert "✓" in texts(panel)
    assert legend(fig) == ["✓ agrees", "published, 95 %", "ours, 95 %", "one replicate"]


def test_one_run_has_no_bar_and_the_legend_promises_none():
    fig = forest([row(values=(1.0,), published=1.4, verdict="undecided: one run")], "rmse_test")
    assert not fig.axes[0].containers
    assert legend(fig) == ["? undecided", "published", "ours"]


def test_what_was_not_run_says_so_and_the_smoke_profile_is_not_shown():
    rows = [row(method="A", published=1.4), row(method="B", values=RUNS, published=1.5, profile="smoke")]
    (panel,) = forest(rows, "rmse_test").axes
    assert texts(panel).count("not run") == 2 and markers(panel, "o") == []
    nothing = row(values=(math.nan,), published=1.4, verdict="diverged: 1 of 1 replicates failed")
    (panel,) = forest([nothing], "rmse_test").axes
    assert texts(panel) == ["diverged"]


def test_what_is_not_comparable_has_another_marker_and_its_own_words():
    fig = forest([row(values=RUNS, published=1.4, verdict="not comparable: budget 1 of 9 epochs")], "rmse_test")
    (panel,) = fig.axes
    assert markers(panel, "s") == [pytest.approx(1.15)] and markers(panel, "o") == []
    assert "⊘" in texts(panel) and "ours, not comparable" in legend(fig) and "⊘ not comparable" in legend(fig)


def test_settings_are_headings_only_where_methods_repeat():
    both = [row(s, m, values=RUNS) for s in ("one", "two") for m in ("A", "B")]
    (panel,) = forest(both, "rmse_test").axes
    assert [t.get_text() for t in panel.get_yticklabels()] == ["A", "B", "A", "B"]
    assert texts(panel) == ["one", "two"]
    (panel,) = forest(both[1::2], "rmse_test").axes
    assert [t.get_text() for t in panel.get_yticklabels()] == ["one", "two"] and texts(panel) == []
    (panel,) = forest(both, "rmse_test", settings=["two"]).axes
    assert [t.get_text() for t in panel.get_yticklabels()] == ["A", "B"] and texts(panel) == []


def test_panels_share_their_lines_and_name_what_is_better():
    rows = [row(metric=metric, values=RUNS, published=1.4) for metric in ("rmse_test", "accuracy", "coverage")]
    fig = forest(rows, ["rmse_test", "accuracy", "coverage"])
    assert [one.get_xlabel() for one in fig.axes] == ["← better", "better →", "nominal: 95"]
    assert [one.get_title(loc="left").split()[-1] for one in fig.axes] == ["RMSE", "(%)", "(%)"]
    named = forest(rows, ["rmse_test", "accuracy", "coverage"], labels={"accuracy": "right"})
    assert named.axes[1].get_title(loc="left").endswith("right")


def test_the_same_rows_give_the_same_picture_and_leave_the_random_state_alone():
    def drawn():
        canvas = forest([row(values=RUNS, published=1.4)], "rmse_test").canvas
        canvas.draw()
        return bytes(canvas.buffer_rgba())

    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    first = drawn()
    np.testing.assert_array_equal(before, np.random.get_state()[1])
    np.random.seed(6)
    assert drawn() == first


@pytest.mark.parametrize("number", [1, 2, 3])
def test_text_is_legible_on_a_phone(number):
    names = ["rmse_test", "accuracy", "coverage"][:number]
    fig = forest([row(metric=name, values=RUNS, published=1.4) for name in names], names)
    sizes = [text.get_fontsize() for text in fig.findobj(mpl.text.Text) if text.get_text().strip()]
    # a figure is shrunk to the 358 px that a phone of 390 px leaves
    assert min(sizes) * 358 / (72 * fig.get_figwidth()) >= 7.5

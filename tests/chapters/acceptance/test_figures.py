"""Pictures of the chapter on acceptance: what they show, with results and without."""

import numpy as np
import pytest

from chapters.acceptance import figures, numbers, pairs
from chapters.acceptance.figures import explorers, results
from tests.chapters.drawn import item, rows_of

RACE = ("VI", "HMC")


@pytest.fixture
def six() -> list[dict]:
    return [
        rows_of(setting, method, metric, [20.0 + k, 30.0, 4.0])
        for setting in (numbers.WIDE, numbers.NARROW)
        for k, method in enumerate(results.METHODS)
        for metric in ("modes_found", "acceptance", "acceptance_chain")
    ]


def test_every_seed_is_a_point(six):
    left, right = figures.six_seeds(six, (numbers.WIDE, numbers.NARROW)).axes[:2]
    assert sum(len(dots.get_offsets()) for dots in left.collections) == 3 * 2 * 3
    assert sum(len(dots.get_offsets()) for dots in right.collections) == 3 * 2 * 3


def test_a_curve_of_draws_begins_when_learning_ends():
    rows = [rows_of("Heart", m, "ess_per_second", [100.0]) for m in RACE]
    rows += [rows_of("Heart", m, "seconds_training", [s]) for m, s in zip(RACE, (40.0, 4.0), strict=True)]
    panel = figures.learning_pays(rows, ["Heart"], RACE).axes[0]
    starts = [line.get_xdata()[0] for line in panel.lines]
    assert 40 < starts[0] < 44 and 4 < starts[1] < 4.5
    assert panel.lines[0].get_ydata()[-1] == pytest.approx(100 * (1000 - 40))


def test_the_explorer_says_what_the_bound_says():
    close = explorers.pair_in_words(0.0, 1.0, "normal")
    assert "acceptance rate 1.00, lower bound 1.00" in close
    assert "below 0: it says nothing" in explorers.pair_in_words(2.0, 1.0, "normal")
    picture = explorers.pair(1.0, 1.0, "normal")
    rate = item(picture, 1, name="acceptance")
    # at distance one, two normal densities of width one: 2 Phi(-1 / sqrt 2)
    assert rate.y[rate.x.tolist().index(1.0)] == pytest.approx(0.4795, abs=1e-4)


def test_chains_of_one_setting_are_the_same_and_light_tails_stay():
    narrow, wide = (pairs.chain(0.5, width, "normal", 200, 2.5) for width in (0.5, 1.5))
    assert (np.diff(narrow) == 0).mean() > (np.diff(wide) == 0).mean() + 0.2

"""Intervals that rows held out stand for: their coverage where the noise changes, what they cost, what they refuse."""

import numpy as np
import pytest

from bnnlib.estimators import SparseRegressor
from bnnlib.estimators.conformal import Conformal
from tests.bnnlib.estimators.tables import SHORT

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def rows(count, seed, changing):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 6))
    noise = 0.2 + np.abs(x[:, 1]) if changing else 0.5
    return x, 2.0 * x[:, 0] + x[:, 1] + noise * rng.normal(size=count)


def thirds(model, level=0.95):
    """Coverage in each third of the noise's scale, and the mean width."""
    x, y = rows(4000, 100, True)
    interval = model.predict(x, return_interval=True, level=level)[1]
    inside = (interval[:, 0] <= y) & (y <= interval[:, 1])
    order = np.argsort(np.abs(x[:, 1]))
    return [inside[part].mean() for part in np.array_split(order, 3)], np.diff(interval).mean()


@pytest.mark.slow
def test_they_follow_noise_that_changes_and_are_narrower_for_it(tmp_path):
    x, y = rows(300, 0, True)
    plain = SparseRegressor(**SHORT).fit(x, y)
    model = SparseRegressor(**SHORT, interval="conformal").fit(x, y)
    (few, width), (held, narrower) = thirds(plain), thirds(model)
    assert few[2] < 0.88 and few[0] > 0.99  # what a single scale does
    # 0.95 within three standard errors of 300 held-out rows, each third seen by a third of them
    assert min(held) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 100) and held[2] > few[2] + 0.03
    assert narrower < width
    again = SparseRegressor.load(model.save(tmp_path / "model"))
    assert np.array_equal(again.predict(x, return_interval=True)[1], model.predict(x, return_interval=True)[1])


def test_nearness_is_left_alone_where_it_tells_nothing():
    x, y = rows(300, 1, False)
    model = SparseRegressor(**SHORT, interval="conformal").fit(x, y)
    assert model.conformity_places_.shape == (300, 0)
    mean, std, interval = model.predict(x, return_std=True, return_interval=True)
    ratio = (interval[:, 1] - mean) / std
    assert np.ptp(ratio) < 1e-9 and 1.6 < ratio[0] < 2.4


def test_the_quantile_is_that_of_one_row_more():
    scores = np.arange(1.0, 20.0)  # 19 rows: the 20th is below the largest with probability 19/20
    held = Conformal(scores, np.empty((19, 0)))
    assert held.factors(np.empty((2, 0)), 0.95) == pytest.approx([19.0, 19.0])
    assert held.factors(np.empty((1, 0)), 0.5) == pytest.approx([10.0])
    with pytest.raises(ValueError, match=r"19 held-out rows can promise 0\.950 at most"):
        held.factors(np.empty((1, 0)), 0.96)

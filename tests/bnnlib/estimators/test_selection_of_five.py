"""Five relevant inputs of two hundred, in raw units, by the defaults: what the README shows."""

import numpy as np
import pytest

from bnnlib.estimators import SparseRegressor


def friedman(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's function of the first five of 200 inputs, each in units of its own."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(size=(rows, 200))
    f = 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]
    return rng.uniform(-100, 100, 200) + u * 10.0 ** rng.uniform(-3, 3, 200), 5000 + 100 * (f + rng.normal(size=rows))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_exactly_the_five(seed):
    x, y = friedman(3000, seed)
    model = SparseRegressor(random_state=seed).fit(x[:1000], y[:1000])
    assert model.selected_features_.tolist() == [0, 1, 2, 3, 4]
    assert (model.inclusion_probability_[:5] > 0.95).all() and model.inclusion_probability_[5:].max() < 0.5
    assert model.used_.tolist() == [0, 1, 2, 3, 4]
    # the truth is 100; of 1,000 rows its standard error is 2, and the spread of the posterior is in it too
    assert 95 < model.noise_scale_ < 125
    mean, interval = model.predict(x[1000:], return_interval=True)
    # 50 would be half of the noise; the first network alone, with thirty weights for five inputs, errs by 140
    assert np.square(mean - y[1000:]).mean() < 100**2 + 60**2
    assert 0.93 < np.mean((interval[:, 0] <= y[1000:]) & (y[1000:] <= interval[:, 1])) < 0.99

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
    model = SparseRegressor(random_state=seed).fit(*friedman(1000, seed))
    assert model.selected_features_.tolist() == [0, 1, 2, 3, 4]
    assert (model.inclusion_probability_[:5] > 0.95).all() and model.inclusion_probability_[5:].max() < 0.5

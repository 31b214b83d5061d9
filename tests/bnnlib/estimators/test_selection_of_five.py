"""Five relevant inputs of two hundred, in raw units, by other methods than the default, which README.md shows."""

import numpy as np
import pytest

from benchmarks.estimators import friedman
from bnnlib.estimators import SparseRegressor


@pytest.mark.slow
# one chain of SGHMC misses an input from one start in four, whatever the code's version; the average of four does not
@pytest.mark.parametrize(
    ("method", "epochs", "replicates"), [("gaussian_spike_slab", None, 1), ("horseshoe", 300, 1), ("sghmc", None, 4)]
)
def test_the_other_methods_that_select_find_the_five_and_the_noise(method, epochs, replicates):
    x, y = friedman(3000, 0)
    fixed = {"hidden": (16,), "prior_inclusion_probability": None, "prior_scale": 1.0, "refit": True}
    model = SparseRegressor(method, **fixed, epochs=epochs, n_replicates=replicates, random_state=0)
    model.fit(x[:1000], y[:1000])
    assert model.selected_features_.tolist() == model.used_.tolist() == [0, 1, 2, 3, 4]
    assert 80 < model.noise_scale_ < 120
    mean, interval = model.predict(x[1000:], return_interval=True)
    assert np.square(mean - y[1000:]).mean() < 100**2 + 60**2
    assert 0.90 < np.mean((interval[:, 0] <= y[1000:]) & (y[1000:] <= interval[:, 1])) < 0.98

"""Five relevant inputs of two hundred, in raw units, by the defaults: what the README shows."""

import numpy as np
import pytest

from benchmarks.estimators import friedman
from bnnlib.estimators import SparseRegressor


@pytest.mark.slow
def test_exactly_the_five():
    x, y = friedman(3000, 1)  # the README has seed 0
    model = SparseRegressor(random_state=1).fit(x[:1000], y[:1000])
    assert model.selected_features_.tolist() == [0, 1, 2, 3, 4]
    assert (model.inclusion_probability_[:5] > 0.95).all() and model.inclusion_probability_[5:].max() < 0.5
    assert model.used_.tolist() == [0, 1, 2, 3, 4]
    # the truth is 100; of 1,000 rows its standard error is 2, and the spread of the posterior is in it too
    assert 95 < model.noise_scale_ < 125
    mean, interval = model.predict(x[1000:], return_interval=True)
    # 50 would be half of the noise; the first network alone, with thirty weights for five inputs, errs by 140
    assert np.square(mean - y[1000:]).mean() < 100**2 + 60**2
    assert 0.93 < np.mean((interval[:, 0] <= y[1000:]) & (y[1000:] <= interval[:, 1])) < 0.99


@pytest.mark.slow
@pytest.mark.parametrize(("method", "epochs"), [("gaussian_spike_slab", None), ("horseshoe", 300), ("sghmc", None)])
def test_the_other_methods_that_select_find_the_five_and_the_noise(method, epochs):
    x, y = friedman(3000, 0)
    fixed = {"hidden": (16,), "prior_inclusion_probability": None, "prior_scale": 1.0, "refit": True}
    model = SparseRegressor(method, **fixed, epochs=epochs, n_replicates=1, random_state=0).fit(x[:1000], y[:1000])
    assert model.selected_features_.tolist() == model.used_.tolist() == [0, 1, 2, 3, 4]
    assert 80 < model.noise_scale_ < 120
    mean, interval = model.predict(x[1000:], return_interval=True)
    assert np.square(mean - y[1000:]).mean() < 100**2 + 60**2
    assert 0.90 < np.mean((interval[:, 0] <= y[1000:]) & (y[1000:] <= interval[:, 1])) < 0.98

"""The regressor: raw units, noise in every prediction, the inputs that matter, the conventions around them."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from bnnlib.estimators import ConvergenceWarning, SparseRegressor
from tests.bnnlib.estimators.tables import QUICK, table


def test_finds_the_inputs_the_noise_and_the_function_in_raw_units(regressor):
    x, y = table(seed=1)
    assert regressor.selected_features_.tolist() == [1, 4, 6]
    assert (regressor.inclusion_probability_[[1, 4, 6]] > 0.95).all()
    assert regressor.support_.sum() == 3 and 0 < regressor.percent_active_ < 100
    # the noise is 2; the scale that is learned also holds the spread of the posterior and what six units cannot draw
    assert 1.7 < regressor.noise_scale_ < 3.0 and regressor.score(x, y) > 0.9


@pytest.mark.slow
def test_the_second_network_reads_the_selected_inputs_alone(regressor, tmp_path):
    x, y = table()
    first = SparseRegressor(**QUICK | {"refit": False}).fit(x, y)
    assert regressor.used_.tolist() == [1, 4, 6] and first.used_.tolist() == list(range(8))
    # an input keeps the probabilities of the last network that read it
    out = ~regressor.support_
    np.testing.assert_array_equal(regressor.support_, first.support_)
    np.testing.assert_array_equal(regressor.inclusion_probability_[out], first.inclusion_probability_[out])
    assert not np.array_equal(regressor.inclusion_probability_[~out], first.inclusion_probability_[~out])
    other = x.copy()
    other[:, [0, 2, 3, 5, 7]] = 0.0
    np.testing.assert_array_equal(regressor.predict(other), regressor.predict(x))
    assert 0 < regressor.percent_active_ < 100 * (3 * 6 + 6 + 6 + 1) / (8 * 6 + 6 + 6 + 1)
    again = SparseRegressor.load(regressor.save(tmp_path / "model.bnn")).partial_fit(x, y)
    assert again.used_.tolist() == [1, 4, 6] and again.selected_features_.tolist() == [1, 4, 6]


def test_variance_splits_into_noise_and_what_is_not_known(regressor):
    x, _ = table(seed=1)
    total, aleatoric, epistemic = regressor.uncertainty(x)
    np.testing.assert_allclose(total, aleatoric + epistemic)
    np.testing.assert_allclose(aleatoric, regressor.noise_scale_**2)
    np.testing.assert_allclose(total, regressor.predict(x, return_std=True)[1] ** 2)
    far = regressor.uncertainty(50.0 + 20.0 * (x - 50.0)).epistemic
    assert far.mean() > 10 * epistemic.mean()


def test_draws_of_the_posterior_are_those_behind_the_prediction(regressor):
    x, _ = table(rows=20, seed=1)
    draws = regressor.sample_posterior(x, regressor.n_draws)
    assert draws.shape == (100, 20)
    np.testing.assert_allclose(draws.mean(axis=0), regressor.predict(x))
    noisy = regressor.sample_posterior(x, 500, noise=True)
    # 10,000 draws of the noise: one percent of a standard error in their scale
    spread = (noisy - regressor.sample_posterior(x, 500)).std()
    assert spread == pytest.approx(regressor.noise_scale_, rel=0.03)
    assert not np.array_equal(regressor.sample_posterior(x, random_state=1), draws)


def test_rows_do_not_depend_on_the_chunk_they_come_in(regressor, monkeypatch):
    x, _ = table(rows=30, seed=1)
    whole = regressor.predict(x, return_interval=True)
    monkeypatch.setattr("bnnlib.estimators.base._ROWS", 7)
    for a, b in zip(whole, regressor.predict(x, return_interval=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::bnnlib.estimators.ConvergenceWarning")
def test_the_seed_decides_everything():
    x, y = table()
    short = SparseRegressor(**QUICK | {"epochs": 30})
    first, again, other = (clone(short).set_params(random_state=seed).fit(x, y).predict(x) for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_pickle_pipeline_and_grid_search(regressor):
    x, y = table(rows=60)
    assert np.array_equal(pickle.loads(pickle.dumps(regressor)).predict(x), regressor.predict(x))
    short = QUICK | {"epochs": 3}
    grid = {"sparseregressor__hidden": [(2,), (3, 2)], "sparseregressor__method": ["gaussian"]}
    search = GridSearchCV(make_pipeline(PolynomialFeatures(1), SparseRegressor(**short)), grid, cv=2).fit(x, y)
    assert search.best_params_["sparseregressor__hidden"] in [(2,), (3, 2)]


def test_partial_fit_goes_on_where_the_training_stands():
    x, y = table()
    model = SparseRegressor(**QUICK)
    with pytest.warns(ConvergenceWarning):
        model.set_params(epochs=20).fit(x, y)
    before, scale = model.score(x, y), model.input_scale_
    model.partial_fit(x, y, epochs=300)
    assert model.score(x, y) > before and model.n_epochs_ == 320
    assert model.input_scale_ is scale
    # one chunk for half of the data counts the prior half as much: it is another training
    again = SparseRegressor(**QUICK).partial_fit(x[:150], y[:150], epochs=2, num_data=300)
    other = SparseRegressor(**QUICK).partial_fit(x[:150], y[:150], epochs=2)
    assert again.n_epochs_ == 2 and not np.array_equal(again.predict(x), other.predict(x))


def test_a_training_that_is_too_short_says_so():
    x, y = table()
    with pytest.warns(ConvergenceWarning, match="still sit near their start, 0.99") as caught:
        SparseRegressor(**QUICK | {"epochs": 3}).fit(x, y)
    assert "Raise epochs" in str(caught[0].message) and caught[0].filename == __file__


def test_one_thread_or_two_give_threads_back():
    before = torch.get_num_threads()
    x, y = table(rows=30)
    SparseRegressor(**QUICK | {"epochs": 2, "method": "gaussian", "n_jobs": -1}).fit(x, y).predict(x)
    assert torch.get_num_threads() == before

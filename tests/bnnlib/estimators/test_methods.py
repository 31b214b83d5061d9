"""Every method behind the same face: noise in predictions, selection where there is any, going on, saving."""

import numpy as np
import pytest

from bnnlib.estimators import METHODS, ConvergenceWarning, SelectionWarning, SparseClassifier, SparseRegressor
from tests.bnnlib.estimators.tables import QUICK, classes, table

pytestmark = pytest.mark.slow

# a tenth of the rate of the others: SGHMC's is of the mean loss and multiplies no moments
SETTINGS = {method: QUICK | {"method": method} for method in METHODS}
SETTINGS["sghmc"] |= {"learning_rate": 0.003, "epochs": 1500}


@pytest.fixture(scope="module", params=METHODS)
def fitted(request) -> SparseRegressor:
    if request.param == "spike_slab":
        return request.getfixturevalue("regressor")  # the default
    return SparseRegressor(**SETTINGS[request.param]).fit(*table())


def test_predictions_hold_the_noise(fitted):
    x, y = table(rows=1000, seed=1)
    assert fitted.score(x, y) > 0.8
    mean, std, interval = fitted.predict(x, return_std=True, return_interval=True)
    inside = np.mean((interval[:, 0] <= y) & (y <= interval[:, 1]))
    # three standard errors are 0.02. Variational intervals are somewhat wide: the spread of the posterior stands in the
    # draws, and once more in the noise that was learned under it
    assert 0.92 < inside < 0.999, inside
    assert (std > 0.9 * 2.0).all() and (interval[:, 0] < mean).all() and (mean < interval[:, 1]).all()
    assert (std >= fitted.noise_scale_ * (1 - 1e-9)).all()
    wide = fitted.predict(x, return_interval=True, level=0.99)[1]
    assert (wide[:, 0] < interval[:, 0]).all() and (wide[:, 1] > interval[:, 1]).all()


def line(rows: int):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 5))
    return x, 2.0 * x[:, 0] + 0.1 * rng.normal(size=rows)


def test_dense_networks_are_not_taken_for_a_sparse_linear_model():
    x, y = line(60)
    dense = SparseRegressor("gaussian", epochs=5, random_state=0).fit(x, y)
    assert dense.hidden_ == (16,) and dense.support_.all() and dense.percent_active_ == 100.0


@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("which", ["inputs", "targets"])
def test_units_change_nothing(scale, which):
    """By a power of two, which rounds nothing."""
    power = np.exp2(np.round(np.log2(scale)))
    x, y = line(60)
    of_x, of_y = (power, 1.0) if which == "inputs" else (1.0, power)
    plain, other = (SparseRegressor(epochs=5, random_state=0).fit(*rows) for rows in ((x, y), (of_x * x, of_y * y)))
    assert other.predict(of_x * x[:3]) / of_y == pytest.approx(plain.predict(x[:3]), rel=1e-6)
    assert other.selected_features_.tolist() == plain.selected_features_.tolist()


def test_weights_that_are_shares_are_told_of():
    x, y = line(40)
    with pytest.warns(SelectionWarning, match=r"stand for 1 by their sample_weight, .*Multiply sample_weight by 40"):
        SparseRegressor(random_state=0).fit(x, y, np.full(40, 1 / 40))


def test_selection(fitted):
    assert ((fitted.inclusion_probability_ >= 0) & (fitted.inclusion_probability_ <= 1)).all()
    # an input is as likely by paths as by weights, or less
    assert (fitted.path_inclusion_probability_ <= fitted.inclusion_probability_ + 1e-12).all()
    # the dense one says no to no input
    assert fitted.selected_features_.tolist() == (list(range(8)) if fitted.method == "gaussian" else [1, 4, 6])


def test_saving_keeps_predictions_and_training(fitted, tmp_path):
    x, _ = table(rows=50, seed=1)
    again = SparseRegressor.load(fitted.save(tmp_path / "model.bnn"))
    assert np.array_equal(again.predict(x), fitted.predict(x)) and again.get_params() == fitted.get_params()
    for name in ("inclusion_probability_", "support_", "selected_features_", "noise_scale_", "n_features_in_"):
        assert np.array_equal(getattr(again, name), getattr(fitted, name)), name
    # both go on with the same optimizer, chain and random state
    third = SparseRegressor.load(fitted.save(tmp_path / "model.bnn"))
    a, b = (model.partial_fit(*table(), epochs=2).predict(x) for model in (again, third))
    assert np.array_equal(a, b) and not np.array_equal(a, fitted.predict(x))


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_classifies(method):
    x, labels = classes()
    settings = SETTINGS[method] | ({"learning_rate": 0.01, "epochs": 500} if method == "sghmc" else {"epochs": 300})
    model = SparseClassifier(**settings).fit(x, labels)
    # the best rule is right in nine cases of ten
    assert model.score(*classes(seed=3)) > 0.75
    assert np.isfinite(model.predict_proba(x)).all()


@pytest.mark.parametrize("estimator", [SparseRegressor, SparseClassifier])
@pytest.mark.parametrize("method", ["gaussian", "sghmc"])
def test_a_count_may_be_a_whole_float(estimator, method, tmp_path):
    x, y = table(rows=60)
    y = y if estimator is SparseRegressor else np.where(y > 1000.0, "high", "low")
    draws = []
    for kind in (int, float):
        counts = {"epochs": 20, "batch_size": 16, "n_replicates": 2, "n_draws": 4}
        given = {name: kind(value) for name, value in counts.items()}
        model = estimator(method, hidden=(kind(3),), random_state=0, **given).fit(x, y)
        model = estimator.load(model.save(tmp_path / "model.bnn")).partial_fit(x, y, epochs=kind(2), num_data=kind(60))
        assert model.get_params()["epochs"] is model.epochs and type(model.epochs) is kind
        assert type(model.n_epochs_) is int and model.n_epochs_ == 22
        model.predict(x), model.uncertainty(x)
        draws.append(model.sample_posterior(x, kind(3)))
    np.testing.assert_array_equal(*draws)


def test_the_batch_size_decides_on_the_epochs(monkeypatch):
    monkeypatch.setattr("bnnlib.estimators.settings._STEPS", 20)
    model = SparseRegressor("gaussian", hidden=(2,), batch_size=30.0).fit(*table(rows=60))
    assert type(model.n_epochs_) is int and model.n_epochs_ == 10

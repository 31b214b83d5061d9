"""Several numbers at once."""

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import DataConversionWarning

from bnnlib.estimators import SparseRegressor, predict_interval
from tests.bnnlib.estimators.tables import QUICK

SHORT = {"epochs": 200, "batch_size": 200, "learning_rate": 0.03, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 6))
    y = np.stack([100.0 + 30.0 * x[:, 1], 0.02 * x[:, 4]], axis=1)
    return x, y + rng.normal(size=y.shape) * [10.0, 0.004]


CHAIN = SHORT | {"method": "sghmc", "hidden": (4,), "learning_rate": None, "epochs": 800}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [SHORT, QUICK | {"hidden": (4,)}, CHAIN])
def test_each_output_has_its_units_and_its_noise(rows, settings, tmp_path):
    x, y = rows
    model = SparseRegressor(**settings).fit(x[:100], y[:100])
    mean, std, interval = model.predict(x[100:], return_std=True, return_interval=True)
    assert mean.shape == std.shape == (50, 2) and interval.shape == (50, 2, 2)
    assert ((interval[..., 0] < mean) & (mean < interval[..., 1])).all()
    assert model.noise_scale_ == pytest.approx([10.0, 0.004], rel=0.35)  # 100 rows: 7 %, and what the fit takes
    assert model.score(x[100:], y[100:]) > 0.8
    assert {1, 4} <= set(model.selected_features_)
    parts = model.uncertainty(x[:5])
    np.testing.assert_allclose(parts.total, model.predict(x[:5], return_std=True)[1] ** 2)
    assert model.sample_posterior(x[:5], 10, noise=True).shape[1:] == (5, 2)
    again = SparseRegressor.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.slow
def test_the_linear_candidate_is_that_of_each_output_alone(rows):
    x, y = rows
    both = SparseRegressor(**SHORT).fit(x, y)
    assert both.hidden_ == () and set(both.selected_features_) == {1, 4}
    for number in (0, 1):
        alone = SparseRegressor(**SHORT).fit(x, y[:, number])
        spread = y[:, number].std()
        # the outputs share lambda and sigma_0, nothing else
        np.testing.assert_allclose(both.predict(x)[:, number], alone.predict(x), atol=0.03 * spread)


@pytest.mark.slow
def test_weights_count_rows(rows):
    x, y = rows
    part = np.where(np.arange(150) < 75, 1.0, 0.0)
    ours = SparseRegressor(**SHORT).fit(x, y, sample_weight=part)
    np.testing.assert_allclose(ours.predict(x), SparseRegressor(**SHORT).fit(x[:75], y[:75]).predict(x), rtol=1e-4)
    heavy = SparseRegressor(**QUICK).fit(x, y, sample_weight=1.0 + part)
    assert heavy.score(x, y) > 0.8


def test_false_discoveries_of_both_outputs(rows):
    model = SparseRegressor(**SHORT, fdr=0.1).fit(*rows)
    assert model.selected_features_.tolist() == [1, 4]


def test_behind_a_transformed_target(rows):
    x, y = rows
    z = np.exp(y / y.std(axis=0) / 10.0)
    model = TransformedTargetRegressor(SparseRegressor(**SHORT), func=np.log, inverse_func=np.exp).fit(x, z)
    bounds = predict_interval(model, x)
    assert bounds.shape == (150, 2, 2) and 0.85 < ((bounds[..., 0] < z) & (z < bounds[..., 1])).mean() < 1.0


def test_what_does_not_fit(rows):
    x, y = rows
    with pytest.warns(DataConversionWarning):
        single = SparseRegressor(**SHORT).fit(x, y[:, :1])
    assert single.predict(x).shape == (150,)
    with pytest.raises(ValueError, match="1 outputs"):
        single.partial_fit(x, y)
    for settings in ({"noise": "heteroscedastic"}, {"interval": "conformal"}):
        with pytest.raises(ValueError, match="MultiOutputRegressor"):
            SparseRegressor(**SHORT, **settings).fit(x, y)

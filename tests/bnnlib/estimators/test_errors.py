"""Every wrong input has its own words: what was given, what is allowed, what to do."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

from bnnlib.estimators import SparseClassifier, SparseRegressor
from tests.bnnlib.estimators.tables import classes, table


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"method": "lasso"}, r"method is 'lasso', but it must be one of 'spike_slab'"),
        ({"activation": "swish"}, r"activation is 'swish', but it must be one of 'relu'"),
        ({"hidden": ()}, r"hidden is \(\), but it must list the widths"),
        ({"hidden": 16}, r"hidden is 16, but it must list the widths .* hidden=\(16,\)"),
        ({"hidden": (4, 0)}, r"each width in hidden is 0, but it must be an integer of at least 1"),
        ({"epochs": 0}, r"epochs is 0"),
        ({"batch_size": 1.5}, r"batch_size is 1.5"),
        ({"n_replicates": 0}, r"n_replicates is 0"),
        ({"n_draws": -1}, r"n_draws is -1"),
        # the advice on scales is for scales
        ({"learning_rate": 0.0}, r"learning_rate is 0, but it must be finite and above 0\.$"),
        ({"prior_scale": -1.0}, r"prior_scale is -1.*not variances"),
        (
            {"prior_inclusion_probability": 1.0},
            r"prior_inclusion_probability is 1, but a probability must",
        ),
    ],
)
def test_settings(setting, words):
    with pytest.raises(ValueError, match=words):
        SparseRegressor(**setting).fit(*table(rows=20))


def test_data():
    x, y = table(rows=20)
    model = SparseRegressor()
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.where(x == x[3, 3], np.nan, x), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(x, y[:-1])
    with pytest.raises(TypeError, match=r"X is a DataLoader, but it must be an array .* partial_fit"):
        model.fit(torch.utils.data.DataLoader([1, 2]), y)
    with pytest.raises(ValueError, match="classes are given to a regressor"):
        model.partial_fit(x, y, classes=[0, 1])
    for label, shown in ((0.0, r"0\.0"), ("a", "'a'")):
        with pytest.raises(ValueError, match=rf"y has only one class, {shown}, but"):
            SparseClassifier().fit(x, np.full(20, label))
    with pytest.raises(ValueError, match="classes is empty, but"):
        SparseClassifier().partial_fit(x, y > 0, classes=[])
    with pytest.raises(ValueError, match=r"learning_rate is '0\.1', but"):
        SparseRegressor(learning_rate="0.1").fit(x, y)
    with pytest.raises(ValueError, match=r"num_data is 3, but it must be an integer of at least 20"):
        model.partial_fit(x, y, num_data=3)


@pytest.mark.parametrize("kind", [list, np.asarray, lambda y: np.asarray(y, dtype=object), pd.Series])
@pytest.mark.parametrize("text", ["high", "1.5"])
def test_targets_that_are_text(kind, text):
    x, y = table(rows=20)
    words = rf"y holds text, such as '{text}', but regression needs numbers.*SparseClassifier.*y\.astype\(float\)"
    with pytest.raises(ValueError, match=words):
        SparseRegressor().fit(x, kind([text] * 20))
    with pytest.raises(ValueError, match=words):
        SparseRegressor(method="gaussian", epochs=1).fit(x, y).partial_fit(x, kind([text] * 20))


@pytest.mark.slow
def test_prediction(regressor):
    x, _ = table(rows=5)
    with pytest.raises(NotFittedError):
        SparseRegressor().predict(x)
    with pytest.raises(ValueError, match=r"X has 7 features, but SparseRegressor is expecting 8"):
        regressor.predict(x[:, :7])
    with pytest.raises(ValueError, match=r"level is 95, but it must be a share strictly between 0 and 1"):
        regressor.predict(x, return_interval=True, level=95)
    with pytest.raises(ValueError, match="n_draws is 0"):
        regressor.sample_posterior(x, 0)


def test_tensors_are_arrays():
    x, labels = classes(rows=20, names=(0, 1))
    settings = {"hidden": (2,), "epochs": 1, "method": "gaussian", "random_state": 0}
    of_tensors = SparseClassifier(**settings).fit(torch.from_numpy(x), torch.from_numpy(labels))
    assert np.array_equal(
        of_tensors.predict(torch.from_numpy(x)), SparseClassifier(**settings).fit(x, labels).predict(x)
    )


@pytest.mark.parametrize("framed", [True, False])
def test_dates_are_named(framed):
    when = pd.date_range("2024-01-01", periods=20)
    X = pd.DataFrame({"rooms": np.arange(20.0), "sold": when}) if framed else when.to_numpy()[:, None]
    with pytest.raises(ValueError, match=r"dates or times in (the column 'sold'|column 0), but"):
        SparseRegressor().fit(X, np.arange(20.0))

"""Every wrong input has its own words: what was given, what is allowed, what to do."""

import inspect

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from bnnlib.estimators import ConvergenceWarning, SelectionWarning, SparseClassifier, SparseRegressor, predict_interval
from bnnlib.train import DivergedError
from tests.bnnlib.estimators.tables import classes, table
from tests.refused import refusals

X, Y = table(rows=20)
BOTH = np.stack([Y, X[:, 1]], axis=1)
NOISY = {"noise": "heteroscedastic", "random_state": 0}
FAST = {"hidden": (2,), "epochs": 1, "method": "gaussian", "random_state": 0}
DATES = pd.date_range("2024-01-01", periods=20)


def fitted(x=X, y=Y, weights=None, **settings):
    return SparseRegressor(**settings).fit(x, y, sample_weight=weights)


def quickly(x=X):
    return SparseRegressor(**FAST).fit(x, Y)


def partly(x=X, y=Y, kind=SparseRegressor, settings=None, **more):
    return kind(**settings or {}).partial_fit(x, y, **more)


def town(name):
    return pd.DataFrame(X, columns=list("abcdefgh")).assign(**{name: np.where(X[:, 0] > 50.0, "Bern", "Graz")})


def holes():
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    frame.loc[[3, 5], "c"] = np.nan
    return frame


SETTINGS = [
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
    ({"learning_rate": "0.1"}, r"learning_rate is '0\.1', but"),
    ({"prior_scale": -1.0}, r"prior_scale is -1.*not variances"),
    ({"prior_inclusion_probability": 1.0}, r"prior_inclusion_probability is 1, but it must lie"),
    ({"interval": "exact"}, "interval"),
    ({"noise": "gaussian"}, "constant"),
    ({"fdr": 5}, "fdr is 5"),
    ({"groups": ["a"]}, "1 labels, but X has 8"),
    ({"groups": "dummies"}, "'auto', None"),
    ({"groups": 5}, "groups is 5, but it must be 'auto', None"),
    ({"n_jobs": 0}, "n_jobs is 0, but it must be a number of threads"),
    ({"n_jobs": "a"}, "n_jobs is 'a'"),
    ({"random_state": "a"}, "random_state is 'a', but it must be an integer from 0"),
]
DATA = [
    (lambda: fitted(np.where(X == X[3, 3], np.nan, X)), "contains NaN"),
    (lambda: fitted(holes()), r"NaN: 2 of 20 values are missing in the column 'c'.*SimpleImputer"),
    (lambda: fitted(town("town")), r"text in the column 'town', such as '(Bern|Graz)'.*OneHotEncoder"),
    (lambda: fitted(town("town").to_numpy()), "text in column 8"),
    (lambda: fitted(holes().astype("object").where(lambda frame: frame.notna(), pd.NA)), "NaN: 2 of 20 values"),
    (lambda: fitted(pd.DataFrame(X).astype(pd.SparseDtype(float))), r"sparse in the column 0.*to_dense\(\)"),
    (lambda: fitted(y=np.where(Y > 1000.0, np.nan, Y)), r"y contains NaN: \d+ of 20 values are missing\. Leave"),
    (lambda: fitted(y=DATES), "y holds dates or times, but regression"),
    (lambda: fitted(pd.DataFrame({"rooms": Y, "sold": DATES})), "dates or times in the column 'sold', but"),
    (lambda: fitted(DATES.to_numpy()[:, None]), "dates or times in column 0, but"),
    (lambda: SparseClassifier().fit(X, pd.Series(["a", None] * 10, dtype="string")), "10 of 20 values are missing"),
    (lambda: SparseClassifier().fit(X, np.array(["a", 1] * 10, dtype=object)), "labels such as 'a' and 1, which"),
    (lambda: SparseRegressor(hiden=(3,)), r"SparseRegressor does not know hiden\. It takes .*hidden", TypeError),
    (lambda: fitted(y=Y[:-1]), "inconsistent numbers of samples"),
    (lambda: fitted(torch.utils.data.DataLoader([1, 2])), r"X is a DataLoader, but it must be an array .* partial_fit",
     TypeError),
    (lambda: fitted(weights=-np.ones(20)), "Negative values in data passed to `sample_weight`"),
    (lambda: fitted(weights=np.zeros(20)), "at least one non-zero"),
    (lambda: fitted(weights=np.eye(20)[0]), "1 of 20 rows have a positive sample_weight, but at least 2 are needed"),
    (lambda: SparseClassifier().fit(X, Y > np.median(Y), (Y > np.median(Y)) * 1.0),
     "only one class among the rows of positive weight, True"),
    *[(lambda s=s: fitted(y=BOTH, **s), "MultiOutputRegressor")
      for s in ({"noise": "heteroscedastic"}, {"interval": "conformal"})],
    (lambda: partly(classes=[0, 1]), "classes are given to a regressor"),
    (lambda: partly(num_data=3), r"num_data is 3, but it must be an integer of at least 20"),
    (lambda: partly(settings=NOISY), "Call fit first"),
    (lambda: partly(y=Y > 0, kind=SparseClassifier, classes=[]), "classes is empty, but"),
    *[(lambda label=label: SparseClassifier().fit(X, np.full(20, label)), rf"y has only one class.*, {shown}, but")
      for label, shown in ((0.0, r"0\.0"), ("a", "'a'"))],
    (lambda: predict_interval(LinearRegression().fit(X, Y), X), "LinearRegression has no intervals", TypeError),
    (lambda: SparseRegressor().predict(X), "not fitted", NotFittedError),
    (lambda: quickly().predict(X[:, :7]), "X has 7 features, but SparseRegressor is expecting 8"),
    (lambda: quickly().predict(X, return_interval=True, level=95), "level is 95, but it must be a share strictly"),
    (lambda: quickly().sample_posterior(X, 0), "n_draws is 0"),
    *[(lambda y=y: fitted(y=y, **FAST).uncertainty(X), r"standard deviation of .*e[+-]\d\d\d", ArithmeticError)
      for y in (1e300 * Y, 1e300 * BOTH, 1e-200 * Y)],
    (lambda: quickly(holes().fillna(0.0)).predict(holes().assign(b="q", c=0.0)), "text in the column 'b'"),
    (lambda: quickly(holes().fillna(0.0)).predict(holes()), "NaN: 2 of 20 values are missing in the column 'c'"),
    (lambda: quickly().set_params(interval="conformal").predict(X, return_interval=True), "no rows were held out"),
]  # fmt: skip
test_bad_input_is_refused = refusals([*((lambda s=s: fitted(**s), words) for s, words in SETTINGS), *DATA])


@pytest.mark.parametrize("kind", [list, np.asarray, lambda y: np.asarray(y, dtype=object), pd.Series])
@pytest.mark.parametrize("text", ["high", "1.5"])
def test_targets_that_are_text(kind, text):
    words = rf"y holds text, such as '{text}', but regression needs numbers.*SparseClassifier.*y\.astype\(float\)"
    with pytest.raises(ValueError, match=words):
        SparseRegressor().fit(X, kind([text] * 20))
    with pytest.raises(ValueError, match=words):
        SparseRegressor(method="gaussian", epochs=1).fit(X, Y).partial_fit(X, kind([text] * 20))


@pytest.mark.filterwarnings("ignore::UserWarning", "error:Degrees of freedom")
@pytest.mark.parametrize("count", [2, 3])
def test_where_a_single_row_is_held_out_it_promises_little(count):
    few, settings = (X[:count], Y[:count]), {"random_state": 0, "epochs": 2}
    assert (fitted(*few, fdr=0.1, **settings).p_values_ == 1.0).all()
    model = fitted(*few, interval="conformal", **settings)
    mean, interval = model.predict(X, return_interval=True, level=0.4)
    assert (interval[:, 0] < mean).all() and np.isfinite(interval).all()
    with pytest.raises(ValueError, match=r"1 held-out rows can promise 0\.500 at most"):
        model.predict(X, return_interval=True)
    model = fitted(*few, noise="heteroscedastic", **settings)
    assert not model.noise_inclusion_probability_.any() and np.isfinite(model.uncertainty(X).total).all()


def test_tensors_are_arrays():
    x, labels = classes(rows=20, names=(0, 1))
    inputs = torch.from_numpy(x).requires_grad_()
    of_tensors = SparseClassifier(**FAST).fit(inputs, torch.from_numpy(labels))
    of_arrays = SparseClassifier(**FAST).fit(x, labels)
    assert np.array_equal(of_tensors.predict(inputs), of_arrays.predict(x))


def test_labels_of_pandas_stay_boolean():
    model = SparseClassifier(**FAST).fit(X, pd.Series([True, False] * 10, dtype="boolean"))
    assert model.classes_.dtype == bool and model.predict(X).dtype == bool


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, lambda: torch.device("meta")])
def test_contexts_of_others_do_not_reach_a_fit(context):
    plain = SparseRegressor(**FAST).fit(X, Y).partial_fit(X, Y).predict(X, return_interval=True)
    with context():
        inside = SparseRegressor(**FAST).fit(X, Y).partial_fit(X, Y).predict(X, return_interval=True)
        SparseRegressor(**FAST).partial_fit(X, Y)
    for one, other in zip(plain, inside, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("method", ["spike_slab", "sghmc"])
def test_a_default_device_does_not_reach_what_follows_a_fit(method, tmp_path):
    model = SparseRegressor(**FAST | {"method": method, "refit": False, "prior_inclusion_probability": 0.1}).fit(X, Y)
    shares, file = model.feature_importances_, model.save(tmp_path / "model.pt")
    with torch.device("meta"):
        assert np.array_equal(model.feature_importances_, shares)
        assert np.array_equal(SparseRegressor.load(file).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("method", "rate"), [("gaussian", 10), ("gaussian", 1e4), ("spike_slab", 100), ("horseshoe", 100), ("sghmc", 0.3)]
)
def test_a_training_that_diverged_is_no_model(method, rate):
    x, y = np.random.default_rng(0).normal(size=(2, 60, 3))
    settings = {"hidden": (4,), "epochs": 20, "prior_inclusion_probability": 0.1, "refit": False, "n_replicates": 1}
    with pytest.raises(DivergedError, match=r"(?i)lower (the )?learning.rate"):
        SparseRegressor(method, **settings, learning_rate=rate, random_state=0).fit(x, 2.0 * x[:, 0] + 0.5 * y[:, 0])


def test_candidates_that_diverged_are_told_in_words(recwarn):
    x, y = np.random.default_rng(0).normal(size=(2, 60, 3))
    model = SparseRegressor(epochs=20, learning_rate=100, random_state=0).fit(x, np.sin(3 * x[:, 0]) + y[:, 0])
    assert model.hidden_ == ()
    told = [str(one.message) for one in recwarn if not issubclass(one.category, SelectionWarning)]
    assert told == ["3 of 4 candidates (candidates_) diverged, and could not be chosen. Lower learning_rate, now 100."]


def test_a_short_chain_is_not_told_to_take_larger_steps():
    with pytest.warns(ConvergenceWarning, match=r"so short .* Raise epochs, or call partial_fit with .* to go on\.$"):
        SparseRegressor(**FAST | {"method": "sghmc", "epochs": 2, "learning_rate": 0.05}).fit(X, Y)


def test_a_fit_that_did_not_diverge_is_a_model():
    x, y = np.random.default_rng(0).normal(size=(2, 200, 3))
    x[0, 0], weights = 1e4, np.where(np.arange(200), 1.0, 1e-8)  # a row that is told to count for nothing
    model = SparseRegressor(**FAST).fit(x, x[:, 0] + 0.1 * y[:, 0], sample_weight=weights)
    assert np.isfinite(model.predict(x)).all()
    late = SparseRegressor(**FAST).partial_fit(x[1:3] / 1e3, y[1:3, 0])
    late.partial_fit(x[1:], y[1:, 0])  # of rows in another unit than the first
    wide = np.random.default_rng(1).normal(size=(30, 100))  # rows so light that the prior's own draws are large
    light = SparseRegressor("gaussian", hidden=(16,), epochs=100, random_state=0)
    assert np.isfinite(light.fit(wide, wide[:, 0], sample_weight=np.full(30, 0.01)).predict(wide)).all()


def test_light_rows_are_as_many_as_they_weigh():
    x = np.random.default_rng(1).normal(size=(30, 3))
    model = SparseClassifier(epochs=60, random_state=0).fit(x, x[:, 0] > 0, np.full(30, 0.05))
    assert model.temperature_ > 0.2  # the coldest there is, which a row and a half cannot tell


def test_texts_of_numpy_are_texts():
    labels = np.array([np.str_("a"), *"bab" * 6, "b"], dtype=object)
    assert SparseClassifier(**FAST).fit(X, labels).classes_.tolist() == ["a", "b"]


def test_the_settings_are_the_signature():
    assert list(inspect.signature(SparseRegressor).parameters)[:2] == ["method", "hidden"]

    class Own(SparseRegressor):
        def __init__(self, **more):
            super().__init__(hidden=(3,), **more)

    assert Own(epochs=3).epochs == 3

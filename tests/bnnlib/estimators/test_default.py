"""What the defaults do where one fixed network would lose in silence: few rows, noise alone, copies, linear truths."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_friedman1
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bnnlib.estimators import METHODS, ConvergenceWarning, SelectionWarning, SparseClassifier, SparseRegressor
from bnnlib.estimators.folds import Folds, Held
from tests.bnnlib.estimators.tables import SHORT

LONG = SHORT | {"epochs": 200}  # 1,000 steps of 300 rows


def sparse_rows(rows: int, inputs: int, relevant: int, noise: float, seed: int):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, inputs))
    return x, 2.0 * x[:, :relevant] @ np.resize([1.0, -1.0], relevant) + noise * rng.normal(size=rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_wine_is_told_apart():
    scores, losses, plain = [], [], []
    for seed in range(4):
        x, labels = load_wine(return_X_y=True)
        x, new, labels, truth = train_test_split(x, labels, test_size=0.3, random_state=seed)
        model = SparseClassifier(**SHORT).fit(x, labels)
        scores.append(model.score(new, truth))
        for found, p in ((losses, model.predict_proba(new)), (plain, model.sample_posterior(new).mean(axis=0))):
            found.append(-np.log(p[np.arange(len(truth)), truth]).mean())
    # one network of the theoretical prior was right in .39 to .74; L1-logistic regression is in .963 to 1.00, with a
    # mean loss of .103
    assert np.mean(scores) > 0.96 and min(scores) > 0.9 and np.mean(losses) < 0.103
    # the classes are far apart: the averaged draws are less sure of them than held-out rows allow, in all but the first
    assert np.mean(losses[1:]) < 0.75 * np.mean(plain[1:]) and losses[0] == pytest.approx(plain[0])


def two_sides(rows: int, seed: int):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows + 2000, 3))
    return x, (2.0 * x[:, 0] + 0.5 * rng.normal(size=rows + 2000) > 0).astype(int)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("rows", "seed"), [(30, 0), (30, 4), (12, 7)])
def test_held_out_rows_that_are_all_right_make_nothing_certain(rows, seed):
    x, labels = two_sides(rows, seed)
    model = SparseClassifier(**SHORT | {"epochs": 5}, prior_inclusion_probability=0.1).fit(x[:rows], labels[:rows])
    tempered, plain = model.predict_proba(x[rows:]), model.sample_posterior(x[rows:]).mean(axis=0)
    loss, before = (-np.log(p[np.arange(2000), labels[rows:]]).mean() for p in (tempered, plain))
    # a temperature of 0.2, the sharpest that is tried, would add .53 to .93
    assert model.candidates_[0]["hidden"] == model.hidden_ == () and loss < before + 0.1


def test_a_coin_stays_a_coin_and_weights_are_shares():
    labels, rng = np.arange(40) % 2, np.random.default_rng(0)
    assert Held.of_labels(np.full((40, 2), np.log(0.5)), labels, np.ones(40)).tempered().temperature == 1.0
    log_p = np.log(rng.dirichlet([1.0, 1.0], 40))
    one, other = (Held.of_labels(log_p, labels, weight * np.ones(40)).tempered() for weight in (1.0, 1e-3))
    assert one.temperature == other.temperature > 1.0
    # nor does one row far outside, however sure it is and rightly
    sure = Held.of_labels(np.vstack([log_p, [[-1e4, 0.0]]]), np.append(labels, 1), np.ones(41)).tempered()
    assert sure.temperature == one.temperature


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bnnlib.estimators.ConvergenceWarning")
def test_a_network_that_cannot_say_by_which_inputs_leaves_it_to_the_linear_model_or_says_so():
    rng = np.random.default_rng(30)
    x = rng.normal(size=(30, 3))
    y = 2.0 * x[:, 0] + 0.5 * rng.normal(size=30)
    labels, settings = (y > np.median(y)).astype(int), {"epochs": 1000, "random_state": 0, "n_replicates": 1}
    model = SparseClassifier(**settings).fit(x, labels)
    assert model.selected_features_.tolist() == [0]
    with pytest.warns(SelectionWarning, match="predict reads all inputs, and does better than the mean"):
        model = SparseClassifier(hidden=(16,), **settings).fit(x, labels)
    assert model.score(x, labels) > 0.85


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_hundred_rows_are_enough_for_five_inputs_of_a_thousand():
    x, y = sparse_rows(600, 1000, 5, 1.0, 0)
    model = SparseRegressor(**SHORT).fit(x[:100], y[:100])
    lasso = LassoCV().fit(x[:100], y[:100])
    error, rival = (np.sqrt(np.mean((one.predict(x[100:]) - y[100:]) ** 2)) for one in (model, lasso))
    # the constant errs by 4.6, the noise is 1
    assert error < min(1.2, rival)
    assert model.selected_features_.tolist() == [0, 1, 2, 3, 4] and model.hidden_ == ()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_few_rows_with_labels_are_no_worse_than_a_logistic_lasso():
    losses = []
    for seed in range(5):
        x, y = sparse_rows(1100, 20, 2, 0.0, seed)
        labels = (0.5 * y + np.random.default_rng(seed).logistic(size=len(y)) * 0.7 > 0).astype(int)
        model = SparseClassifier(**SHORT).fit(x[:100], labels[:100])
        scaler = StandardScaler().fit(x[:100])
        rival = LogisticRegressionCV(l1_ratios=(1.0,), solver="saga", max_iter=5000)
        rival.fit(scaler.transform(x[:100]), labels[:100])
        rows = np.arange(1000), labels[100:]
        ours, theirs = model.predict_proba(x[100:])[rows], rival.predict_proba(scaler.transform(x[100:]))[rows]
        losses.append(np.mean(np.log(theirs) - np.log(ours)))
        assert {0, 1} <= set(model.selected_features_)
    assert np.mean(losses) < np.std(losses, ddof=1) / np.sqrt(5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bnnlib.estimators.ConvergenceWarning")
@pytest.mark.parametrize("method", [method for method in METHODS if method != "gaussian"])  # which selects nothing
def test_noise_alone_selects_nothing_and_says_so(method):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(200, 50)), rng.normal(size=200)
        settings = SHORT | ({"learning_rate": 0.003} if method == "sghmc" else {})
        with pytest.warns(SelectionWarning, match="no input is selected: these 200 rows") as caught:
            model = SparseRegressor(method, **settings).fit(x, y)
        assert len(model.selected_features_) == 0 and model.path_inclusion_probability_.max() < 0.5
        assert caught[0].filename == __file__


@pytest.mark.slow
def test_a_network_predicts_where_the_rows_ask_for_one():
    x, y = make_friedman1(1300, 10, noise=1.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SelectionWarning)
        model = SparseRegressor(**LONG).fit(x[:300], y[:300])
    assert model.hidden_ == (16,) and model.selected_features_.tolist() == [0, 1, 2, 3, 4]
    # every candidate with its rows held out, the winner behind by nothing
    assert min(abs(one["behind"]) for one in model.candidates_) == 0.0
    linear, *networks = model.candidates_
    assert linear["hidden"] == () and all(one["hidden"] == (16,) for one in networks)
    assert linear["behind"] > 2 * linear["standard_error"]
    assert np.sqrt(np.mean((model.predict(x[300:]) - y[300:]) ** 2)) < 2.0  # the linear model's is 2.5


@pytest.mark.slow
@pytest.mark.parametrize("nonlinear", [False, True])
def test_a_copy_shares_its_probability_and_is_named(nonlinear):
    # that held-out rows ask for the network is seen above
    settings = LONG | ({"hidden": (16,), "prior_inclusion_probability": 0.1, "refit": False} if nonlinear else {})
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    y = (2.0 * np.abs(x[:, 0]) if nonlinear else 2.0 * x[:, 0]) + x[:, 2] + 0.5 * rng.normal(size=300)
    twice = np.insert(x, 1, 32.0 + 1.8 * x[:, 0], axis=1)  # the same in other units
    with pytest.warns(SelectionWarning, match="copies of others, or straight lines of them: input 1 of input 0"):
        model = SparseRegressor(**settings).fit(twice, y)
    assert model.path_inclusion_probability_[:2] == pytest.approx([0.5, 0.5], abs=0.02)
    assert model.selected_features_.tolist() == [0, 3]


@pytest.mark.slow
def test_inputs_that_stand_in_for_each_other_are_named():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 6))
    x[:, 1] = x[:, 0] + 0.02 * rng.normal(size=200)  # nothing in the data tells the two apart
    y = x[:, 0] + 0.5 * rng.normal(size=200)
    with pytest.warns(SelectionWarning, match="input 0, input 1 matter depends on where the fit starts"):
        model = SparseRegressor(**SHORT).fit(x, y)
    assert model.path_inclusion_probability_[:2].sum() == pytest.approx(1.0, abs=0.1)
    assert model.path_inclusion_probability_[:2].max() < 0.95 and (model.inclusion_spread_[:2] > 0.5).all()


def test_noise_above_the_spread_of_the_target_is_told(monkeypatch):
    x, y = sparse_rows(100, 3, 2, 1.0, 0)
    monkeypatch.setattr(
        "bnnlib.estimators.regressor.SparseRegressor._end", lambda self: setattr(self, "noise_scale_", 3.0 * y.std())
    )
    # a linear model has neither epochs nor a rate, and nobody is sent to the method that is set
    network = {"hidden": (4,), "refit": False, "prior_inclusion_probability": 0.1}
    for settings, advice in (
        ({}, r"\. Collect more rows\.$"),
        (network, r"Lower .*, now 0\.03, or raise epochs\.$"),
        (network | {"method": "gaussian"}, r"raise epochs, or take method='spike_slab'\.$"),
    ):
        with pytest.warns(UserWarning, match=rf"is above the standard deviation of y.*{advice}"):
            SparseRegressor(**SHORT, **settings).fit(x, y)


@pytest.mark.parametrize("constant", ["y is", "every input is"])
def test_what_is_constant_is_told_and_no_network_is_tried(constant):
    x, y = sparse_rows(40, 3, 2, 1.0, 0)
    x, y = (x, 0 * y + 0.1) if constant[0] == "y" else (0 * x + 0.1, y)
    network = {"hidden": (4,), "refit": False, "epochs": 100, "learning_rate": 0.03, "random_state": 0}
    for settings in ({"method": "gaussian", **SHORT}, network, {}):  # of the first no candidates are compared
        nothing = "" if "method" in settings else ": there is nothing to select"
        with pytest.warns(SelectionWarning, match=f"{constant} constant{nothing}"):
            model = SparseRegressor(**settings).fit(x, y)
    assert model.hidden_ == () and len(model.candidates_) == 1 and not model.support_.any()


def test_a_linear_model_that_selects_nothing_and_predicts_is_said_to():
    generator = np.random.default_rng(3)
    x = generator.normal(size=(50, 40))
    with pytest.warns(SelectionWarning, match="predict reads all inputs, and does better than the mean"):
        model = SparseRegressor(epochs=5, random_state=0).fit(x, x.mean(axis=1) + 0.05 * generator.normal(size=50))
    assert model.hidden_ == () and not model.support_.any()


def test_what_was_not_measured_is_not_said():
    x, y = np.random.default_rng(0).normal(size=(2, 60, 3))
    settings = {"hidden": (4,), "refit": False, "prior_inclusion_probability": 0.01, "learning_rate": 0.03}
    with pytest.warns(SelectionWarning, match="predict answers little more than the mean"):
        SparseRegressor(**settings, epochs=400, random_state=0).fit(x, y[:, 0])


def test_an_interrupted_fit_leaves_what_was_there(monkeypatch):
    x, y = sparse_rows(100, 3, 2, 1.0, 0)
    model = SparseRegressor(**SHORT, hidden=(4,), refit=False, prior_inclusion_probability=0.1).fit(x, y)
    assert model.network_.stack.replicates == 3  # more starts than one by default
    before, chosen = model.predict(x), vars(model).copy()

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bnnlib.estimators.variational.fit_stacked", stop)
    for again in (model.fit, model.partial_fit):
        with pytest.raises(KeyboardInterrupt):
            again(-x, 10.0 * y)
        assert vars(model).keys() == chosen.keys() and np.array_equal(model.predict(x), before)
    fresh = SparseRegressor(**SHORT, hidden=(4,))
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(x, y)
    assert not hasattr(fresh, "network_") and not hasattr(fresh, "n_features_in_")


@pytest.mark.slow
@pytest.mark.parametrize("steps", [200, 1000])
def test_a_selection_that_had_no_time_says_so(steps):
    x, y = sparse_rows(128, 6, 2, 1.0, 0)
    settings = {"hidden": (8,), "prior_inclusion_probability": 0.01, "refit": False, "random_state": 0}
    with pytest.warns(
        ConvergenceWarning, match=f"after {steps} epochs .* inputs may be in that do not matter|near their"
    ):
        SparseRegressor(epochs=steps, **settings).fit(x, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # two epochs
@pytest.mark.parametrize("labels", [False, True])
def test_many_rows_hold_out_the_same_ones_for_every_candidate(labels):
    x, y = sparse_rows(21_000, 3, 1, 1.0, 0)
    x[:, 2], y = np.abs(x[:, 2]), y + np.where(np.arange(len(y)) < 20_000, 0.0, 1.0)  # sorted: the end is another
    kind, y = (SparseClassifier, (y > 2.5).astype(int)) if labels else (SparseRegressor, y)
    settings = SHORT | {"epochs": 1, "batch_size": 4096, "n_replicates": 1}
    model = kind(**settings).fit(x, y)
    assert model.candidates_[0]["hidden"] == () and len(model.candidates_) > 1
    folds = Folds.divide(len(x), y if labels else None, 100, 0)
    assert folds.test.shape == (1, 3_500) and folds.train.shape == (1, 17_500)
    assert 0.04 < (folds.test >= 20_000).mean() < 0.055  # from everywhere, not the first ones
    if labels:
        assert y[folds.test].mean() == pytest.approx(y.mean(), abs=1 / 3_500)


@pytest.mark.parametrize("rows", [2, 3])
def test_a_single_row_held_out_does_not_ask_for_a_network(rows):
    x = np.random.default_rng(0).normal(size=(rows, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SparseRegressor(epochs=3, random_state=0).fit(x, x[:, 0] ** 2 - x[:, 1])
    assert model.hidden_ == ()

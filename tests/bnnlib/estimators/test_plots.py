"""The pictures: what they show is what the fit says, for one input and for a thousand, on white and on black."""

import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
pytest.importorskip("pandas")

import matplotlib
import pandas
from matplotlib import pyplot as plt
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from bnnlib.estimators import (
    SparseClassifier,
    SparseRegressor,
    plot_calibration,
    plot_dependence,
    plot_inclusion,
    plot_path,
)
from bnnlib.estimators.calibration import coverage, reliability
from bnnlib.estimators.dependence import dependence
from bnnlib.estimators.drawing import COLORS, GRAY, look, wilson
from bnnlib.estimators.path import path
from tests.bnnlib.estimators.tables import QUICK, classes, table
from tests.book.display.test_style import DEFICIENCIES, least_distance, linear

matplotlib.use("Agg")
X, _ = table()
SHORT = {"hidden": (4,), "epochs": 30, "random_state": 0, "n_replicates": 2}


@pytest.fixture(autouse=True)
def _no_figure_left():
    yield
    plt.close("all")


def line(ax, label):
    return next(one for one in ax.get_lines() if one.get_label() == label)


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# the path


def test_inputs_enter_in_the_order_of_their_effect():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 12))
    # t-values of about 12, 5 and 4: log Bayes factors of some 50, 10 and 6 nats against prices of 18 to 0.7
    y = x[:, 7] + 0.4 * x[:, 2] + 0.35 * x[:, 9] + rng.normal(size=150)
    ax = plot_path(x, y, SparseRegressor(random_state=0), top=3)
    assert labels(ax) == ["input 7", "input 2", "input 9"]
    assert "9 other inputs, at most" in ax.get_legend().get_title().get_text().replace("\n", " ")
    strong = line(ax, "input 7").get_ydata()
    assert strong.min() > 0.9  # in at every lambda
    assert line(ax, "input 9").get_ydata()[0] < 0.5 < line(ax, "input 9").get_ydata()[-1]


def test_the_linear_path_is_the_exact_posterior_of_one_input():
    """With one input the model is conjugate but for the noise: its log-odds move with those of lambda, one for one."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 1))
    found = path(SparseRegressor(random_state=0), x, 0.12 * x[:, 0] + rng.normal(size=400), [1e-3, 1e-2, 1e-1])
    posterior, prior = (p / (1.0 - p) for p in (found.inclusion[:, 0], np.asarray(found.probabilities)))
    # the learned noise depends a little on whether the input is in, here by 0.7 % of its variance: 400 rows / 2 * 0.7 %
    assert np.ptp(np.log(posterior / prior)) < 1.4 and found.evidence is not None and found.hidden == ()


@pytest.mark.slow
def test_a_path_through_networks_is_of_networks():
    x, y = table()
    with pytest.warns(Warning, match="Raise epochs of the estimator"):
        plot_path(x, y, SparseRegressor(hidden=(6,), random_state=0, epochs=3))
    model = SparseRegressor(hidden=(6,), random_state=0, batch_size=300, epochs=600, learning_rate=0.05)
    ax = plot_path(x, y, model, probabilities=[1e-2, 1e-5])
    assert ax.get_title(loc="left") == "networks of 6 hidden units"
    assert sorted(labels(ax)[:3]) == ["input 1", "input 4", "input 6"]  # the last one by its absolute value
    assert line(ax, "input 6").get_xdata().tolist() == [1e-5, 1e-2]


def test_texts_are_labels_and_names_stand_in_the_legend():
    x, y = classes()
    frame = pandas.DataFrame(x, columns=[f"a{j}$" for j in range(8)])
    ax = plot_path(frame, y, probabilities=[1e-3, 0.1])
    assert labels(ax)[:2] == [r"a1\$", r"a4\$"]  # a dollar sign begins no formula
    ax.figure.canvas.draw()


def test_groups_enter_together():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 6))
    y = x[:, 1] + 0.5 * x[:, 4] + rng.normal(size=150)
    found = path(SparseRegressor(random_state=0, groups=[None, "a", "a", "b", "b", None]), x, y, [1e-6, 1e-2])
    np.testing.assert_array_equal(found.inclusion[:, [1, 3]], found.inclusion[:, [2, 4]])
    assert (found.inclusion[:, 1] > 0.9).all() and found.inclusion[0, 0] < 0.5


# inclusion


@pytest.mark.slow
def test_selected_inputs_are_filled_and_the_rest_is_told(regressor):
    ax = plot_inclusion(regressor, top=5)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert len(names) == 5 and {"input 1", "input 4", "input 6"} < set(names)
    filled, hollow = line(ax, "selected (3)"), line(ax, "not selected (5)")
    assert sorted(filled.get_xdata()) == sorted(regressor.path_inclusion_probability_[regressor.support_])
    assert len(hollow.get_xdata()) == 2 and "not shown: 3 other inputs" in ax.get_title(loc="left")
    assert plot_inclusion(regressor, top=2).get_title(loc="left").endswith("1 of them selected")


def test_the_bar_is_the_range_over_starts():
    x, y = table(100)
    with pytest.warns(Warning):
        model = SparseRegressor(**SHORT | {"epochs": 3}).fit(x, y)
    low, high = model.inclusion_range_
    np.testing.assert_allclose(high - low, model.inclusion_spread_, atol=1e-15)
    assert (low <= model.path_inclusion_probability_ + 1e-12).all()
    assert (model.path_inclusion_probability_ <= high + 1e-12).all()
    bars = plot_inclusion(model).collections[0].get_segments()
    np.testing.assert_allclose(sorted(bar[0][0] for bar in bars), sorted(low))
    del model.inclusion_range_  # as in a file of an older version
    assert not plot_inclusion(model).collections


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("inputs", "style"), [(1, "dark_background"), (1000, "default")])
def test_every_picture_of_one_input_and_of_a_thousand(inputs, style):
    rng = np.random.default_rng(0)
    x = pandas.DataFrame(rng.normal(size=(60, inputs)), columns=[f"the input with number {j}" for j in range(inputs)])
    y = 3.0 * x.iloc[:, 0].to_numpy() + rng.normal(size=60)
    cycle = {"axes.prop_cycle": matplotlib.cycler(marker=["X", "P"], linestyle=[":", "--"])}  # as the book's own style
    with plt.style.context([style, cycle]):
        model = SparseRegressor(**SHORT | {"epochs": 3}, refit=False, prior_inclusion_probability=1e-3).fit(x, y)
        pictures = [plot_path(x, y, probabilities=[1e-3]), plot_inclusion(model)]
        pictures += [plot_dependence(model, x, "the input with number 0"), plot_calibration(model, x, y)]
        for ax in pictures:
            ax.figure.canvas.draw()
            inside, whole = ax.figure.get_tightbbox(), ax.figure.bbox_inches
            # nothing is cut off: half a point of rounding
            assert min(*inside.min, *(whole.max - inside.max)) > -0.01
    assert {line.get_marker() for line in pictures[2].get_lines()} == {"none", "|"}
    said = pictures[1].get_title(loc="left")
    assert ("980 other inputs" in said) if inputs == 1000 else said == ""


# dependence


def test_the_curves_are_averages_of_draws(regressor):
    x, _ = table()
    found = dependence(regressor, x, 6, (), target=None, level=0.9, rows=50, grid_resolution=7)
    assert found.draws.shape == (100, 7) and not found.points
    some, part = np.linspace(0, 299, 50).round().astype(int), 3
    moved = x[some].copy()
    moved[:, 6] = found.values[part]
    expected = regressor.sample_posterior(moved, 100).mean(axis=1)
    np.testing.assert_allclose(found.draws[:, part], expected, rtol=1e-12)
    np.testing.assert_allclose(found.bounds[:, part], np.quantile(expected, [0.05, 0.95]), rtol=1e-12)
    np.testing.assert_allclose(found.values[[0, -1]], np.quantile(x[:, 6], [0.05, 0.95]))
    # y has 6 |z|: the middle is the lowest
    assert found.mean[3] < found.mean[0] - 3 and found.mean[3] < found.mean[-1] - 3


@pytest.mark.slow
def test_several_features_get_several_axes(regressor, classifier):
    x, _ = table()
    axes = plot_dependence(regressor, x)
    assert {ax.get_xlabel() for ax in axes} == {"input 1", "input 4", "input 6"}
    assert plot_dependence(classifier, x, [-1])[0].get_ylabel() == "probability of 'yes'"
    assert plot_dependence(classifier, x, 1, target="no").get_ylabel() == "probability of 'no'"
    given = plt.subplots(2)[1]
    assert plot_dependence(regressor, x, [0, 1], ax=given)[1] is given[1]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_categories_get_points_and_pipelines_their_own_columns():
    rng = np.random.default_rng(0)
    size, town = rng.integers(1, 90, size=120), rng.choice(["Ulm", "Oslo", "Bari"], size=120)
    frame = pandas.DataFrame({"size": size, "town": town, "new": rng.random(120) < 0.5})
    y = 0.1 * size + 5.0 * (town == "Oslo") + rng.normal(size=120)
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough"), SparseRegressor(**SHORT)
    ).fit(frame, y)
    before = frame.copy()
    towns, sizes, news = plot_dependence(model, frame, ["town", "size", "new"])
    assert [text.get_text() for text in towns.get_xticklabels()] == ["Bari", "Oslo", "Ulm"]
    assert [text.get_text() for text in news.get_xticklabels()] == ["False", "True"]
    bars = towns.containers[0].lines[0].get_ydata()
    assert bars[1] > max(bars[0], bars[2])
    assert len(sizes.get_lines()[0].get_xdata()) == 30  # a line through whole numbers
    coded = plot_dependence(model, frame, "size", categorical_features=["size"])
    assert len(coded.get_xticklabels()) == len(np.unique(size))
    pandas.testing.assert_frame_equal(frame, before)
    with pytest.raises(ValueError, match="columns of X are 'size', 'town', 'new'"):
        plot_dependence(model, frame, "village")
    with pytest.raises(ValueError, match="of a Pipeline they must be named"):
        plot_dependence(model, frame)
    with pytest.raises(TypeError, match="regressor_"):
        plot_dependence(TransformedTargetRegressor(SparseRegressor()), frame, "size")


# calibration


class Says:
    """A classifier whose probabilities are given; its X is one column of them."""

    _estimator_type, classes_ = "classifier", np.array(["no", "yes"])

    def __sklearn_tags__(self):
        return LogisticRegression().__sklearn_tags__()

    def predict_proba(self, x):
        return np.column_stack([1.0 - x[:, 0], x[:, 0]])


def test_reliability_counts_every_row_once_and_finds_the_truth():
    rng = np.random.default_rng(0)
    p = rng.random(4000)
    y = np.where(rng.random(4000) < p**2, "yes", "no")
    promised, hits, rows, _ = reliability(Says(), p[:, None], y, None, 10)
    assert rows.sum() == 4000 and hits.sum() == (y == "yes").sum() and len(rows) == 10
    # Wilson's by hand, with z = 1.6449: 0 to z^2 / (10 + z^2) for none of ten
    np.testing.assert_allclose(wilson([0, 5], [10, 10], 0.9), [[0.0, 0.2129], [0.2693, 0.7307]], atol=1e-4)
    bounds = wilson(hits, rows, 0.999)
    assert ((bounds[:, 0] < promised**2 + 0.01) & (promised**2 - 0.01 < bounds[:, 1])).all()
    assert not ((bounds[:, 0] < promised) & (promised < bounds[:, 1])).all()  # what is promised is not kept
    # all alike, or a few rows: one bin, and none without rows
    for few in (np.full((50, 1), 0.3), np.array([[0.2], [0.9]])):
        promised, hits, rows, _ = reliability(Says(), few, np.full(len(few), "no"), None, 10)
        assert rows.tolist() == [len(few)] and hits.tolist() == [0]
    ax = plot_calibration(Says(), p[:, None], y)
    assert [text.get_text() for text in ax.texts] == ["400"] * 10


@pytest.mark.slow
def test_coverage_is_that_of_predicted_intervals(regressor):
    x, y = table(200, seed=1)
    levels, inside, rows, _ = coverage(regressor, x, y)
    for level, count in zip(levels, inside, strict=True):
        low, high = regressor.predict(x, return_interval=True, level=level)[1].T
        assert count == ((low <= y) & (y <= high)).sum()
    assert (rows == 200).all() and abs(inside[-1] / 200 - 0.95) < 0.06  # four standard errors
    behind = TransformedTargetRegressor(SparseRegressor(**SHORT), func=np.log, inverse_func=np.exp)
    with pytest.warns(Warning):
        behind.fit(x[:50], y[:50])
    assert plot_calibration(behind, x, y).get_title(loc="left") == "200 rows"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_levels_that_held_out_rows_cannot_promise_are_left_out():
    x, y = table(15)
    model = SparseRegressor(**SHORT | {"epochs": 3}, interval="conformal").fit(x, y)
    levels = coverage(model, x, y)[0]
    assert levels.max() == 0.9  # 15 rows promise 15 / 16


@pytest.mark.slow
def test_three_classes_ask_whether_the_likeliest_is_right():
    x, y = classes(names=("a", "b", "c"))
    model = SparseClassifier(**QUICK | {"epochs": 200}).fit(x, y)
    _, hits, rows, said = reliability(model, x, y, None, 5)
    assert hits.sum() == (model.predict(x) == y).sum() and rows.sum() == len(y) and "likeliest" in said[0]
    assert reliability(model, x, y, "b", 5)[1].sum() == (y == "b").sum()
    assert plot_calibration(model, x, y, target="b").get_xlabel() == "probability of 'b'"


# refusals


def gaussian():
    return SparseRegressor("gaussian", **SHORT | {"epochs": 2}).fit(*table(50))


REFUSED = [  # of a regressor and a classifier that are fitted
    (lambda r, c: plot_path(*table(50), SparseRegressor("gaussian")), "has no prior inclusion probability"),
    (lambda r, c: plot_path(*table(50), probabilities=[0.1, 1.0]), "each of probabilities is 1"),
    (lambda r, c: plot_path(*table(50), probabilities=[]), "probabilities is empty"),
    (lambda r, c: plot_path(*table(50), top=0), "top is 0"),
    (lambda r, c: plot_inclusion(gaussian()), "keeps every weight"),
    (lambda r, c: plot_inclusion(SparseRegressor()), "not fitted"),
    (lambda r, c: plot_inclusion(make_pipeline(r)), "best_estimator_"),
    (lambda r, c: plot_dependence(r, X, 0, ax=plt.subplots(2)[1]), "ax holds 2 axes, but 1 are drawn"),
    (lambda r, c: plot_dependence(r, X, 8), r"features has 8, but the columns of X are 0 to 7"),
    (lambda r, c: plot_dependence(r, X * np.nan, 1), r"features has 'input 1', of which every value is missing"),
    (lambda r, c: plot_dependence(c, X, 1, target="maybe"), "target is 'maybe'"),
    (lambda r, c: plot_calibration(Says(), X[:2, :1] * 0.0, ["no", "maybe"]), "y has the label 'maybe'"),
    (lambda r, c: plot_calibration(Says(), X[:3, :1] * 0.0, ["no", "yes"]), "X has 3 rows and y has 2, but both need"),
    *[
        (lambda r, c, m=m, y=y: plot_calibration(m or r, X[:2, :1] * 0.0, y), "Input y contains NaN: 1 of 2 values")
        for m, y in ((None, [1e3, np.nan]), (Says(), ["no", None]), (Says(), pandas.Series(["no", pandas.NA])))
    ],
    (lambda r, c: plot_calibration(r, X[:2], [1e3, np.inf]), "Input y contains infinity"),
    (lambda r, c: plot_calibration(r, X[:2], ["no", "yes"]), "y holds text, such as 'no', but regression"),
    (lambda r, c: plot_calibration(r, X[:2], np.zeros((2, 2))), "y has 2 outputs"),
    (lambda r, c: plot_calibration(r, X[:2], np.zeros(2), level=95), "level is 95, but it must be a share"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("call", "words"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_is_refused(call, words, regressor, classifier):
    with pytest.raises(TypeError if words == "best_estimator_" else ValueError, match=words):
        call(regressor, classifier)


# looks


def test_colors_stand_out_on_white_and_on_dark_and_stay_apart_for_everyone():
    def luminance(color):
        return linear(color) @ [0.2126, 0.7152, 0.0722]

    for color in (*COLORS, GRAY):
        for ground in ("#FFFFFF", "#222222"):
            bright, dim = sorted([luminance(color), luminance(ground)], reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 3.0, (color, ground)
    for matrix in DEFICIENCIES.values():
        assert least_distance(COLORS, matrix) > 15
    assert len({tuple(look(number).items()) for number in range(20)}) == 20


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch, regressor):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"bnnlib\[plot\]"):
        plot_inclusion(regressor)

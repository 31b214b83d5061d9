"""Inputs that are in or out together."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from bnnlib.estimators import SparseRegressor
from bnnlib.estimators.ascent import Ascent, ascend
from bnnlib.estimators.groups import group_numbers, members
from bnnlib.estimators.likelihoods import SharedGaussian
from bnnlib.estimators.linear import Linear
from bnnlib.estimators.rows import Rows
from bnnlib.replicates import Layout
from tests.bnnlib.estimators.tables import QUICK

GROUPS = [np.array([0, 2]), np.array([1]), np.array([3, 4])]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    color, shape, x = rng.integers(0, 4, 150), rng.integers(0, 3, 150), rng.normal(size=(150, 3))
    y = np.array([0.0, 1.5, -1.5, 1.0])[color] + x[:, 0] + 0.7 * rng.normal(size=150)
    dummies = pd.get_dummies(
        pd.DataFrame({"color": pd.Categorical(color), "shape": pd.Categorical(shape)}), dtype=float
    )
    return pd.concat([pd.DataFrame(x, columns=["a", "b", "c"]), dummies], axis=1), y


def small(seed=0, rows=30):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5))
    y = x[:, 0] + 0.5 * x[:, 2] + 0.4 * x[:, 1] + rng.normal(size=rows)
    return x, (y - y.mean()) / y.std()


def test_dummies_are_found_by_their_names(table):
    X, _ = table
    expected = [0, 1, 2, 3, 3, 3, 3, 4, 4, 4]
    assert group_numbers("auto", X.to_numpy(), X.columns.to_numpy()).tolist() == expected
    first_left_out = X.drop(columns=["color_0", "shape_0"])
    names = first_left_out.columns.to_numpy()
    assert group_numbers("auto", first_left_out.to_numpy(), names).tolist() == [0, 1, 2, 3, 3, 3, 4, 4]


def test_without_names_columns_that_make_one_in_every_row(table):
    X = table[0].to_numpy()
    assert group_numbers("auto", X, None).tolist() == [0, 1, 2, 3, 3, 3, 3, 4, 4, 4]
    both = np.stack([X[:, 3] + X[:, 4], X[:, 5] + X[:, 6], X[:, 0]], axis=1)  # mirror images: copies, no category
    assert group_numbers("auto", both, None).tolist() == [0, 1, 2]


def test_answers_that_may_hold_together_are_no_category():
    x = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(float)
    assert group_numbers("auto", x, np.array(["has_car", "has_dog", "has_cat"])).tolist() == [0, 1, 2]


def test_given_groups():
    x = np.zeros((4, 4))
    assert group_numbers(["b", None, "b", None], x, None).tolist() == [0, 1, 0, 2]
    assert group_numbers(None, x, None).tolist() == [0, 1, 2, 3]
    assert [some.tolist() for some in members(np.array([0, 1, 0, 2]))] == [[0, 2], [1], [3]]


def expected_bound(fit: Ascent, x, y, probability, slab):
    """E_q of log p(y, weights, indicators) - log q, summed over all states of the indicators."""
    phi, mu, var = fit.inclusion[0, 0], fit.mean[0, 0], fit.variance[0, 0]
    total, noise = 0.0, fit.noise[0]
    for state in itertools.product([0.0, 1.0], repeat=len(GROUPS)):
        gate, share, divergence = np.zeros(5), 1.0, 0.0
        for on, some in zip(state, GROUPS, strict=True):
            gate[some], one = on, phi[some[0]]
            share *= one if on else 1.0 - one
            divergence += np.log(one / probability) if on else np.log((1.0 - one) / (1.0 - probability))
        of_slab = 0.5 * (var / slab**2 + mu**2 / slab**2 - 1.0 - np.log(var / slab**2))
        residual = y - x @ (gate * mu) - fit.bias[0, 0]
        square = residual**2 + np.square(x) @ (gate * var) + fit.bias_variance[0, 0]
        likelihood = (-0.5 * square / noise**2 - np.log(noise) - 0.5 * np.log(2 * np.pi)).sum()
        total += share * (likelihood - divergence - gate @ of_slab)
    return total


def test_the_bound_of_groups_is_that_of_all_states():
    x, y = small()
    probability, slab = np.array([0.3]), np.array([0.7])
    fit = ascend(Rows(x, y, 0, np.ones(30)), probability, slab, np.arange(3), GROUPS)
    assert fit.inclusion[0, 0, 0] == fit.inclusion[0, 0, 2] and fit.inclusion[0, 0, 3] == fit.inclusion[0, 0, 4]
    assert fit.evidence[0] == pytest.approx(expected_bound(fit, x, y, 0.3, 0.7), rel=1e-10)
    # where ascent ends no indicator and no mean of the group can do better
    for name, index, step in (("mean", 0, 0.02), ("mean", 2, -0.02), ("inclusion", GROUPS[2], 0.02)):
        moved = getattr(fit, name).copy()
        moved[..., index] += step
        assert expected_bound(fit._replace(**{name: moved}), x, y, 0.3, 0.7) < fit.evidence[0]


@pytest.mark.slow
def test_draws_switch_groups_and_have_the_moments_of_the_ascent():
    x, y = small(rows=12)
    generator = torch.Generator().manual_seed(0)
    layout = Layout((5, 1), 1)
    network = Linear(layout, SharedGaussian(1), "relu", 0.01, 0.3, 0.5, generator, groups=GROUPS)
    network.ascend(Rows(x, y, 0, np.ones(12)), 0)
    weights, biases = zip(*(layers[0] for layers, _ in network.draws(20_000, generator)), strict=True)
    weight, bias = torch.cat(weights)[:, 0].numpy(), torch.cat(biases)[:, 0].numpy()
    for some in GROUPS:
        assert np.ptp((weight[:, some] != 0.0).astype(int), axis=1).max() == 0  # all of a group or none
    f = weight @ x.T + bias
    # the ascent is found again in the network's parameters, in float32
    settings, order = (np.array([0.3]), np.array([0.5])), np.random.default_rng(0).permutation(3)
    fit = ascend(Rows(x, y, 0, np.ones(12)), *settings, order, GROUPS)
    mean, variance = (part[0, 0] for part in fit.moments(x, GROUPS))
    error = np.sqrt(variance / len(f))
    assert np.abs(f.mean(axis=0) - mean).max() < 5.0 * error.max()
    # a variance of 20,000 draws has a relative error of 1 to 2 %, with gates of heavier tails
    assert f.var(axis=0) == pytest.approx(variance, rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, QUICK, {"fdr": 0.1}])
def test_a_category_is_in_or_out_as_a_whole(table, settings, tmp_path):
    X, y = table
    model = SparseRegressor(**({"random_state": 0} | settings)).fit(X, y)
    assert {"a", "color_0", "color_1", "color_2", "color_3"} <= set(model.selected_features_)
    assert not set(model.selected_features_) & {"shape_0", "shape_1", "shape_2"}
    for name in ("inclusion_probability_", "path_inclusion_probability_", "inclusion_spread_"):
        assert np.ptp(getattr(model, name)[3:7]) == np.ptp(getattr(model, name)[7:]) == 0.0
    if "fdr" in settings:
        assert len(set(model.p_values_[3:7])) == 1 and model.p_values_[3] < 0.1 < model.p_values_[8]
    again = SparseRegressor.load(model.save(tmp_path / "model"))
    assert np.array_equal(again.predict(X), model.predict(X))


@pytest.mark.slow
def test_two_mirror_images_of_one_category_are_no_copies_to_warn_of(table, recwarn):
    X, _ = table
    X = pd.DataFrame({"a": X["a"], "b": X["b"], "color_0": X["color_1"], "color_1": 1 - X["color_1"]})
    y = X["a"] + 2.0 * X["color_1"] + 0.5 * np.random.default_rng(1).normal(size=len(X))
    model = SparseRegressor(random_state=0).fit(X, y)
    assert model.selected_features_.tolist() == ["a", "color_0", "color_1"]
    assert not [one for one in recwarn if "copies" in str(one.message)]

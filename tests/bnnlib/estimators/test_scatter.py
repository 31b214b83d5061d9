"""Noise that depends on the inputs."""

import numpy as np
import pytest
import torch

from bnnlib.estimators import SparseRegressor, scatter
from bnnlib.estimators.scatter import Errors, OfErrors, learn

pytestmark = pytest.mark.slow

NOISY = {"noise": "heteroscedastic", "random_state": 0, "epochs": 800, "batch_size": 300, "learning_rate": 0.03}


def rows(number, seed, slope=0.8):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(number, 4))
    scale = 50.0 * np.exp(slope * x[:, 1])
    return 10.0 + 3.0 * x, 1000.0 + 200.0 * x[:, 0] + scale * rng.normal(size=number), scale


@pytest.fixture(scope="module")
def fitted():
    x, y, _ = rows(200, 0)
    return SparseRegressor(**NOISY, interval="conformal").fit(x, y)


def test_the_loss_is_the_normal_distribution_of_the_errors():
    torch.manual_seed(0)
    errors = Errors(np.zeros((5, 1)), *np.random.default_rng(0).uniform(0.5, 2.0, (4, 5)))
    target, g = errors.target(), torch.randn(2, 5, 1, dtype=torch.float64)
    unit = errors.noise.mean()
    normal = torch.distributions.Normal(
        torch.zeros(()),
        torch.sqrt(torch.from_numpy(errors.function) + torch.from_numpy(errors.noise) * torch.exp(2 * g[..., 0])),
    )
    expected = -(normal.log_prob(torch.from_numpy(errors.square).sqrt()) * torch.from_numpy(errors.weights)).sum() / 5
    constant = 2 * errors.weights.sum() / 5 * 0.5 * np.log(2 * np.pi * unit)
    assert float(OfErrors()(g, target)) == pytest.approx(float(expected) - constant)


def test_the_noise_follows_its_input_and_the_mean_gains(fitted):
    x, _, scale = rows(2000, 1)
    plain = SparseRegressor(random_state=0).fit(*rows(200, 0)[:2])
    assert fitted.selected_features_.tolist() == [0]
    assert fitted.noise_inclusion_probability_[1] > 0.9 > 0.5 > fitted.noise_inclusion_probability_[[0, 2, 3]].max()
    aleatoric = np.sqrt(fitted.uncertainty(x).aleatoric)
    # the log of 200 squared errors' level and slope is known to 0.05 to 0.1
    assert np.log(aleatoric / scale).mean() == pytest.approx(0.0, abs=0.25)
    assert np.corrcoef(np.log(aleatoric), np.log(scale))[0, 1] > 0.97
    truth = 1000.0 + 200.0 / 3.0 * (x[:, 0] - 10.0)
    assert np.abs(fitted.predict(x) - truth).mean() < np.abs(plain.predict(x) - truth).mean()
    assert fitted.noise_scale_ == pytest.approx(np.sqrt(np.square(rows(200, 0)[2]).mean()), rel=0.4)


@pytest.mark.parametrize("interval", ["posterior", "conformal"])
def test_intervals_hold_their_share_where_it_is_quiet_and_loud(fitted, interval):
    x, y, scale = rows(3000, 2)
    bounds = fitted.set_params(interval=interval).predict(x, return_interval=True)[1]
    inside = (bounds[:, 0] <= y) & (y <= bounds[:, 1])
    # constant noise holds 1.00 of the quiet third and 0.84 of the loud one
    assert all(0.87 < inside[third].mean() < 0.995 for third in np.array_split(np.argsort(scale), 3))


def test_draws_of_y_have_the_noise_of_their_row(fitted):
    x, _, _ = rows(2500, 3)  # more than are predicted at once
    draws = fitted.sample_posterior(x, 100, noise=True)
    _, std = fitted.predict(x, return_std=True)
    assert np.log(draws.std(axis=0) / std).std() < 0.1  # 300 draws: 0.04, and more for mixtures


def test_it_is_saved_and_goes_on(fitted, tmp_path):
    x, y, _ = rows(200, 0)
    again = SparseRegressor.load(fitted.save(tmp_path / "model"))
    for ours, theirs in zip(again.predict(x, True, True), fitted.predict(x, True, True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    before = np.sqrt(again.uncertainty(x).aleatoric)
    again.partial_fit(x, y, epochs=2)
    after = np.sqrt(again.uncertainty(x).aleatoric)
    assert np.ptp(after / before) < 1e-2  # the level may move, the pattern stays


def test_where_nothing_beats_constant_noise_nothing_is_scaled(monkeypatch):
    def far(estimator, x, target, sizes, probabilities, folds):
        return [torch.full((2, folds.test.size), 5.0, dtype=torch.float64)] * len(probabilities)

    monkeypatch.setattr(scatter, "_tried", far)
    model = SparseRegressor(**NOISY)
    model.seed_ = 0
    # errors three times as large as predicted: a conformal step must see them against what predict says
    errors = Errors(np.zeros((50, 2)), np.full(50, 9.0), np.zeros(50), np.ones(50), np.ones(50))
    found, squared = learn(model, errors)
    assert found is None and (squared == 1.0).all()

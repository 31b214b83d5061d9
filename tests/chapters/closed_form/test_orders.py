"""The lesson's network pruned in three orders: by hand, and what separates two of the orders."""

import math

import numpy as np
import pytest
import torch

from chapters.closed_form.experiments import orders
from tests.chapters.cells import CPU, smoke


def test_rows_are_finite_and_the_whole_network_is_the_same_in_every_order():
    rows = orders.run_orders(smoke("sbnn-orders"), CPU, None).rows
    assert all(math.isfinite(row["value"]) for row in rows)
    whole = {
        order: [row["value"] for row in rows if (row["method"], row["metric"]) == (order, "rmse_test_at_0")]
        for order in orders.ORDERS
    }
    assert whole["by p*"] == whole["by |m|"] == whole["by |m| / sigma"] and len(whole["by p*"]) == 2


def test_the_order_by_magnitude_is_that_by_p_without_the_variance():
    cell = smoke("sbnn-orders")
    model, x = orders.trained(cell, CPU, None)
    posterior = model.posterior
    mean, prior = posterior.mean(), posterior._prior
    from bnnlib.functional import inclusion_log_odds

    without = inclusion_log_odds(mean.double().square(), prior)
    assert torch.equal(without.argsort(dim=1, stable=True), mean.double().abs().argsort(dim=1, stable=True))
    assert x.shape == (2, 2_000, 10)


def test_the_error_is_that_of_the_mean_weights_against_the_teacher():
    cell = smoke("sbnn-orders")
    model, x = orders.trained(cell, CPU, None)
    with torch.no_grad():
        error = (model.mean_forward(x) - orders.teacher(x)).square().mean(dim=(1, 2)).sqrt()
    rows = orders.run_orders(cell, CPU, None).rows
    found = [row["value"] for row in rows if (row["method"], row["metric"]) == ("by p*", "rmse_test_at_0")]
    assert found == pytest.approx(error.tolist(), rel=1e-6)


def test_replicates_have_data_of_their_own():
    (x, y, test_x), (other, *_) = orders.data_set(0), orders.data_set(1)
    assert not torch.equal(x, other) and (x.shape, y.shape, test_x.shape) == ((400, 10), (400, 1), (2_000, 10))
    assert np.std((y - orders.teacher(x)).numpy()) == pytest.approx(orders.NOISE, rel=0.15)  # 4 standard errors of 400

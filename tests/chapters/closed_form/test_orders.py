"""The lesson's network pruned in three orders, and what the start of the means leaves as it was."""

import copy
import math

import numpy as np
import pytest
import torch

from bnnlib.nn import to_bayesian
from chapters.closed_form.experiments import orders, start
from chapters.closed_form.experiments.networks import prior_of
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


def test_a_smaller_start_computes_the_same_with_fewer_weights_beyond_the_threshold():
    network = start.network(784, 16, 0)
    assert sum(p.numel() for p in network.parameters()) == 784 * 16 + 16 * 16 + 16 * 10 + 10 + 4 * 16
    smaller, x = copy.deepcopy(network), torch.rand(64, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    start.shrink(smaller, 0.5)
    torch.testing.assert_close(smaller(x), network(x), rtol=0, atol=5e-3)  # the epsilon of batch norm, 1e-5
    assert torch.equal(smaller[1].weight, 0.5 * network[1].weight) and torch.equal(
        smaller[-1].weight, network[-1].weight
    )
    begun = [
        start.in_slab(to_bayesian(one, "gaussian_spike_slab", unsupported="keep", **prior_of(start.PRIOR)))
        for one in (network, smaller)
    ]
    threshold = math.sqrt(2 * 5 / (math.exp(10) - 1))
    expected = (network[1].weight.square() + 0.002**2).sqrt() > threshold
    assert torch.equal(begun[0][: expected.numel()], expected.flatten())
    assert begun[0].float().mean() > begun[1].float().mean()


def test_rows_are_finite():
    whole = start.run_start(smoke("sbnn-start"), CPU, None).rows
    assert all(math.isfinite(row["value"]) for row in whole)
    assert [row["setting"] for row in whole if row["metric"] == "begun_share"] == list(start.FACTORS)

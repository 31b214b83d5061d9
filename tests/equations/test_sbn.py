"""The equations of the chapter on Stochastic Batch Normalization, each checked by a number computed another way.

Here: the model, its bound, what prediction does, and the virtual batch. The approximation of the statistics, its
moments and the measures are in `test_sbn_moments.py`.
"""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import special
from torch import nn

from bnnlib import functional as bF
from bnnlib import nn as bnn
from chapters.batch_statistics.naive import predict_naive_batches
from chapters.batch_statistics.statistics import collect_statistics
from tests.seeded import normal
from tests.seeded import seeded as generator

EPS = 1e-5


def network(seed=0):
    """Two hidden layers with batch norm, gains and shifts away from 1 and 0, in double precision."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)
    ).double()
    for layer in (net[1], net[4]):
        nn.init.uniform_(layer.weight, 0.5, 2.0)
        nn.init.normal_(layer.bias)
    nn.init.normal_(net[6].weight, 0, 3)  # outputs that the statistics move
    return net


def by_hand(net, x, statistics=None):
    """Outputs and statistics in NumPy; with `statistics` given, they are used in place of those of x."""
    found = {}
    x = x.detach().numpy()
    for name, layer in net.named_children():
        if isinstance(layer, nn.Linear):
            x = x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        elif isinstance(layer, nn.BatchNorm1d):
            found[name] = statistics[name] if statistics else (x.mean(0), np.sqrt(x.var(0) + EPS))
            mean, scale = found[name]
            x = (x - mean) / scale * layer.weight.detach().numpy() + layer.bias.detach().numpy()
        else:
            x = np.tanh(x)
    return x, found


# equation: sbn-bn
@pytest.mark.parametrize("shape", [(8, 4), (8, 4, 5, 3)])
def test_batch_norm_in_training_and_in_prediction(shape):
    x, gain, shift = 2 * normal(*shape) + 1, normal(4, seed=1), normal(4, seed=2)
    rows = x.movedim(1, -1).reshape(-1, 4).numpy()
    layer = bnn.StochasticBatchNorm1d(4) if len(shape) == 2 else bnn.StochasticBatchNorm2d(4)
    layer.double().load_state_dict(layer.state_dict() | {"weight": gain, "bias": shift})
    trained = layer.train()(x).movedim(1, -1).reshape(-1, 4)
    expected = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + EPS) * gain.numpy() + shift.numpy()
    np.testing.assert_allclose(trained.detach(), expected, rtol=1e-10, atol=1e-10)
    # the running averages of one batch are its own statistics, without the bias of a start at zero
    layer.eval().weight_mode = "mean"
    np.testing.assert_allclose(layer(x).detach().movedim(1, -1).reshape(-1, 4), expected, rtol=1e-8, atol=1e-8)
    mean, log_scale = bF.batch_statistics(x, EPS)
    np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(log_scale, np.log(np.sqrt(rows.var(0) + EPS)), rtol=1e-10)
    np.testing.assert_allclose(
        bF.batch_norm(x, mean, log_scale.exp(), gain, shift).movedim(1, -1).reshape(-1, 4), expected, rtol=1e-10
    )


# equation: sbn-likelihood
def test_the_other_objects_enter_through_the_statistics_alone():
    net, x = network(), normal(6, 3)
    outputs = net.train()(x)
    whole, statistics = by_hand(net, x)
    np.testing.assert_allclose(outputs.detach(), whole, rtol=1e-9)
    for i in range(6):  # an object alone, with nothing but the numbers
        np.testing.assert_allclose(by_hand(net, x[i : i + 1], statistics)[0][0], whole[i], rtol=1e-12)
    collected = collect_statistics(net, [x])
    for name, (mean, scale) in statistics.items():
        np.testing.assert_allclose(collected[name][0][0], mean, rtol=1e-9)
        np.testing.assert_allclose(collected[name][1][0].exp(), scale, rtol=1e-9)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


# equation: sbn-predictive
def test_naive_monte_carlo_averages_over_all_mini_batches():
    net, train, x = network(1), normal(6, 3, seed=3), normal(2, 3, seed=4)
    draws = predict_naive_batches(net, x, train, 400, 4, generator=generator()).softmax(-1).numpy()
    for i in range(2):
        # the 20 ways to fill the other three seats, equally likely
        batches = [torch.cat([x[i : i + 1], train[list(others)]]) for others in itertools.combinations(range(6), 3)]
        exact = np.stack([softmax(by_hand(net, batch)[0])[0] for batch in batches])
        error = draws[:, i].std(0) / math.sqrt(400)
        assert exact.std(0).max() > 0.01  # the batch matters
        assert (np.abs(draws[:, i].mean(0) - exact.mean(0)) < 4 * error).all()
        seen = np.unique(draws[:, i, 0].round(9))
        np.testing.assert_allclose(seen, np.unique(exact[:, 0].round(9)), atol=2e-9)  # each of them, nothing else


def enumerated(net, x, y, size, detach=False):
    """log p(y_i | x_i, B) for all subsets B of a size, NaN where i is not in B, and the gradients of their steps."""
    parameters, rows, steps = list(net.parameters()), [], []
    for subset in itertools.combinations(range(len(x)), size):
        chosen = list(subset)
        values = x[chosen]
        for layer in net:
            if isinstance(layer, nn.BatchNorm1d):
                mean, scale = values.mean(0), (values.var(0, correction=0) + EPS).sqrt()
                mean, scale = (mean.detach(), scale.detach()) if detach else (mean, scale)
                values = (values - mean) / scale * layer.weight + layer.bias
            else:
                values = layer(values)
        each = -F.cross_entropy(values, y[chosen], reduction="none")
        steps.append(torch.autograd.grad(each.mean(), parameters, retain_graph=True))
        row = x.new_full((len(x),), torch.nan)
        rows.append(row.index_put((torch.tensor(chosen),), each))
    return torch.stack(rows), steps


# equation: sbn-bound, sbn-gradient
def test_a_training_step_estimates_the_gradient_of_a_lower_bound():
    net, x, y = network(2).train(), normal(6, 3, seed=5), torch.tensor([0, 1, 0, 1, 1, 0])
    parameters = list(net.parameters())
    log_p, _ = enumerated(net, x, y, 3)
    inside = [column[~column.isnan()] for column in log_p.T]
    assert [len(column) for column in inside] == [10] * 6
    marginal = torch.stack([column.exp().mean().log() for column in inside])
    bound = torch.stack([column.mean() for column in inside])
    assert (bound < marginal).all()
    exact = torch.autograd.grad(bound.mean(), parameters)

    def mean_step(function):
        steps = [torch.autograd.grad(function(list(B)), parameters) for B in itertools.combinations(range(6), 3)]
        return [torch.stack(parts).mean(0) for parts in zip(*steps, strict=True)]

    # the steps of PyTorch's own batch norm, loss and backward pass
    ordinary = mean_step(lambda B: -F.cross_entropy(net(x[B]), y[B]))
    torch.testing.assert_close(ordinary, exact, rtol=1e-9, atol=1e-10)
    # through constants in place of the statistics it would be another gradient
    _, held = enumerated(net, x, y, 3, detach=True)
    first = torch.stack([step[0] for step in held]).mean(0)
    assert (first - exact[0]).abs().max() > 0.01


def unit(location, log_scale, spread, log_scale_spread, gain=3.0, shift=0.5):
    """A layer of one feature whose moments are given, followed by a logistic output."""
    layer = bnn.StochasticBatchNorm1d(1).double().eval()
    with torch.no_grad():
        layer.weight.fill_(gain)
        layer.bias.fill_(shift)
        layer.running_mean.fill_(location)
        layer.running_var.fill_(math.exp(2 * log_scale) - EPS)
        layer.running_mean_variance.fill_(spread**2)
        layer.running_log_scale_variance.fill_(log_scale_spread**2)
    layer._moment_count = 100
    return nn.Sequential(layer, nn.Sigmoid())


def averaged(x, location, log_scale, spread, log_scale_spread, gain=3.0, shift=0.5):
    """E sigmoid((x - mu) / sigma * gain + shift) under r(mu) r(sigma), by Gauss-Hermite quadrature."""
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    mu, sigma = location + spread * node[:, None], np.exp(log_scale + log_scale_spread * node[None])
    return weight @ special.expit((x - mu) / sigma * gain + shift) @ weight


R = (0.4, -0.3, 0.5, 0.4)


# equation: sbn-biased
def test_mean_mode_plugs_the_mean_statistics_in():
    net = unit(*R)
    for x in (-0.5, 0.4, 1.5):
        with bnn.mean_weights(net):
            plugged = net(torch.tensor([[x]], dtype=torch.float64)).item()
        assert plugged == pytest.approx(1 / (1 + math.exp(-((x - 0.4) / math.exp(-0.3) * 3 + 0.5))), rel=1e-9)
        assert abs(plugged - averaged(x, *R)) > 0.02 or x == 0.4
        # too sure: further from one half than the average
        assert abs(plugged - 0.5) > abs(averaged(x, *R) - 0.5)


# equation: sbn-delta
@pytest.mark.parametrize("x", [-0.5, 0.2, 1.5])
def test_the_bias_is_half_the_trace_of_covariance_and_curvature(x):
    location, scale = 0.4, 0.8

    def p(statistics):
        return torch.sigmoid((x - statistics[0]) / statistics[1] * 3 + 0.5)

    center = torch.tensor([location, scale], dtype=torch.float64)
    curvature = torch.autograd.functional.hessian(p, center)
    ratios = []
    for spread in (0.04, 0.02, 0.01):
        covariance = torch.tensor([[1.0, 0.3], [0.3, 0.5]], dtype=torch.float64) * spread**2
        node, weight = np.polynomial.hermite_e.hermegauss(40)
        weight = torch.from_numpy(np.outer(weight, weight) / weight.sum() ** 2)
        root = torch.linalg.cholesky(covariance)
        nodes = torch.from_numpy(np.stack(np.meshgrid(node, node, indexing="ij")))
        points = center[:, None, None] + torch.einsum("ij,jkl->ikl", root, nodes)
        exact = (weight * p(points)).sum() - p(center)
        ratios.append(float(exact / (0.5 * torch.trace(covariance @ curvature))))
    # what the expansion leaves out is of fourth order in the spread: a quarter at half the spread
    errors = [abs(ratio - 1) for ratio in ratios]
    assert errors[2] < 0.01 and errors[1] / errors[2] == pytest.approx(4, rel=0.1)
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)


# equation: sbn-virtual
def test_the_virtual_batch_converges_to_the_average_over_r():
    net, x = unit(*R), torch.tensor([[-0.5], [0.4], [1.5]], dtype=torch.float64)
    draws = bnn.predict_virtual_batch(net, x, 10_000, generator=generator())
    exact = np.array([averaged(value, *R) for value in x[:, 0].tolist()])
    error = draws.std(0)[:, 0] / math.sqrt(10_000)
    assert (np.abs(draws.mean(0)[:, 0].numpy() - exact) < 4 * error.numpy()).all()
    # copies are independent, and so are objects: correlations within 4 standard errors of 0
    centered = draws[:, :, 0] - draws[:, :, 0].mean(0)
    correlation = torch.corrcoef(centered.T)
    assert correlation.fill_diagonal_(0).abs().max() < 4 / math.sqrt(10_000)
    # one draw for all rows instead: the same average for each, but they move together
    shared = bnn.predict(net, x, 1_000, generator=generator(1))
    assert (np.abs(shared.mean(0)[:, 0].numpy() - exact) < 4 * shared.std(0)[:, 0].numpy() / math.sqrt(1_000)).all()
    assert torch.corrcoef(shared[:, :, 0].T)[0, 1] > 0.3


# equation: sbn-noise
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_common_noise_divides_the_margin_and_keeps_the_order(spread):
    margins = np.linspace(-10, 10, 201)
    node, weight = np.polynomial.hermite_e.hermegauss(120)
    exact = special.expit(margins[:, None] + spread * node) @ weight / weight.sum()
    # MacKay's approximation is within 0.02 for all margins and spreads
    assert np.abs(exact - special.expit(margins / math.sqrt(1 + math.pi * spread**2 / 8))).max() < 0.02
    assert (np.diff(exact) > 0).all()
    entropy = special.entr(exact) + special.entr(1 - exact)
    plain = special.entr(special.expit(margins)) + special.entr(special.expit(-margins))
    positive = margins > 0.05
    assert (np.diff(entropy[positive]) < 0).all() and (entropy >= plain - 1e-9).all()
    # exact for a sigmoid made of a normal distribution function of slope sqrt(pi / 8)
    slope = math.sqrt(math.pi / 8)
    probit = special.ndtr(slope * (margins[:, None] + spread * node)) @ weight / weight.sum()
    assert probit == pytest.approx(special.ndtr(slope * margins / math.sqrt(1 + slope**2 * spread**2)), abs=1e-6)

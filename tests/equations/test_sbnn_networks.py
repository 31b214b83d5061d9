"""The equations on networks in the chapter on closed-form inclusion probabilities: importance, pruning, minibatches,
simulations. Those of the prior and of the objective are in `test_sbnn.py`.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import nn

from bnnlib import functional as bF
from bnnlib import nn as bnn
from bnnlib import pruning
from chapters.closed_form.experiments import simulation_nets as sbnn_simulations_nets
from chapters.closed_form.experiments import simulations as sbnn_simulations
from chapters.closed_form.importance import feature_importance
from chapters.shared import simulated

SEED = 11


def network(sizes, generator, **settings):
    """A stack of layers whose weights and scales are spread over spike and slab."""
    layers = []
    for n_in, n_out in itertools.pairwise(sizes):
        layer = bnn.GaussianSpikeSlabLinear(n_in, n_out, slab_scale=1.0, spike_scale=0.1, **settings)
        with torch.no_grad():
            layer.weight.normal_(0, 0.3, generator=generator)
            layer.weight_rho.uniform_(-6, -1, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


# equation: sbnn-psi
@pytest.mark.parametrize("sizes", [(2, 2, 1), (4, 3, 5, 1), (3, 4, 2, 3, 2)])
def test_psi_is_the_mean_over_all_paths(sizes, generator):
    net = network(sizes, generator)
    P = [layer.inclusion_probability.double().numpy() for layer in bnn.bayesian_layers(net)]
    paths = itertools.product(*(range(size) for size in sizes))
    products: dict[int, list[float]] = {}
    for path in paths:
        steps = zip(P, itertools.pairwise(path), strict=True)
        products.setdefault(path[0], []).append(float(np.prod([layer[out, into] for layer, (into, out) in steps])))
    expected = [np.mean(products[j]) for j in range(sizes[0])]
    assert np.allclose(feature_importance(net), expected, rtol=1e-6)  # p* comes in single precision
    # as printed, with one output: the product of the matrices over the numbers of hidden units
    if sizes[-1] == 1:
        printed = np.linalg.multi_dot(P[::-1])[0] / np.prod(sizes[1:-1])
        assert np.allclose(expected, printed, rtol=1e-12)


# equation: sbnn-phi
def test_phi_is_psi_shifted_and_scaled(generator):
    psi = torch.rand(3, 7, generator=generator, dtype=torch.float64) * 1e-8
    expected = [(row - row.min()) / (row.max() - row.min()) for row in psi.numpy()]
    assert np.allclose(bF.scaled_importance(psi), expected, rtol=1e-10, atol=1e-12)


# equation: sbnn-minibatch
@pytest.mark.parametrize("M", [1, 2, 10, 469, 1500])
def test_the_shares_of_the_penalty_in_exact_arithmetic(M):
    halving = [Fraction(2 ** (M - i), 2**M - 1) for i in range(1, M + 1)]
    assert sum(halving) == 1
    # float64's relative precision, but for the shares that it can only hold as subnormal numbers
    assert np.allclose(bnn.minibatch_weights(M, "halving"), [float(r) for r in halving], rtol=1e-12, atol=1e-300)
    assert np.allclose(bnn.minibatch_weights(M), [1 / M] * M, rtol=1e-15)
    # the printed denominator, read as 2^(M-1), would not do
    assert M == 1 or sum(Fraction(2 ** (M - i), 2 ** (M - 1)) for i in range(1, M + 1)) > 1
    if M >= 10:
        assert sum(halving[:10]) > Fraction(999, 1000)


# equation: sbnn-minibatch
@pytest.mark.parametrize("scheme", ["uniform", "halving"])
def test_an_epoch_s_objectives_sum_to_the_whole(scheme, generator):
    net = network((3, 4, 1), generator).double()
    x, y = torch.randn(24, 3, generator=generator).double(), torch.randn(24, 1, generator=generator).double()

    @torch.no_grad()
    def misfit(rows):
        with bnn.mean_weights(net):
            return 0.5 * (net(x[rows]) - y[rows]).square().sum()

    batches = torch.arange(24).split(4)
    shares = bnn.minibatch_weights(len(batches), scheme)
    divergence = bnn.kl_divergence(net).item()
    total = sum(float(misfit(rows)) + float(r) * divergence for rows, r in zip(batches, shares, strict=True))
    assert total == pytest.approx(float(misfit(slice(None))) + divergence, rel=1e-12)


# equation: sbnn-snr, sbnn-sparsity
def test_what_each_order_removes(generator):
    net = network((6, 5, 1), generator)
    layers = bnn.bayesian_layers(net)
    mean = np.concatenate([part.detach().numpy().ravel() for layer in layers for part in layer.mean()])
    scale = np.concatenate([part.detach().numpy().ravel() for layer in layers for part in layer.scale()])
    by_hand = {"inclusion": mean**2 + scale**2, "signal_to_noise": abs(mean) / scale, "magnitude": abs(mean)}
    for by, score in by_hand.items():
        small = pruning.prune_ranked(net, 0.6, by=by)
        left = np.concatenate([parameter.detach().numpy().ravel() for parameter in small.parameters()])
        gone = np.sort(np.argsort(score)[: round(0.6 * len(score))])
        assert np.array_equal(np.flatnonzero(left == 0), gone)
        assert 1 - np.count_nonzero(left) / len(left) == pytest.approx(0.6, abs=0.5 / len(left))
    ratios = pruning.weight_scores(net, by="signal_to_noise")
    assert np.allclose(np.concatenate([r.numpy().ravel() for r in ratios.values()]), abs(mean) / scale, rtol=1e-5)


# equation: sbnn-influence
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_influence_by_its_limit(alpha, generator):
    x, y, _ = simulated.two_inputs(200_000, alpha, generator)
    influence = float(sbnn_simulations.influence(x, y, alpha))
    by_hand = 1 - float((y[:, 0] - alpha * x[:, 1]).double().square().sum() / y.double().square().sum())
    assert influence == pytest.approx(by_hand, abs=1e-5)
    # a ratio of two sums of 200,000 squares: its standard error is below 0.003
    assert influence == pytest.approx(alpha**2 / ((1 - alpha) ** 2 + alpha**2 + 1), abs=0.015)


# equation: sbnn-data
@pytest.mark.parametrize("function", ["linear", "nonlinear"])
def test_the_responses_are_the_sum_and_unit_noise(function, generator):
    x, y, f, effects = simulated.graded_regression(20_000, 6, 2.0, generator, function=function, activity=0.5)
    u = x.numpy()
    terms = u if function == "linear" else np.exp(np.abs(u)) - 2 * u + np.sin(2 * np.pi * u)
    assert set(np.round(effects.numpy() * 2.0 / np.arange(1, 7), 6)) <= {0.0, 1.0}
    # single precision, in a sum of six terms of up to a hundred
    assert np.allclose(f[:, 0], terms @ effects.numpy(), rtol=1e-4, atol=1e-3)
    noise = (y - f)[:, 0].numpy()
    assert stats.kstest(noise, "norm").pvalue > 1e-3
    assert stats.kstest(u[:, 2], "norm").pvalue > 1e-3
    # an input's contribution has the mean that quadrature gives; five standard errors
    mean = integrate.quad(lambda v: stats.norm.pdf(v) * (np.exp(abs(v)) - 2 * v + np.sin(2 * np.pi * v)), -12, 12)[0]
    if function == "nonlinear":
        assert abs(terms[:, 0].mean() - mean) < 5 * terms[:, 0].std() / len(u) ** 0.5


# equation: sbnn-selection
def test_the_top_fifth_and_its_accuracy(generator):
    phi = torch.rand(3, 50, generator=generator)
    active = torch.rand(3, 50, generator=generator) < 0.2
    kept = sbnn_simulations_nets.keep_top(phi, 0.2)
    chosen = phi.numpy() >= np.quantile(phi.numpy(), 0.8, axis=1, keepdims=True)
    expected = 100 * (chosen == active.numpy()).mean(axis=1)
    assert chosen.sum(axis=1).tolist() == [10, 10, 10]
    assert np.allclose(sbnn_simulations_nets.selection_accuracy(kept, active.float()), expected)

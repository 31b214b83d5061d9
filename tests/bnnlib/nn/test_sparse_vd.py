"""Sparse variational dropout: closed-form gradient, threshold, local reparameterisation."""

import pytest
import torch

from bnnlib import nn as bnn
from bnnlib.functional import sparse_vd_kl
from bnnlib.pruning import prune_ranked, weight_scores
from tests.seeded import seeded as generator


def layer_of():
    torch.manual_seed(0)
    layer = bnn.SparseVDLinear(6, 4, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_log_variance.uniform_(-12, 2, generator=generator(1))
        layer.weight[0, 0] = 0.0
    return layer


def test_divergence_is_the_sum_over_weights():
    layer = layer_of()
    torch.testing.assert_close(layer.kl_divergence(), sparse_vd_kl(layer.log_alpha()).sum(), rtol=1e-12, atol=0)


def test_noisy_weights_are_dropped_in_eval_and_mean_mode_only():
    layer, x = layer_of(), torch.eye(6, dtype=torch.float64)
    kept = layer.log_alpha() < 3
    assert kept.any() and not kept.all()
    with bnn.mean_weights(layer):
        torch.testing.assert_close(layer(x), (layer.weight * kept).T + layer.bias)
    weight, bias = layer.eval().draw(generator(2))
    assert torch.equal(weight != 0, kept) and bias is layer.bias
    assert (layer.train().draw(generator(2))[0] != 0).all()
    with torch.no_grad():
        outputs = torch.stack([layer.eval()(x, generator(seed)) for seed in range(200)])
        # an input whose weight is dropped passes the bias on, with no noise but the floor of 1e-6
        dropped = (outputs - layer.bias).permute(0, 2, 1)[:, ~kept]
    assert dropped.abs().max() < 1e-5
    assert layer.percent_active() == pytest.approx(100 * (kept.sum().item() + 4) / 28)


def test_the_ratio_of_mean_to_scale_ranks_as_alpha_does_and_leaves_biases():
    layer = layer_of()
    (scores,) = weight_scores(torch.nn.Sequential(layer), "signal_to_noise").values()
    alpha = layer.weight_log_variance.exp() / layer.weight.square()  # infinite at a mean of 0, which goes first
    assert torch.equal(scores.argsort(), (-alpha).argsort()) and scores[0, 0] == 0
    pruned = prune_ranked(torch.nn.Sequential(layer), 0.75, by="signal_to_noise")[0]
    kept = scores > scores.flatten().sort().values[17]
    assert torch.equal(pruned.weight != 0, kept & layer.active()[0]) and int(kept.sum()) == 6
    assert torch.equal(pruned.bias, layer.bias)

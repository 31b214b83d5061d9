"""Importance of inputs, groups, the acceptance test, quantiles of mixtures, and statistics of batches."""

import itertools
import math

import pytest
import torch

from bnnlib import functional as bF
from bnnlib.functional import input_inclusion, mixture_quantile, path_importance, path_inclusion, scaled_importance
from tests.seeded import double as t
from tests.seeded import normal


def layers(sizes, seed=0, batch=(), dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return [torch.rand(*batch, out, into, generator=g, dtype=dtype) for into, out in itertools.pairwise(sizes)]


def test_networks_of_a_batch_are_separate():
    stacked = layers((3, 4, 2), seed=2, batch=(2, 5))
    psi = path_importance(stacked)
    assert psi.shape == (2, 5, 3)
    for i, j in itertools.product(range(2), range(5)):
        torch.testing.assert_close(psi[i, j], path_importance([p[i, j] for p in stacked]), rtol=1e-13, atol=0)
    shared = path_importance([stacked[0], stacked[1][0, 0]])
    torch.testing.assert_close(shared[1, 2], path_importance([stacked[0][1, 2], stacked[1][0, 0]]))


def test_psi_stays_between_zero_and_one_at_any_depth():
    psi = path_importance(layers((6, *[50] * 200, 1), seed=3, dtype=torch.float32))
    # about 2^-201 each: a product of the unscaled matrices would be 25^200
    assert ((psi > 0) & (psi < 1e-50)).all() and psi.isfinite().all()
    assert torch.equal(path_importance([torch.ones(4, 3), torch.ones(2, 4)]), torch.ones(3, dtype=torch.float64))
    assert torch.equal(path_importance([torch.zeros(4, 3)]), torch.zeros(3, dtype=torch.float64))


def test_gradients_reach_every_layer():
    probabilities = [p.requires_grad_() for p in layers((3, 4, 2, 1))]
    assert torch.autograd.gradcheck(lambda *p: path_importance(p), probabilities)


def test_equally_important_inputs_get_zero():
    for value in (0.0, 0.3, 1.0):
        assert torch.equal(scaled_importance(torch.full((2, 5), value)), torch.zeros(2, 5))
    assert scaled_importance(torch.tensor([0.7])).tolist() == [0.0]
    mixed = scaled_importance(torch.tensor([[0.2, 0.2], [0.2, 0.4]]))
    assert mixed.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    psi = torch.tensor([0.5, 0.5], requires_grad=True)
    scaled_importance(psi).sum().backward()
    assert psi.grad.isfinite().all()


def _joined(layers):
    """P(a path of open gates joins an input to an output), by all states of the gates."""
    flat = torch.cat([layer.flatten() for layer in layers]).double()
    total = torch.zeros(layers[0].shape[1], dtype=torch.float64)
    for state in itertools.product((0.0, 1.0), repeat=len(flat)):
        gates = torch.tensor(state, dtype=torch.float64)
        probability = torch.where(gates > 0, flat, 1 - flat).prod()
        parts = iter(gates.split([layer.numel() for layer in layers]))
        reach = None
        for layer in layers:
            gate = next(parts).view_as(layer)
            reach = gate if reach is None else gate @ reach
        total += probability * (reach.sum(dim=0) > 0)
    return total


def test_inclusion_of_inputs_is_exact_where_gates_are_enumerated():
    generator = torch.Generator().manual_seed(0)
    first, last = torch.rand(3, 2, generator=generator), torch.rand(1, 3, generator=generator)
    torch.testing.assert_close(input_inclusion(first), _joined([first]))
    torch.testing.assert_close(path_inclusion([first, last]), _joined([first, last]))


def test_path_inclusion_is_a_bound_where_paths_are_shared():
    generator = torch.Generator().manual_seed(1)
    layers = [torch.rand(*shape, generator=generator) for shape in ((2, 2), (2, 2), (1, 2))]
    exact, bound = _joined(layers), path_inclusion(layers)
    assert (bound >= exact).all() and (bound <= input_inclusion(layers[0])).all()
    assert (bound - exact).max() < 0.1  # shared gates are few: the bound is near


def test_small_probabilities_of_many_weights_keep_their_digits():
    one = torch.full((1000, 1), 1e-12, dtype=torch.float64)
    assert input_inclusion(one).item() == pytest.approx(1e-9, rel=1e-9)
    assert input_inclusion(torch.ones(2, 3)).tolist() == [1.0] * 3


@pytest.mark.parametrize("kind", ["input", "output", "kernel"])
@pytest.mark.parametrize("stack", [(), (2,), (2, 3)])
def test_groups_of_a_convolution_broadcast_and_cover_every_weight_once(kind, stack):
    weight = torch.randn(*stack, 4, 5, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    square, size = bF.group_mean_square(weight, kind, len(stack)), bF.group_size(weight, kind, len(stack))
    shape = {"input": (1, 5, 1, 1), "output": (4, 1, 1, 1), "kernel": (4, 5, 1, 1)}[kind]
    assert square.shape == (*stack, *shape)
    assert square.numel() * size == weight.numel()
    torch.testing.assert_close(square.sum() * size, weight.square().sum())
    if stack == (2,):
        assert torch.equal(square[0], bF.group_mean_square(weight[0], kind))
    spread = bF.group_range(weight, kind, len(stack))
    assert spread.shape == square.shape and (spread >= 0).all()


INF = math.inf


def test_the_test_at_the_ends():
    log_ratio = t(-INF, -1e6, 0.0, 1e-3, 1e6, INF)
    assert torch.equal(bF.acceptance_probability(log_ratio), t(0.0, 0.0, 1.0, 1.0, 1.0, 1.0))
    assert bF.acceptance_probability(t(math.nan)).isnan().all()  # for the caller to find
    assert bF.acceptance_probability(torch.tensor([200.0, -200.0])).isfinite().all()
    assert bF.conditional_cross_entropy(t(1e4, -1e4), t(1e4)).isfinite()  # of a discriminator that is sure


def test_the_acceptance_loss_has_no_gradient_where_all_is_accepted():
    log_ratio = t(-2.0, -0.5, 0.7).requires_grad_()
    bF.acceptance_rate_loss(log_ratio).backward()
    assert torch.allclose(log_ratio.grad, t(-math.exp(-2.0), -math.exp(-0.5), 0.0) / 3)


@pytest.mark.parametrize("components", [1, 30])
def test_the_mixture_has_the_probability_below_it(components):
    generator = torch.Generator().manual_seed(0)
    mean = 5.0 * torch.randn(components, 4, generator=generator, dtype=torch.float64)
    scale = 0.1 + torch.rand(components, 1, generator=generator, dtype=torch.float64)
    for probability in (0.001, 0.025, 0.5, 0.975):
        found = mixture_quantile(mean, scale, probability)
        below = torch.special.ndtr((found - mean) / scale).mean(dim=0)
        torch.testing.assert_close(below, torch.full_like(below, probability), rtol=1e-9, atol=0.0)


DOUBLE = torch.float64


def test_statistics_of_a_row_are_its_own():
    x, mean, scale, weight, bias = normal(5, 4, 3, 2), normal(5, 4, seed=1), normal(5, 4, seed=2).exp(), *normal(2, 4)
    whole = bF.batch_norm(x, mean, scale, weight, bias)
    rows = [bF.batch_norm(x[i : i + 1], mean[i], scale[i], weight, bias) for i in range(5)]
    torch.testing.assert_close(whole, torch.cat(rows), rtol=0, atol=0)


def test_narrow_types_are_normalized_in_the_statistics_type():
    x = (normal(8, 4).float() + 100.0).bfloat16()
    mean, scale = torch.full((4,), 100.0), torch.full((4,), 0.1)
    out = bF.batch_norm(x, mean, scale)
    assert out.dtype == torch.bfloat16
    # the only rounding is that of the result; in bfloat16 x * 10 - 1000 would be off by up to 4
    torch.testing.assert_close(out.float(), (x.float() - 100.0) / 0.1, rtol=2**-8, atol=1e-3)

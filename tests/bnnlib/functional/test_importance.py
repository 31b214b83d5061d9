"""Importance of inputs: batches and depth for psi, invariances of phi, and inclusion of inputs by enumeration."""

import itertools

import pytest
import torch

from bnnlib.functional import input_inclusion, path_importance, path_inclusion, scaled_importance


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


def test_phi_does_not_see_the_scale_of_psi():
    psi = torch.rand(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    phi = scaled_importance(psi)
    for factor in (1e-250, 1e-12, 1e12):
        torch.testing.assert_close(scaled_importance(factor * psi), phi, rtol=1e-12, atol=1e-14)
    # a power of two only moves the exponent; a shift by 1 rounds to 2e-16
    assert torch.equal(scaled_importance(0.25 * psi), phi)
    torch.testing.assert_close(scaled_importance(1 + psi), phi, rtol=0, atol=1e-14)


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

"""The distributions of a stack: which weights a scale reaches, masks, sparsity as the paper counts it."""

import pytest
import torch

from bnnlib.replicates import Layout, StackedHorseshoe, StackedInputHorseshoe, StackedSparseVD, StackedSpikeSlab
from tests.seeded import seeded as generator


def test_variational_dropout_drops_noisy_weights_in_eval_only():
    layout = Layout((6, 3, 1), 2)
    posterior = StackedSparseVD(layout, layout.kaiming_uniform(generator(), torch.float64))
    with torch.no_grad():
        posterior.weight_log_variance[:, ::3] = 5.0
    dropped = ~posterior.active()
    assert dropped.any() and not dropped[:, ~layout.weight_mask()].any()
    assert (posterior.eval().draw(generator())[dropped] == 0).all() and (posterior.mean()[dropped] == 0).all()
    assert (posterior.train().draw(generator())[dropped] != 0).all()


def test_horseshoe_scales_reach_the_weights_of_their_unit():
    layout = Layout((2, 3, 2, 1), 1)
    posterior = StackedHorseshoe(layout, torch.ones(1, layout.num_parameters, dtype=torch.float64))
    with torch.no_grad():
        posterior.unit_location.copy_(torch.arange(5.0)[None])
        posterior.layer_location.copy_(torch.tensor([[0.0, 10.0]]))
        for name in ("unit_log_scale", "layer_log_scale", "weight_rho"):
            getattr(posterior, name).fill_(-40.0)
    logs = [(w.log(), b.log()) for w, b in layout.layers(posterior.mean())]
    expected = [[0, 1, 2], [13, 14], [0]]
    for (w, b), values in zip(logs, expected, strict=True):
        values = torch.tensor(values, dtype=torch.float64)
        torch.testing.assert_close(w[0], values[:, None].expand_as(w[0]), atol=1e-9, rtol=0)
        torch.testing.assert_close(b[0, :, 0], values, atol=1e-9, rtol=0)


def test_horseshoe_units_below_the_threshold_are_off():
    layout = Layout((2, 3, 1), 1)
    posterior = StackedHorseshoe(layout, torch.ones(1, layout.num_parameters))
    with torch.no_grad():
        posterior.unit_location.copy_(torch.tensor([[-5.0, 0.0, -3.5]]))
    assert posterior.active_units().tolist() == [[False, True, False]]
    # two of three hidden units are off with their 3 weights and biases each: 6 of 13 parameters
    assert posterior.percent_active().item() == pytest.approx(100 * 7 / 13)


def test_scales_of_inputs_reach_the_weights_that_leave_them_and_switch_them_off():
    layout = Layout((3, 2, 1), 1)
    posterior = StackedInputHorseshoe(layout, torch.ones(1, layout.num_parameters, dtype=torch.float64))
    with torch.no_grad():
        posterior.unit_location.copy_(torch.tensor([[0.0, -1.0]]))
        posterior.input_location.copy_(torch.tensor([[0.0, 1.0, -2.5]]))
        for name in ("unit_log_scale", "layer_log_scale", "input_log_scale", "weight_rho"):
            getattr(posterior, name).fill_(-40.0)
    (weight, bias), (output, _) = layout.layers(posterior.mean())
    expected = torch.tensor([[0.0, 1.0, -2.5], [-1.0, 0.0, -3.5]], dtype=torch.float64)
    torch.testing.assert_close(weight[0].log(), expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(bias[0, :, 0].log(), expected[:, 0], atol=1e-9, rtol=0)
    assert (output == 1.0).all()
    # the threshold of 0.05 lies at -3.0
    (weight, bias), _ = layout.layers(posterior.active())
    assert weight[0].tolist() == [[True, True, True], [True, True, False]] and bias.all()
    assert posterior.active_inputs().tolist() == [[True, True, True]]
    with torch.no_grad():
        posterior.input_location[:, 2] = -3.5
    assert posterior.active_inputs().tolist() == [[True, True, False]]
    assert posterior.active_units().all()


@pytest.mark.parametrize("kind", [StackedSpikeSlab, StackedSparseVD, StackedHorseshoe, StackedInputHorseshoe])
def test_all_that_a_stack_adds_is_trained(kind):
    layout = Layout((3, 4, 1), 2)
    settings = (0.1, 1.0) if kind is StackedSpikeSlab else ()
    posterior = kind(layout, layout.kaiming_uniform(generator()), *settings)
    (posterior.draw(generator()).sum() + posterior.kl_divergence().sum()).backward()
    assert all(p.requires_grad and p.grad is not None for p in posterior.parameters())

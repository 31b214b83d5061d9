"""Stacks under dropout: a mask for every row in training, one network a draw in prediction, moments by hand."""

import math

import pytest
import torch

from bnnlib.replicates import Layout, StackedMLP
from chapters.closed_form.dropout import StackedDropout
from tests.seeded import seeded as generator


def posterior_of(sizes=(5, 8, 2), probability=0.3, inputs=False, replicates=3):
    layout = Layout(sizes, replicates)
    return StackedDropout(layout, layout.kaiming_uniform(generator(), torch.float64), probability, inputs)


@pytest.fixture
def x():
    return torch.randn(6, 5, dtype=torch.float64, generator=generator(1))


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["each row", "one network"])
def test_outputs_of_a_linear_network_have_the_moments_of_dropout(draw, x):
    """Mean w x, variance of sum_j w_j x_j z_j / (1 - p): the same for one row by itself in both uses."""
    rates = torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64)
    stack, n, noise = StackedMLP(posterior_of((5, 2), rates, inputs=True)), 5000, generator(2)
    if draw == "each row":
        stack.train()
        with torch.no_grad():
            outputs = torch.stack([stack(x, noise) for _ in range(n)])
    else:
        outputs = stack.predict(x, n, noise)
    ((weight, _),) = stack.posterior.layout.layers(stack.posterior.mean())
    odds = (rates / (1 - rates)).view(3, 1, 1)
    variance = odds * x.square() @ weight.square().transpose(1, 2)
    # five standard errors; a variance of five dropped terms has kurtosis below 12
    assert ((outputs.mean(dim=0) - stack.mean_forward(x)).abs() < 5 * (variance / n).sqrt()).all()
    assert ((outputs.var(dim=0) / variance - 1).abs() < 5 * (12 / n) ** 0.5).all()


def test_rows_are_dropped_separately_in_training_and_together_in_a_draw(x):
    stack = StackedMLP(posterior_of(), "tanh")
    same = x[:1].expand(40, 5)
    outputs = stack.train()(same, generator(1))
    assert all(len(outputs[r].unique(dim=0)) > 20 for r in range(3))  # of 2^8 masks, 40 drawn
    draws = stack.predict(same, 8, generator(1))
    torch.testing.assert_close(draws, draws[:, :, :1].expand_as(draws), rtol=1e-12, atol=1e-13)
    assert len(draws[:, 0, 0].unique(dim=0)) > 5
    stack.eval()
    assert torch.equal(stack(x, generator(3)), stack(x, generator(3)))
    assert not torch.equal(stack(x, generator(3)), stack(x, generator(4)))


@pytest.mark.parametrize("inputs", [False, True])
def test_a_draw_zeroes_whole_columns_and_scales_up_the_rest(inputs):
    posterior = posterior_of((200, 100, 1), 0.3, inputs)
    drawn = posterior.layout.layers(posterior.draw(generator(1)))
    means = posterior.layout.layers(posterior.mean())
    for index, ((weight, bias), (mean, bias_mean)) in enumerate(zip(drawn, means, strict=True)):
        assert torch.equal(bias, bias_mean)
        dropped = (weight == 0).all(dim=1, keepdim=True)
        if not index and not inputs:
            assert torch.equal(weight, mean)
            continue
        torch.testing.assert_close(weight, torch.where(dropped, 0.0, mean / 0.7))
        count = dropped.numel()  # 600 inputs or 300 units: five standard errors of a share
        assert dropped.double().mean().item() == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / count))
        # the replicates drop different units
        assert not torch.equal(dropped[0], dropped[1])


def test_training_drops_inputs_only_when_asked_to(x):
    first = posterior_of((5, 2), 0.5, inputs=False)
    stack = StackedMLP(first).train()
    torch.testing.assert_close(stack(x, generator()), stack.mean_forward(x), rtol=1e-13, atol=1e-14)
    first.inputs = True
    assert not torch.allclose(stack(x, generator()), stack.mean_forward(x))


def test_a_probability_for_each_replicate(x):
    stack = StackedMLP(posterior_of(probability=torch.tensor([0.0, 0.9, 0.0], dtype=torch.float64)), "tanh")
    for output in (stack.train()(x, generator()), stack.eval()(x, generator())):
        expected = stack.mean_forward(x)
        torch.testing.assert_close(output[[0, 2]], expected[[0, 2]], rtol=1e-13, atol=1e-14)
        assert not torch.allclose(output[1], expected[1])

"""Draws by key in one pass over the weights: the draws, gates and gradients of the formulas that they stand for."""

import copy

import pytest
import torch
from torch import nn

from bnnlib import _native
from bnnlib import nn as bnn
from bnnlib.nn import kl_gradient, redraw
from bnnlib.posteriors import fused
from bnnlib.replicates import Layout, StackedGaussian, StackedSpikeSlab
from tests.seeded import seeded

pytestmark = pytest.mark.skipif(not _native.available(), reason="there is no C++ compiler")
GATED = {"prior_inclusion_probability": 1e-7, "initial_inclusion_probability": 0.6, "prior_scale": 0.7}
LAYERS = {
    "gaussian": lambda: bnn.GaussianLinear(33, 21, prior_scale=0.5),
    "spike-slab": lambda: bnn.SpikeSlabLinear(33, 21, **GATED, temperature=0.3),
    "gaussian, convolution": lambda: bnn.GaussianConv2d(3, 7, 3),
    "spike-slab, convolution": lambda: bnn.SpikeSlabConv2d(3, 7, 3, **GATED),
    "channels last": lambda: bnn.SpikeSlabConv2d(3, 7, 3, **GATED).to(memory_format=torch.channels_last),
    "horseshoe": lambda: bnn.HorseshoeLinear(33, 21),
    "closed form": lambda: bnn.GaussianSpikeSlabLinear(33, 21, slab_scale=1.0, spike_scale=0.01),
    "mixture": lambda: bnn.ScaleMixtureLinear(33, 21, slab_scale=1.0, spike_scale=0.01),
}
layers = pytest.mark.parametrize("name", LAYERS)


def layer_of(name):
    """A layer with parameters from everywhere that training may lead."""
    torch.manual_seed(0)
    layer = LAYERS[name]()
    with torch.no_grad():
        for key, parameter in layer.named_parameters():
            ends = None
            if key.endswith("_rho"):
                parameter.copy_(4.0 * torch.randn_like(parameter) - 3.0)
                ends = [-79.0, -30.0, 20.0]
            elif key.endswith("_logit"):
                parameter.copy_(4.0 * torch.randn_like(parameter))
                ends = [-80.0, 80.0, 40.0]
            if ends is not None:
                parameter[(slice(None), *(0,) * (parameter.dim() - 1))][:3] = torch.tensor(ends)
    return layer


def draws_and_gradients(layer, objective, used=True):
    """One keyed draw, and the gradients of `objective(draws)`; `used` says which way they must have gone."""
    layer.zero_grad()
    with redraw(layer, seed=3, step=4):
        drawn = [value for value in layer.draw(layer._noise(None)) if value is not None]
        names = {type(value.grad_fn).__name__ for value in drawn}
        if used is not None:
            assert any("ByKey" in name for name in names) == used or "Horseshoe" in type(layer).__name__
        objective(layer, drawn).backward()
    return [value.detach() for value in drawn], [p.grad for p in layer.parameters()]


def assert_close(found, expected, tolerance=2e-6):
    """Up to some thirty roundings of 6e-8 of each tensor's largest entry: what cancels leaves those of its terms."""
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            scale = float(other.detach().abs().max())
            torch.testing.assert_close(one.to(other.dtype) / scale, other / scale, rtol=tolerance, atol=tolerance)


def pulled(values):
    generator = seeded(1)
    return sum((torch.randn(value.shape, generator=generator).to(value) * value).sum() for value in values)


OBJECTIVES = {
    "both": lambda layer, drawn: pulled(drawn) + 0.01 * kl_gradient(layer),
    "weights alone": lambda layer, drawn: pulled(drawn),
    "divergence alone": lambda layer, drawn: 0.01 * kl_gradient(layer),
}


@layers
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_draws_and_gradients_are_those_of_the_formulas(name, objective):
    layer = layer_of(name)
    found = draws_and_gradients(layer, OBJECTIVES[objective])
    exact = copy.deepcopy(layer).double()  # by the formulas, and with the same noise
    expected = draws_and_gradients(exact, OBJECTIVES[objective], used=False)
    for one, other in zip(found[0], expected[0], strict=True):
        assert torch.equal(one == 0, other == 0) and one.stride() == other.stride()  # the same gates are closed
    # the horseshoe's bound on its scales ends in a difference of its own
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, 2e-5 if name == "horseshoe" else 2e-6)


def both_ways(monkeypatch, run):
    """What `run` gives by the kernels, and by the formulas."""
    found = run()
    monkeypatch.setattr(fused, "fits", lambda *_: False)
    return found, run()


@pytest.mark.parametrize("name", ["gaussian", "spike-slab"])
def test_beyond_the_ends_of_the_scale_it_is_the_formulas_as_well(monkeypatch, name):
    layer = layer_of(name)
    with torch.no_grad():
        layer.weight_rho.view(-1)[:4] = torch.tensor([-120.0, -81.0, -torch.inf, 95.0])

    def ends():
        drawn, gradients = draws_and_gradients(layer, OBJECTIVES["both"], used=None)
        return [one.clone().view(-1)[:4] for one in (*drawn, *gradients)]

    assert_close(*both_ways(monkeypatch, ends))


@pytest.mark.parametrize("kind", [StackedGaussian, StackedSpikeSlab])
@pytest.mark.parametrize("each", [False, True])
def test_stacks_weigh_each_network_s_divergence(monkeypatch, kind, each):
    layout = Layout((5, 8, 1), replicates=3)
    settings = {"prior_inclusion_probability": 0.01} if kind is StackedSpikeSlab else {}
    stack = kind(layout, layout.kaiming_uniform(seeded(1)), **settings)
    factor = torch.tensor([[0.1], [0.2], [0.3]]) if each else 0.1

    def step():
        stack.zero_grad()
        with redraw(stack, seed=3):
            drawn = stack.draw(stack._noise(None))
            (pulled([drawn]) + stack.kl_gradient(factor)).backward()
        return [drawn.detach(), *(p.grad for p in stack.parameters())]

    assert_close(*both_ways(monkeypatch, step))


def test_what_the_kernels_do_not_know_is_left_to_the_formulas():
    layer = bnn.SpikeSlabLinear(6, 5, **GATED)
    odd = copy.deepcopy(layer)
    odd.weight = nn.Parameter(torch.randn(6, 5).t())
    for other in (copy.deepcopy(layer).double(), copy.deepcopy(layer).bfloat16(), odd):
        draws_and_gradients(other, OBJECTIVES["both"], used=False)
    torch.manual_seed(0)
    for source in (None, seeded(1)):
        assert not fused.fits(source, layer._groups())
    with redraw(layer, seed=1):
        assert fused.fits(layer._noise(None), layer._groups())
        assert torch.func.vmap(lambda x: layer(x), randomness="same")(torch.ones(3, 6)).shape == (3, 5)


@pytest.mark.parametrize("name", ["gaussian", "spike-slab"])
def test_nothing_that_is_not_a_number_is_hidden(name):
    for bad in dict(LAYERS[name]().named_parameters()):
        layer = layer_of(name)
        with torch.no_grad():
            layer.get_parameter(bad).view(-1)[3] = torch.nan
        drawn, gradients = draws_and_gradients(layer, OBJECTIVES["both"])
        own = drawn["bias" in bad]
        assert bool(own.view(-1)[3].isnan()) and int(own.isnan().sum()) == 1
        assert bool(dict(layer.named_parameters())[bad].grad.view(-1)[3].isnan())
        assert sum(int(gradient.isnan().sum()) for gradient in gradients) <= 3


def test_a_frozen_parameter_stays_and_the_others_move():
    layer = layer_of("spike-slab")
    layer.weight.requires_grad_(False)
    _, gradients = draws_and_gradients(layer, OBJECTIVES["both"])
    assert gradients[0] is None and all(gradient is not None for gradient in gradients[1:])


def test_threads_do_not_change_a_step(threads):
    layer, found = bnn.SpikeSlabLinear(300, 301, **GATED), []
    for number in (1, 2, 4):
        threads(number)
        drawn, gradients = draws_and_gradients(layer, lambda layer, drawn: drawn[0].sum() + kl_gradient(layer))
        found.append([*drawn, *(gradient.clone() for gradient in gradients)])
    torch.testing.assert_close(found[1:], found[:1] * 2, rtol=0, atol=0)


def test_between_the_passes_nothing_is_kept_but_parameters():
    layer, kept = layer_of("spike-slab"), []
    own = {parameter.data_ptr() for parameter in layer.parameters()}
    with redraw(layer, seed=1), torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        layer.draw(layer._noise(None))
    assert kept and {tensor.data_ptr() for tensor in kept} <= own


DRAWN_OUTPUTS = {
    "local": (lambda: bnn.GaussianLinear(33, 21, prior_scale=0.5, estimator="local"), (4, 33)),
    "local, without bias": (lambda: bnn.GaussianLinear(33, 21, bias=False, estimator="local"), (4, 33)),
    "local, convolution": (lambda: bnn.GaussianConv2d(3, 7, 3, estimator="local"), (2, 3, 6, 6)),
    "dropout": (lambda: bnn.SparseVDLinear(33, 21), (4, 33)),
    "dropout, convolution": (lambda: bnn.SparseVDConv2d(3, 7, 3), (2, 3, 6, 6)),
    "dropout, channels last": (lambda: bnn.SparseVDConv2d(3, 7, 3).to(memory_format=torch.channels_last), (2, 3, 6, 6)),
}


def outputs_and_gradients(layer, shape, objective="both", dtype=torch.float32):
    """Drawn outputs by key, and the gradients of an objective in input and parameters."""
    layer.zero_grad()
    x = torch.linspace(-1.0, 2.0, torch.Size(shape).numel(), dtype=dtype).reshape(shape)
    x[0] = 0.0  # whose outputs have no variance but the bias's
    x.requires_grad_()
    with redraw(layer, seed=3, step=4):
        output = layer(x)
        OBJECTIVES[objective](layer, [output]).backward()
    return output, [x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("name", DRAWN_OUTPUTS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_drawn_outputs_and_their_gradients_are_those_of_the_formulas(name, objective):
    torch.manual_seed(0)
    layer, shape = DRAWN_OUTPUTS[name][0](), DRAWN_OUTPUTS[name][1]
    with torch.no_grad():
        for key, parameter in layer.named_parameters():
            if key.endswith(("_rho", "_log_variance")):
                parameter.copy_(2.0 * torch.randn_like(parameter) - 3.0)
                parameter[(slice(None), *(0,) * (parameter.dim() - 1))][:4] = torch.tensor([-40.0, -15.0, 4.0, 8.0])
        layer.weight[0, 0], layer.weight[1, 0] = 0.0, 1e-9
    output, gradients = outputs_and_gradients(layer, shape, objective)
    assert "Local" in type(output.grad_fn).__name__
    exact = copy.deepcopy(layer).double()  # by the formulas, and with the same noise
    other, expected = outputs_and_gradients(exact, shape, objective, torch.float64)
    assert "Local" not in type(other.grad_fn).__name__ and output.stride() == other.stride()
    assert_close([output], [other])
    # an alpha beyond 1e8 is the quotient of numbers that have lost digits
    assert_close(gradients, expected, 1e-5)


@pytest.mark.parametrize("name", ["gaussian", "spike-slab", "local", "dropout"])
def test_second_derivatives_are_those_of_the_formulas(monkeypatch, name):
    torch.manual_seed(0)
    layer = DRAWN_OUTPUTS[name][0]() if name in DRAWN_OUTPUTS else layer_of(name)
    x, parameters = torch.linspace(-1.0, 2.0, 4 * 33).view(4, 33), dict(layer.named_parameters())
    with torch.no_grad():
        for key, parameter in parameters.items():
            if key.endswith("_rho"):
                parameter.clamp_(-6.0, 10.0)  # beyond, second derivatives of the divergence leave float32

    def second():
        with redraw(layer, seed=3):
            drawn = [layer(x)] if name in DRAWN_OUTPUTS else layer.draw(layer._noise(None))
            loss = sum(value.square().sum() for value in drawn) + 0.01 * kl_gradient(layer)
            first = torch.autograd.grad(loss, [*parameters.values()], create_graph=True)
            return torch.autograd.grad(sum(one.square().sum() for one in first), [*parameters.values()])

    # the draws differ by roundings, which each derivative enlarges
    assert_close(*both_ways(monkeypatch, second), tolerance=1e-4)


@pytest.mark.parametrize("name", ["local", "dropout"])
@pytest.mark.parametrize("frozen", ["weight", "spread"])
def test_a_frozen_half_of_drawn_outputs_has_no_gradient(monkeypatch, name, frozen):
    torch.manual_seed(0)
    layer = DRAWN_OUTPUTS[name][0]()
    for key, parameter in layer.named_parameters():
        parameter.requires_grad_((key == "weight") == (frozen == "spread"))
    found = both_ways(monkeypatch, lambda: outputs_and_gradients(layer, (4, 33))[1])
    assert_close(*found, tolerance=1e-5)

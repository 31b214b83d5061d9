"""torch.compile: noise stays outside the compiled regions, so draws stay independent and repeatable."""

import shutil
import warnings
from contextlib import nullcontext

import pytest
import torch

from benchmarks.peers import Encoder, Recurrent, batch
from bnnlib import nn as bnn
from bnnlib.functional import scale_mixture_grad_sample
from tests.seeded import seeded

pytestmark = pytest.mark.slow


def test_a_compiled_scale_mixture_estimates_its_divergence_at_fresh_noise(x):
    """The compiler sees no token of the draw: the estimate is as unbiased, at noise of its own."""
    torch.manual_seed(0)
    layer = bnn.ScaleMixtureLinear(5, 4, slab_scale=1.0, spike_scale=0.1, initial_scale=0.1, dtype=torch.float64)
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="aot_eager")
    expected = layer(x, seeded(1))
    layer.zero_grad()
    bnn.kl_gradient(layer).backward()  # takes the eager pass's token away
    layer.zero_grad()
    source = seeded(1)
    with bnn.use_generator(source):
        torch.testing.assert_close(compiled(x), expected, rtol=1e-12, atol=1e-13)
        divergence = bnn.kl_gradient(layer)
    assert divergence.item() == 0.0
    divergence.backward()
    replay = seeded(1)
    _, _, *fresh = (torch.empty_like(p).normal_(generator=replay) for p in (layer.weight, layer.bias) * 2)
    for (mean, rho), noise in zip(layer._groups(), fresh, strict=True):
        scale = torch.nn.functional.softplus(rho.detach())
        d_mean, d_scale = scale_mixture_grad_sample(mean.detach(), scale, noise, layer._prior)
        torch.testing.assert_close(mean.grad, d_mean, rtol=1e-11, atol=1e-13)
        torch.testing.assert_close(rho.grad, d_scale * torch.sigmoid(rho.detach()), rtol=1e-11, atol=1e-13)


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler on a CPU")
def test_compiled_steps_equal_eager_steps(x):
    import torch._inductor.config as inductor

    torch.manual_seed(0)
    layer = bnn.SpikeSlabLinear(5, 4, prior_inclusion_probability=1e-3, dtype=torch.float64)

    def gradients(model):
        with bnn.use_generator(seeded(1)):
            loss = model(x).square().mean() + bnn.kl_gradient(layer) / 10
        return torch.autograd.grad(loss, list(layer.parameters()))

    torch.compiler.reset()
    with inductor.patch(compile_threads=1):  # others would import PyTorch in processes of their own
        compiled = torch.compile(layer, backend="inductor")
        # fused kernels round differently
        torch.testing.assert_close(gradients(compiled), gradients(layer), rtol=1e-9, atol=1e-12)
        assert not torch.equal(compiled(x), compiled(x))


# modules that are converted parameter by parameter


def converted(network):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bnn.to_bayesian(network(), initial_scale=0.1), batch((5, 8))[0]


def recurrence_allowed(network):
    """PyTorch compiles no `nn.LSTM`, of its own or converted, unless this setting allows it."""
    import torch._dynamo

    return torch._dynamo.config.patch(allow_rnn=True) if network is Recurrent else nullcontext()


@pytest.mark.parametrize("network", [Encoder, Recurrent])
def test_one_compiled_graph_is_the_step_itself(network):
    model, x = converted(network)

    def step(x):
        return model(x).square().mean() + bnn.kl_gradient(model) / len(x)

    found = []
    torch.compiler.reset()
    with recurrence_allowed(network):
        for one in (step, torch.compile(step, fullgraph=True, backend="eager")):
            torch.manual_seed(3)
            model.zero_grad()
            loss = one(x)
            loss.backward()
            found.append((loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}))
    torch.testing.assert_close(*found)
    # the graph has left nothing behind
    assert not torch.equal(model(x), model(x))
    with bnn.mean_weights(model):
        assert torch.equal(model(x), model(x))


def test_contexts_hold_where_breaks_are_allowed():
    model, x = converted(Recurrent)  # the one that breaks
    torch.compiler.reset()
    step = torch.compile(lambda x: model(x), backend="eager")
    with bnn.mean_weights(model):
        torch.testing.assert_close(step(x), model(x))
    assert not torch.equal(step(x), step(x))

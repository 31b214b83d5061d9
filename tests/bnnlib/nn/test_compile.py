"""torch.compile: noise stays outside the compiled regions, so draws stay independent and repeatable."""

import shutil

import pytest
import torch

from bnnlib import nn as bnn
from bnnlib.functional import scale_mixture_grad_sample

pytestmark = pytest.mark.slow


def check(network, x, backend):
    torch.compiler.reset()
    compiled = torch.compile(network, backend=backend)

    def gradients(model):
        network.zero_grad(set_to_none=True)
        with bnn.use_generator(torch.Generator().manual_seed(1)):
            (model(x).square().mean() + bnn.kl_gradient(network) / 10).backward()
        return [p.grad.clone() for p in network.parameters()]

    for ours, theirs in zip(gradients(compiled), gradients(network), strict=True):
        # fused kernels round differently
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    assert not torch.equal(compiled(x), compiled(x))


def test_a_compiled_scale_mixture_estimates_its_divergence_at_fresh_noise(x):
    """The compiler sees no token of the draw: the estimate is as unbiased, at noise of its own."""
    torch.manual_seed(0)
    layer = bnn.ScaleMixtureLinear(5, 4, slab_scale=1.0, spike_scale=0.1, initial_scale=0.1, dtype=torch.float64)
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="aot_eager")
    expected = layer(x, torch.Generator().manual_seed(1))
    layer.zero_grad()
    bnn.kl_gradient(layer).backward()  # takes the eager pass's token away
    layer.zero_grad()
    source = torch.Generator().manual_seed(1)
    with bnn.use_generator(source):
        torch.testing.assert_close(compiled(x), expected, rtol=1e-12, atol=1e-13)
        divergence = bnn.kl_gradient(layer)
    assert divergence.item() == 0.0
    divergence.backward()
    replay = torch.Generator().manual_seed(1)
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
    with inductor.patch(compile_threads=1):  # others would import PyTorch in processes of their own
        check(bnn.SpikeSlabLinear(5, 4, prior_inclusion_probability=1e-3, dtype=torch.float64), x, "inductor")

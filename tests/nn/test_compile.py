"""torch.compile: noise stays outside the compiled regions, so draws stay independent and repeatable."""

import shutil

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn

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


def test_every_layer_can_be_traced(x):
    torch.manual_seed(0)
    network = nn.Sequential(
        bnn.GaussianLinear(5, 4),
        bnn.GaussianLinear(4, 4, estimator="local"),
        bnn.GaussianLinear(4, 4, estimator="flipout"),
        bnn.SparseVDLinear(4, 4),
        bnn.HorseshoeLinear(4, 4),
        bnn.SpikeSlabLinear(4, 2, prior_inclusion_probability=1e-3),
    )
    check(network.double(), x, "aot_eager")


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler on a CPU")
def test_compiled_steps_equal_eager_steps(x):
    torch.manual_seed(0)
    check(bnn.SpikeSlabLinear(5, 4, prior_inclusion_probability=1e-3, dtype=torch.float64), x, "inductor")

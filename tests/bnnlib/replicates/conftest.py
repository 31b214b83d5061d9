"""A stack of three small networks under every posterior."""

import pytest
import torch

from bnnlib import replicates

SIZES, REPLICATES = (5, 4, 3, 2), 3
POSTERIORS = {
    "deterministic": replicates.StackedDeterministic,
    "gaussian": lambda layout, weight: replicates.StackedGaussian(layout, weight, 1.3, 0.1),
    "spike-slab": lambda layout, weight: replicates.StackedSpikeSlab(layout, weight, [1e-200, 0.1, 0.3], 1.3),
    # a slab, a spike and a prior probability of its own for each replicate; means on both sides of the thresholds
    "gaussian-spike-slab": lambda layout, weight: replicates.StackedGaussianSpikeSlab(
        layout, weight, [1.0, 2.7, 0.5], [0.1, 0.05, 0.2], [0.5, 0.1, 0.9], 0.1
    ),
    "sparse-vd": replicates.StackedSparseVD,
    "horseshoe": lambda layout, weight: replicates.StackedHorseshoe(layout, weight, 0.7, 0.2, 1.1),
    "input-horseshoe": lambda layout, weight: replicates.StackedInputHorseshoe(
        layout, weight, 0.7, 0.2, 1.1, input_scale=0.6
    ),
}


def build(kind: str, activation: str = "tanh") -> replicates.StackedMLP:
    """The stack in float64, moved away from its special initial values."""
    generator = torch.Generator().manual_seed(0)
    layout = replicates.Layout(SIZES, REPLICATES)
    posterior = POSTERIORS[kind](layout, layout.kaiming_uniform(generator, torch.float64))
    with torch.no_grad():
        for p in posterior.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return replicates.StackedMLP(posterior, activation)


@pytest.fixture(params=list(POSTERIORS))
def stack(request) -> replicates.StackedMLP:
    """The stack under each posterior in turn."""
    return build(request.param)


# those with layers in bnnlib.nn, which has none with scales of inputs
BAYESIAN = [kind for kind in POSTERIORS if kind not in ("deterministic", "input-horseshoe")]


@pytest.fixture(params=BAYESIAN)
def bayesian_stack(request) -> replicates.StackedMLP:
    """The stack under each Bayesian posterior in turn."""
    return build(request.param)

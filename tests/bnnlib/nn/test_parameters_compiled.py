"""Modules that are converted parameter by parameter: compiled with breaks in the graph, and refused by `compress`."""

import warnings

import pytest
import torch

from benchmarks.peers import Encoder, Recurrent, batch
from bnnlib.nn import mean_weights, to_bayesian
from bnnlib.pruning import compress


def converted(network):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_bayesian(network(), initial_scale=0.1), batch((5, 8))[0]


@pytest.mark.slow
@pytest.mark.parametrize("network", [Encoder, Recurrent])
def test_it_trains_when_compiled_with_breaks(network):
    model, x = converted(network)
    torch.compiler.reset()
    step = torch.compile(lambda x: model(x), backend="eager")
    with mean_weights(model):
        torch.testing.assert_close(step(x), model(x))
    step(x).square().mean().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert gradients and all(g.isfinite().all() for g in gradients)
    assert not torch.equal(step(x), step(x))


@pytest.mark.parametrize("network", [Encoder, Recurrent])
def test_compress_refuses_it_with_its_name(network):
    model, x = converted(network)
    with pytest.raises((TypeError, ValueError), match="body"):
        compress(model, x)

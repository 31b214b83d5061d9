"""Modules that are converted parameter by parameter: one compiled graph, and refused by `compress` with their names."""

import warnings
from contextlib import nullcontext

import pytest
import torch

from benchmarks.peers import Encoder, Recurrent, batch
from bnnlib.nn import kl_gradient, mean_weights, to_bayesian
from bnnlib.pruning import compress


def converted(network):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_bayesian(network(), initial_scale=0.1), batch((5, 8))[0]


def recurrence_allowed(network):
    """PyTorch compiles no `nn.LSTM`, of its own or converted, unless this setting allows it."""
    import torch._dynamo

    return torch._dynamo.config.patch(allow_rnn=True) if network is Recurrent else nullcontext()


@pytest.mark.slow
@pytest.mark.parametrize("network", [Encoder, Recurrent])
def test_one_compiled_graph_is_the_step_itself(network):
    model, x = converted(network)

    def step(x):
        return model(x).square().mean() + kl_gradient(model) / len(x)

    found = []
    torch.compiler.reset()
    with recurrence_allowed(network):
        for one in (step, torch.compile(step, fullgraph=True, backend="eager")):
            torch.manual_seed(3)
            model.zero_grad()
            loss = one(x)
            loss.backward()
            found.append((loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}))
    (plain, gradients), (graph, others) = found
    torch.testing.assert_close(graph, plain)
    assert set(others) == set(gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient)
    # the graph has left nothing behind
    assert not torch.equal(model(x), model(x))
    with mean_weights(model):
        assert torch.equal(model(x), model(x))


@pytest.mark.slow
def test_pytorch_itself_refuses_a_recurrent_layer():
    plain, x = Recurrent(), batch((5, 8))[0]
    torch.compiler.reset()
    for model in (plain, converted(Recurrent)[0]):
        with pytest.raises(Exception, match="RNN, GRU, or LSTM"):
            torch.compile(model, fullgraph=True, backend="eager")(x)


@pytest.mark.slow
def test_contexts_hold_where_breaks_are_allowed():
    model, x = converted(Recurrent)  # the one that breaks
    torch.compiler.reset()
    step = torch.compile(lambda x: model(x), backend="eager")
    with mean_weights(model):
        torch.testing.assert_close(step(x), model(x))
    assert not torch.equal(step(x), step(x))


@pytest.mark.parametrize("network", [Encoder, Recurrent])
def test_compress_refuses_it_with_its_name(network):
    model, x = converted(network)
    with pytest.raises(TypeError, match=r"body.*converted parameter by parameter.*Leave it out of to_bayesian"):
        compress(model, x)

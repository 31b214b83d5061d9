"""Baselines of predictive uncertainty: deep ensembles and Monte Carlo dropout, with and without random layers."""

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from bnnlib._noise import use_generator
from bnnlib._overrides import evaluating
from bnnlib.nn.base import drawers
from bnnlib.nn.batch_moments import dropout_layers
from bnnlib.nn.predict import check_draws, one_sample


def _draws(model: nn.Module, x: Tensor, draws: dict, count: int, chunk_size: int, generator) -> list[Tensor]:
    """Outputs of the model under one draw for all rows after another."""
    return [torch.cat([*one_sample(model, x, draws, chunk_size, generator)]) for _ in range(count)]


@torch.no_grad()
def predict_ensemble(
    models: Sequence[nn.Module],
    x: Tensor,
    num_samples: int = 1,
    chunk_size: int = 1024,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Outputs of a deep ensemble (Lakshminarayanan, Pritzel and Blundell, 2017), each member once or with draws.

    A member that samples, with stochastic batch norm or Bayesian layers, gives `num_samples` outputs under one draw for
    all rows each; so does the combination "DE + SBN". A deterministic one, or one in mean mode, gives its output that
    many times, so that all members weigh the same, at the price of one pass.

    Args:
        models: networks trained from different initial weights; they run in `eval()` and their modes are restored.
        x: inputs, shape (batch, ...), on the models' device.
        num_samples: draws of a member.
        chunk_size: rows in one forward pass.
        generator: of the draws, on the models' device.

    Returns:
        Tensor (members * num_samples, batch, ...), member by member. For classifiers average the softmax.

    Raises:
        ValueError: there are no models, a count is below 1, or x has no rows.
        TypeError: a model does not return one tensor with a row for each input.

    Example:
        >>> members = [torch.nn.Linear(3, 1) for _ in range(5)]
        >>> predict_ensemble(members, torch.randn(8, 3)).shape
        torch.Size([5, 8, 1])
    """
    models = list(models)
    if not models:
        raise ValueError("models is empty, but an ensemble needs at least one network.")
    check_draws(x, num_samples, chunk_size)
    outputs: list[Tensor] = []
    for model in models:
        with evaluating(model):
            draws = drawers(model)
            outputs += _draws(model, x, draws, num_samples if draws else 1, chunk_size, generator)
        if not draws:
            outputs += outputs[-1:] * (num_samples - 1)
    return torch.stack(outputs)


@torch.no_grad()
def predict_dropout(
    model: nn.Module,
    x: Tensor,
    num_samples: int = 50,
    chunk_size: int = 1024,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Outputs with dropout active at test time, Monte Carlo dropout (Gal and Ghahramani, 2016).

    Every row gets a mask of its own. Layers that sample, such as stochastic batch norm, keep one draw for all rows of a
    sample ("DO + SBN"); in mean mode they are deterministic. The rest runs in `eval()`; modes are restored.

    Args:
        model: with dropout layers: PyTorch's, `bnnlib.models.Dropout`, or any whose class name has "Dropout" in it.
        x: inputs, shape (batch, ...), on the model's device.
        num_samples: S.
        chunk_size: rows in one forward pass.
        generator: of masks and draws, on the model's device. PyTorch's own layers know no generator: for them the
            global one is seeded from it inside this call, and restored.

    Returns:
        Tensor (S, batch, ...). For a classifier average the softmax.

    Raises:
        ValueError: a count is below 1, x has no rows, or the model has no dropout.
        TypeError: the model does not return one tensor with a row for each input.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        >>> predict_dropout(model, torch.randn(8, 3), num_samples=20).shape
        torch.Size([20, 8, 1])
    """
    check_draws(x, num_samples, chunk_size)
    layers = dropout_layers(model)
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no dropout layer, so all its outputs would be equal. Train it with dropout, "
            "or use bnnlib.nn.predict for a network with Bayesian layers."
        )
    with evaluating(model, training=layers), use_generator(generator), ExitStack() as stack:
        if generator is not None:
            stack.enter_context(torch.random.fork_rng([x.device] if x.is_cuda else []))
            torch.manual_seed(int(torch.randint(2**62, (), generator=generator, device=generator.device)))
        return torch.stack(_draws(model, x, drawers(model), num_samples, chunk_size, generator))

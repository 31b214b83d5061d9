"""The predictive distribution of a network with stochastic batch norm, by Monte Carlo in one pass."""

import torch
from torch import Tensor, nn

from bnnlib._noise import use_generator
from bnnlib._overrides import evaluating, overriding
from bnnlib.nn.batch_moments import stochastic_batch_norms
from bnnlib.nn.predict import _check_rows, check_draws


@torch.no_grad()
def predict_virtual_batch(
    model: nn.Module,
    x: Tensor,
    num_samples: int = 50,
    chunk_size: int = 1024,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Outputs under K draws of the statistics in one pass of a "virtual batch" of K copies, equation (sbn-virtual).

    Every copy of every object gets statistics of its own. The model runs in `eval()` and its modes are restored.

    Args:
        model: with stochastic batch norm whose moments are fitted.
        x: inputs, shape (batch, ...), on the model's device.
        num_samples: K.
        chunk_size: copies in one forward pass; it bounds the memory beyond the result.
        generator: of the statistics, on the model's device.

    Returns:
        Tensor (K, batch, ...). For a classifier average the softmax over the first dimension, not the outputs.

    Raises:
        ValueError: a count is below 1, x has no rows, there is no stochastic batch norm, or its moments are not fitted.
        TypeError: the model does not return one tensor with a row for each input.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), StochasticBatchNorm1d(4))
        >>> steps = match_moments(model, torch.randn(20, 16, 3))
        >>> predict_virtual_batch(model, torch.randn(8, 3), num_samples=10).shape
        torch.Size([10, 8, 4])
    """
    check_draws(x, num_samples, chunk_size)
    # rows by draws, so that an object's copies are neighbors and a chunk reads few objects
    numbers = torch.arange(len(x) * num_samples, device=x.device)
    outputs: list[Tensor] = []
    independent = {"draws": "object", "weight_mode": "sample", "held": None}
    layers = stochastic_batch_norms(model).values()
    with evaluating(model), overriding({layer: independent for layer in layers}), use_generator(generator):
        for chunk in numbers.split(chunk_size):
            outputs.append(model(x[chunk // num_samples]))
            _check_rows(outputs[-1], len(chunk))
    whole = torch.cat(outputs)
    return whole.reshape(len(x), num_samples, *whole.shape[1:]).transpose(0, 1).contiguous()

"""The predictive distribution of a batch-normalized network by its definition, a batch of training rows a draw."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bnnlib._checks import check_count
from bnnlib.nn.predict import _check_rows, check_draws
from chapters.batch_statistics.statistics import training_statistics


@torch.no_grad()
def predict_naive_batches(
    model: nn.Module,
    x: Tensor,
    train_x: Tensor,
    num_samples: int = 50,
    batch_size: int = 128,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Outputs in K mini-batches of training data each, equation (sbn-predictive), (7) of the paper, by Monte Carlo.

    A draw for an object is a forward pass of a batch of the object and `batch_size` - 1 training rows, drawn without
    replacement, with the batch's own statistics in all layers. It is exact up to the number of draws, for plain and for
    stochastic batch norm, and costs `batch_size` times the rows of `bnnlib.nn.predict_virtual_batch`. Dropout is off;
    running statistics and modes do not change.

    Args:
        model: with batch norm.
        x: objects, shape (batch, ...), on the model's device.
        train_x: training inputs, shape (rows, ...), at least `batch_size` - 1 of them.
        num_samples: K.
        batch_size: of training, at least 2.
        generator: of the mini-batches, on the device of `train_x`.

    Returns:
        Tensor (K, batch, ...).

    Raises:
        ValueError: a count is too small, x has no rows, shapes differ, or the model has no batch norm.
        TypeError: the model does not return one tensor with a row for each input.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        >>> predict_naive_batches(model, torch.randn(8, 3), torch.randn(64, 3), num_samples=10, batch_size=16).shape
        torch.Size([10, 8, 4])
    """
    check_draws(x, num_samples)
    check_count("batch_size", batch_size, minimum=2)
    if train_x.shape[1:] != x.shape[1:] or len(train_x) < batch_size - 1:
        raise ValueError(
            f"train_x has shape {tuple(train_x.shape)} and x {tuple(x.shape)}, but train_x must hold at least "
            f"batch_size - 1 = {batch_size - 1} rows of the same shape. Lower batch_size or pass more training rows."
        )
    outputs: list[Tensor] = []
    with training_statistics(model):
        for row in x.split(1):
            for _ in range(num_samples):
                others = train_x[_choose(len(train_x), batch_size - 1, generator, train_x.device)]
                output = model(torch.cat((row, others)))
                _check_rows(output, batch_size)
                outputs.append(output[0])
    whole = torch.stack(outputs)
    return whole.reshape(len(x), num_samples, *whole.shape[1:]).transpose(0, 1).contiguous()


def _choose(rows: int, number: int, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Distinct row numbers; on a CPU, for few of many rows, without a permutation of all of them.

    Elsewhere a look whether the numbers are distinct would wait for the device.
    """
    if number * number > rows or device.type != "cpu":
        return torch.randperm(rows, generator=generator, device=device)[:number]
    while True:
        chosen = torch.randint(rows, (number,), generator=generator, device=device)
        if len(chosen.unique()) == number:
            return chosen

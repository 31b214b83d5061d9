"""The predictive distribution of a batch-normalized network by its definition, a batch of training rows a draw.

And what lies between it and stochastic batch norm: real statistics that are stored, drawn together or apart.
"""

import torch
from torch import Tensor, nn

from bnnlib import functional as bF
from bnnlib._checks import check_count
from bnnlib._overrides import evaluating
from bnnlib.nn.predict import _check_rows, check_draws
from chapters.batch_statistics.statistics import training_statistics

TOGETHER = ("all", "layer", "nothing")


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


@torch.no_grad()
def predict_stored_batches(
    model: nn.Module,
    x: Tensor,
    stored: dict[str, tuple[Tensor, Tensor]],
    num_samples: int = 50,
    together: str = "all",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Outputs under statistics of real mini-batches that do not hold the object; every copy of a row has its own draw.

    Args:
        model: with plain batch norm.
        x: objects, shape (batch, ...).
        stored: of `collect_statistics`.
        num_samples: K.
        together: "all" statistics of a draw are of one mini-batch; those of a "layer" are, each layer of another one;
            "nothing" takes each statistic of each unit from a mini-batch of its own.
        generator: of the choice.

    Returns:
        Tensor (K, batch, ...).

    Raises:
        ValueError: x has no rows, K is below one, or `together` is unknown.
    """
    check_draws(x, num_samples)
    if together not in TOGETHER:
        raise ValueError(f"together is {together!r}, but statistics are drawn together by one of {TOGETHER}.")
    copies = x.repeat_interleave(num_samples, 0)
    number = len(next(iter(stored.values()))[0])

    def choice(units: int) -> Tensor:
        return torch.randint(number, (len(copies), units), generator=generator, device=x.device)

    batch, chosen = choice(1), {}
    for name, parts in stored.items():
        units = parts[0].shape[1]
        batch = choice(1) if together == "layer" else batch
        picks = [choice(units) if together == "nothing" else batch.expand(-1, units) for _ in parts]
        mean, log_scale = (part.gather(0, pick) for part, pick in zip(parts, picks, strict=True))
        chosen[model.get_submodule(name)] = mean, log_scale.exp()

    def hook(layer: nn.modules.batchnorm._BatchNorm, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return bF.batch_norm(inputs[0], *chosen[layer], layer.weight, layer.bias)

    handles = [layer.register_forward_hook(hook) for layer in chosen]
    try:
        with evaluating(model):
            output = model(copies)
    finally:
        for handle in handles:
            handle.remove()
    return output.unflatten(0, (-1, num_samples)).transpose(0, 1)

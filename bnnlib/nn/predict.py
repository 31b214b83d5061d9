"""Posterior predictive draws of a model, in bounded memory."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib._checks import check_count
from bnnlib._overrides import evaluating
from bnnlib.nn.base import bayesian_layers, drawers, one_draw
from bnnlib.nn.calls import noticing_uncalled


@torch.no_grad()
def predict(
    model: nn.Module,
    x: Any,
    num_samples: int = 30,
    chunk_size: int = 1024,
    generator: torch.Generator | None = None,
    draws_at_once: int | str = 1,
) -> Tensor:
    """Outputs of `model` at `x` under `num_samples` posterior draws of its weights, equation (svbnn-predictive).

    Each draw is one set of weights for all rows, so a sample is one function of the posterior, also across chunks,
    and also for layers that train by local reparameterisation or flipout. The model runs in `eval()` and returns to
    its mode afterwards; it must map rows independently and return one tensor. Layers in mean or selected mode, within
    `mean_weights` for example, stay in it; where no layer samples, all S outputs are the same.

    Args:
        model: with Bayesian layers.
        x: inputs, shape (batch, ...), on the model's device; or an array, a list or a table of numbers, which are taken
            there; whole numbers stay whole, as an embedding reads them.
        num_samples: S.
        chunk_size: rows in one forward pass; it bounds the memory beyond the result and does not change the draws.
        generator: of the weights, on the model's device.
        draws_at_once: draws in one forward pass, by `torch.func.vmap`; they take the memory of so many sets of weights.
            A network whose pass is over before Python is back, such as one for a table, is several times faster with
            all at once; a large one on a processor is not, and one with convolutions of many rows is slower. The draws
            are others than one after another. "auto" takes 25 where measurements on processors favor it, and 1
            elsewhere: at most 128 rows, 200,000 parameters and no convolutions, on a CPU. That is a rule and no clock,
            so that a result can be repeated.

    Returns:
        Tensor (S, batch, ...). Its mean over the first dimension is the predictive mean of a regression; for a
        classifier average the softmax, not the logits.

    Warns:
        UncalledWarning: the model reads weights of a layer without calling it, so that they are no draw.

    Raises:
        ValueError: a count is below 1, draws_at_once is another word than "auto", x has no rows, or the model has no
            Bayesian layers.
        TypeError: the model does not return one tensor with a row for each input, or x holds more than numbers.
        RuntimeError: draws_at_once is above 1, and the model does what `torch.func.vmap` cannot.

    Example:
        >>> model = torch.nn.Sequential(GaussianLinear(3, 4), torch.nn.ReLU(), GaussianLinear(4, 1))
        >>> draws = predict(model, torch.randn(8, 3), num_samples=20)
        >>> draws.shape, draws.mean(dim=0).shape
        (torch.Size([20, 8, 1]), torch.Size([8, 1]))
    """
    if not isinstance(x, Tensor):
        x = _on_device_of(model, x)
    at_once = _chosen(model, x[:chunk_size]) if draws_at_once == "auto" else draws_at_once
    if isinstance(at_once, str):
        raise ValueError(f"draws_at_once is {at_once!r}, but it must be a number of draws, or 'auto'.")
    check_count("draws_at_once", at_once)
    check_draws(x, num_samples, chunk_size)
    bayesian_layers(model)  # there must be some
    with evaluating(model):
        layers = drawers(model)
        passes = num_samples if layers else 1
        checked = False

        def call(rows: Tensor) -> Tensor:
            nonlocal checked
            with nullcontext() if checked else noticing_uncalled(model, layers):
                output = model(rows)
            checked = True
            return output

        outputs = partial(one_sample, call, x, layers, chunk_size, generator)
        if at_once > 1 and passes > 1:
            # the numbers of the draws say how many there are; nothing reads them
            numbers, whole = torch.empty(passes, device=x.device), lambda _: torch.cat([*outputs()])
            return torch.func.vmap(whole, randomness="different", chunk_size=at_once)(numbers)
        draws: Tensor | None = None
        for sample in range(passes):
            start = 0
            for output in outputs():
                if draws is None:
                    draws = output.new_empty(num_samples, len(x), *output.shape[1:])
                draws[sample, start : start + len(output)] = output
                start += len(output)
    assert draws is not None  # there is a row, and a sample
    draws[passes:] = draws[0]
    return draws


def _chosen(model: nn.Module, rows: Tensor) -> int:
    """Draws at once where they pay: where this says 25 they take 0.3 to 0.97 of one after another, beyond up to 1.7."""
    small = rows.dim() > 0 and len(rows) <= 128 and sum(p.numel() for p in model.parameters()) <= 200_000
    return 25 if small and rows.is_cpu and all(p.dim() <= 2 for p in model.parameters()) else 1


def _on_device_of(model: nn.Module, x: Any) -> Tensor:
    """An array, a list or a table as the model reads numbers: on its device, and of its dtype unless they are whole."""
    parameter = next(model.parameters(), torch.empty(0))
    array = x if isinstance(x, np.ndarray) else np.array(x)
    if array.dtype == object:  # columns of several types
        try:
            array = array.astype(float)
        except (TypeError, ValueError) as error:
            raise TypeError(f"x is a {type(x).__name__} that holds more than numbers ({error}); encode it.") from error
    values = torch.as_tensor(array)
    return values.to(parameter.device, parameter.dtype if values.is_floating_point() else values.dtype)


def one_sample(
    model: Callable[[Tensor], Tensor], x: Tensor, draws: dict, chunk_size: int, generator: torch.Generator | None
) -> Iterator[Tensor]:
    """Outputs under one of the `draws`, a chunk of rows after another."""
    with one_draw(draws, generator):
        for rows in x.split(chunk_size):
            output = model(rows)
            _check_rows(output, len(rows))
            yield output


def _check_rows(output: object, rows: int) -> None:
    if not isinstance(output, Tensor) or output.dim() == 0 or len(output) != rows:
        given = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise TypeError(
            f"the model returned {given} for {rows} rows, but predict needs one tensor with a row for each input. "
            "Wrap the model in a module that returns only that tensor."
        )


def check_draws(x: Tensor, num_samples: int, chunk_size: int = 1) -> None:
    """Refuse no draws, and no rows."""
    check_count("num_samples", num_samples)
    check_count("chunk_size", chunk_size)
    if x.dim() == 0 or len(x) == 0:
        raise ValueError(f"x has shape {tuple(x.shape)}, but it must have at least one row: (batch, ...).")

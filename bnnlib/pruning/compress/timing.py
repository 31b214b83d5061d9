"""Times of two networks side by side, in one run."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WARM_UP = 3  # passes that are not counted


def paired_medians(
    first: Callable[[Any], Any], second: Callable[[Any], Any], x: Any, repeats: int
) -> tuple[float, float]:
    """Median seconds of two calls on the same input, timed in so many pairs of which each goes first in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + repeats):
        # who goes first alternates, so that neither always finds the caches warm
        for index in (0, 1) if number % 2 else (1, 0):
            times[index].append(_seconds((first, second)[index], x))
    return statistics.median(times[0][WARM_UP:]), statistics.median(times[1][WARM_UP:])


def rows_for_batch(example: Tensor, batch: int) -> Tensor:
    """`batch` rows of an example (n, ...), repeated if it has fewer."""
    return example[torch.arange(batch, device=example.device) % len(example)]


def _seconds(call: Callable[[Any], Any], x: Any) -> float:
    _wait(x)
    start = time.perf_counter()
    call(x)
    _wait(x)
    return time.perf_counter() - start


def _wait(x: Any) -> None:
    if isinstance(x, Tensor) and x.is_cuda:
        torch.cuda.synchronize(x.device)

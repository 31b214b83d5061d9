"""What every timed step shares."""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.graphs import GraphedStep
from bnnlib import _native
from bnnlib._noise import Keyed
from bnnlib._redraw import StepKeys


def synchronize(device: torch.device) -> None:
    """Wait for the device's queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], device: torch.device, clock: Callable[[], float] = time.perf_counter) -> float:
    """What `work()` takes, the device's queue included."""
    synchronize(device)
    start = clock()
    work()
    synchronize(device)
    return clock() - start


def compared(times: list[tuple[float, float]]) -> dict[str, float | list[float]]:
    """The ratio of two steps with its quartiles, and the medians of both in milliseconds, from pairs of seconds."""
    ratios = [own / base for own, base in times]
    low, middle, high = statistics.quantiles(ratios * 2, method="inclusive")
    ms, base_ms = (1e3 * statistics.median(some) for some in zip(*times, strict=True))
    quartiles = [round(low, 3), round(high, 3)]
    return {"ratio": round(middle, 3), "quartiles": quartiles, "ms": round(ms, 3), "base_ms": round(base_ms, 3)}


class StepNoise:
    """The noise of step after step by key, as `bnnlib.train.fit` draws it; not `keyed`, it is PyTorch's generator's.

    On a GPU without Triton the generator serves either way: a key there is a seed that is set in Python.
    """

    def __init__(self, model: nn.Module, device: torch.device, keyed: bool = True) -> None:
        noisy = keyed and any(isinstance(module, Keyed) for module in model.modules())
        self.keys = StepKeys(model) if noisy and _native.serves(torch.empty(0, device=device)) else None
        self.number: int | Tensor = 0

    def record(self, device: torch.device) -> None:
        """Count the steps on the device, so that a recorded step does."""
        self.number = torch.zeros((), dtype=torch.int64, device=device)

    def __enter__(self) -> None:
        if self.keys is not None:
            self.keys.give(0, self.number)
            self.number += 1  # in place where it is a tensor

    def __exit__(self, *_: object) -> None:
        if self.keys is not None:
            self.keys.take()


def adam(model: nn.Module, device: torch.device) -> torch.optim.Optimizer:
    """Fused Adam, whose step a CUDA graph may record where there is CUDA."""
    return torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=device.type == "cuda")


class Timed:
    """A training step that can be timed; `step` does one. Not `recordable` is one that computes numbers in Python."""

    recordable = True
    generators: tuple[torch.Generator, ...] = ()  # that the step draws from, beside PyTorch's own
    clock = staticmethod(time.perf_counter)  # or time.process_time, which leaves out what else the machine does

    def step(self, x: Tensor, y: Tensor) -> None:
        raise NotImplementedError

    def seconds(self, x: Tensor, y: Tensor, steps: int) -> float:
        """Mean time of a step over `steps` steps in a row."""

        def work() -> None:
            for _ in range(steps):
                self.step(x, y)

        return seconds(work, x.device, self.clock) / steps


class Graphed(Timed):
    """Another step as a CUDA graph.

    Raises:
        ValueError: a replay would repeat the numbers that the step has computed in Python.
    """

    def __init__(self, timed: Timed, x: Tensor, y: Tensor) -> None:
        if not timed.recordable:
            raise ValueError("it computes step sizes in Python, which a replay would repeat")

        if hasattr(timed, "noise"):
            timed.noise.record(x.device)

        def step(x: Tensor, y: Tensor) -> Tensor:
            timed.step(x, y)
            return x

        self.recorded = GraphedStep(step, (x, y), generators=timed.generators)

    def step(self, x: Tensor, y: Tensor) -> None:
        self.recorded(x, y)

"""The three simulated problems of Ke and Fan (2023) in the sizes of their code, with its settings.

Inputs have the pairwise correlation 1 / 2, (avo-design). The code draws one data set and uses its seed for the training
and the test rows; here every replicate has a data set of its own, and test rows that share nothing with it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

NUM_TRAIN, NUM_TEST, BATCH_SIZE = 10_240, 1_024, 1_024
CYCLES, WARM_UP = 6, 50  # cycles of the step size in a training, epochs before the first E-step


def design(num_samples: int, num_inputs: int, generator: torch.Generator | None = None) -> Tensor:
    """x_j = (e + z_j) / sqrt 2 with e and z_j standard normal, equation (avo-design), shape (num_samples, num_inputs).

    The code truncates the normals at 10 standard deviations, which no float tells from this.
    """
    x = torch.empty(num_samples, num_inputs).normal_(generator=generator)
    common = torch.empty(num_samples, 1).normal_(generator=generator)
    return x.add_(common).mul_(math.sqrt(0.5))


def tanh_network(x: Tensor) -> Tensor:
    """Example 1: tanh(2 tanh(2 x1 - x2)) + 2 tanh(tanh(x3 - 2 x4)) - tanh(2 x5), equation (avo-example-1)."""
    u, v = torch.tanh(2.0 * x[..., 0] - x[..., 1]), torch.tanh(x[..., 2] - 2.0 * x[..., 3])
    return torch.tanh(2.0 * u) + 2.0 * torch.tanh(v) - torch.tanh(2.0 * x[..., 4])


def smooth_function(x: Tensor) -> Tensor:
    """Example 2: 5 x2 / (1 + x1^2) + 5 sin(x3 x4) + 2 x5, equation (avo-example-2)."""
    return 5.0 * x[..., 1] / (1.0 + x[..., 0].square()) + 5.0 * torch.sin(x[..., 2] * x[..., 3]) + 2.0 * x[..., 4]


def margin(x: Tensor) -> Tensor:
    """Example 3: exp(x1) + x2^2 + 5 sin(x3 x4) - 3, whose sign is the class, equation (avo-example-3)."""
    return torch.exp(x[..., 0]) + x[..., 1].square() + 5.0 * torch.sin(x[..., 2] * x[..., 3]) - 3.0


@dataclass(frozen=True)
class Problem:
    """An example with the settings of its published run.

    Args:
        function: of the inputs (..., inputs).
        sizes: widths of the layers, inputs first.
        relevant: the first inputs that the function reads.
        classify: two classes, the sign of the function, without noise; else regression with N(0, 1) noise.
        slab, spike: weight decays wd1 and wd0.
        soft, hard: mean squares of an input's weights below which it gets the spike's decay, and is removed.
        lr: the first step size of a cycle.
        epochs: of the published run.
    """

    function: Callable[[Tensor], Tensor]
    sizes: tuple[int, ...]
    relevant: int
    classify: bool
    slab: float
    spike: float
    soft: float
    hard: float
    lr: float
    epochs: int

    def draw(self, num_samples: int, seed: int, num_inputs: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """x (num_samples, inputs), y and f (num_samples, 1); y is f plus noise, or the class 0 or 1."""
        generator = torch.Generator().manual_seed(seed)
        x = design(num_samples, num_inputs or self.sizes[0], generator)
        f = self.function(x).unsqueeze(1)
        noise = torch.empty_like(f).normal_(generator=generator)
        return x, (f > 0).to(f.dtype) if self.classify else f + noise, f


PROBLEMS = {
    "example 1": Problem(tanh_network, (1000, 5, 3, 1), 5, False, 2e-4, 1e-2, 1e-2, 1e-3, 0.01, 3000),
    "example 2": Problem(smooth_function, (2000, 6, 4, 3, 1), 5, False, 5e-4, 1e-2, 1e-2, 1e-3, 0.01, 6000),
    "example 3": Problem(margin, (1000, 6, 4, 3, 1), 4, True, 5e-4, 1e-2, 2e-2, 1e-3, 0.1, 3000),
}


def cyclic_lr(initial: float, epoch: int, batch: int, epochs: int, num_batches: int, cycles: int = CYCLES) -> float:
    """Step size of the code, a cosine that falls from `initial` to 0 in each of the cycles, equation (avo-cyclic).

    Its clock r = (epoch + 1) (b + 1) + batch counts one batch more than there are, and starts after one epoch.

    Args:
        epoch, batch: from 0.
        num_batches: b, in an epoch.
    """
    length = epochs * (num_batches + 1) // cycles
    return 0.5 * initial * (1.0 + math.cos(math.pi * (((epoch + 1) * (num_batches + 1) + batch) % length) / length))

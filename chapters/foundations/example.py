"""The running example, a regression on three inputs, and the rule of verdicts on simulated replicates."""

import math

import torch
from torch import Tensor

from book.lab.published import PaperValue
from book.lab.verdicts import NOT_RUN, Verdict, budget_obstacle, verdict

TRUTH = (0.8, 0.4, 0.0)


def example_data(n: int, correlation: float = 0.9, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Inputs (n, 3) of variance one and responses (n,) with standard normal noise, in double precision.

    Args:
        n: number of observations.
        correlation: of the first two inputs, in [-1, 1].
        generator: of all randomness.
    """
    z = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    second = correlation * z[:, 0] + math.sqrt(1.0 - correlation**2) * z[:, 1]
    x = torch.stack([z[:, 0], second, z[:, 2]], dim=1)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    return x, x @ torch.tensor(TRUTH, dtype=torch.float64) + noise


def judged(
    mean: float | None,
    spread: float,
    n: int = 5,
    *,
    failed: int = 0,
    epochs: tuple[float, float] | None = None,
    direction: str = "lower",
    by_design: str = "",
) -> Verdict:
    """The verdict on simulated replicates beside a published error of 10.0 whose interesting difference is 0.3.

    Args:
        mean: of the replicates; None where nothing was run.
        spread: standard deviation of the replicates.
        n: number of replicates.
        failed: replicates that failed, beside those.
        epochs: ours and the published ones.
        direction: which is better, "lower", "higher" or "none".
        by_design: why the method fixes this number.
    """
    if mean is None:
        return Verdict(NOT_RUN, "no device")
    published = PaperValue(
        "papers", "Table", "simulated", "simulated", "simulated", "simulated", "error", "%", direction, None,
        mean=10.0, sd=None, spreads=(), rounding=0.05, reading=0.0, tolerance=0.0, interesting=0.3, replicates=1,
        printed="10.0", by_design=by_design,
    )  # fmt: skip
    obstacle = budget_obstacle((epochs[0], "epochs"), epochs[1]) if epochs else ""
    places = torch.arange(n, dtype=torch.float64) - (n - 1) / 2
    numbers = mean + spread * places / places.std() if n > 1 else torch.tensor([mean])
    return verdict(published, numbers.tolist(), failed=failed, obstacles=[obstacle])

"""Time of training 30 replicates as one stack against one after another with the ordinary layers.

`python -m benchmarks.replicates [--json] [--epochs 2]`

The work is Simulation II of Bai, Song and Cheng (2020) with the spike-and-slab network: 200-7-7-7-1, 3000 rows a
replicate, batches of 512, Adam (fused) for both. The networks of the loop have the stack's sizes and prior, and all
of them are trained for the stated number of epochs: nothing is extrapolated. Epochs of the stack and of the loop take
turns, so that whatever else the machine does hits both.
"""

import copy
import statistics

import torch
from torch import Tensor

from benchmarks import command
from benchmarks.timing import seconds
from bnnlib.functional import inclusion_probability_for
from bnnlib.models import mlp
from bnnlib.nn import kl_gradient, to_bayesian
from bnnlib.replicates import Layout, StackedMLP, StackedSpikeSlab, fit_stacked

SIZES, ROWS, BATCH, LEARNING_RATE = (200, 7, 7, 7, 1), 3000, 512, 5e-3


def problem(replicates: int, device: torch.device, sizes: tuple[int, ...] = SIZES) -> tuple[StackedMLP, Tensor, Tensor]:
    """The stack and its data, x of shape (rows, replicates, inputs)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.empty(ROWS, replicates, SIZES[0]).uniform_(-1, 1, generator=generator)
    f = 7 * x[..., 1] / (1 + x[..., 0] ** 2) + 5 * torch.sin(x[..., 2] * x[..., 3]) + 2 * x[..., 4]
    y = (f + torch.empty_like(f).normal_(generator=generator))[..., None]
    layout = Layout(sizes, replicates)
    posterior = StackedSpikeSlab(
        layout, layout.uniform(-0.6, 0.6, generator), inclusion_probability_for(sizes, ROWS), prior_scale=1.3
    )
    return StackedMLP(posterior).to(device), x.to(device), y.to(device)


class Loop:
    """Networks of the same sizes and prior, each with its own optimizer, trained one after another."""

    def __init__(self, stack: StackedMLP, x: Tensor, y: Tensor):
        posterior = stack.posterior
        prior = {"prior_inclusion_probability": posterior.prior_inclusion_probability, "prior_scale": 1.3}
        self.networks = [
            to_bayesian(mlp(posterior.layout.sizes), "spike_slab", **prior).to(x.device)
            for _ in range(stack.replicates)
        ]
        self.optimizers = [torch.optim.Adam(n.parameters(), lr=LEARNING_RATE, fused=True) for n in self.networks]
        self.data = [(x[:, r].contiguous(), y[:, r].contiguous()) for r in range(stack.replicates)]

    def epoch(self) -> None:
        for network, optimizer, (x, y) in zip(self.networks, self.optimizers, self.data, strict=True):
            for rows in torch.randperm(ROWS, device=x.device).split(BATCH):
                nll = 0.5 * (network(x[rows]) - y[rows]).square().mean()
                optimizer.zero_grad()
                (nll + kl_gradient(network) / ROWS).backward()
                optimizer.step()


class Stack:
    """All replicates at once; the optimizer lives on from epoch to epoch."""

    def __init__(self, stack: StackedMLP, x: Tensor, y: Tensor):
        self.stack, self.x, self.y = copy.deepcopy(stack), x, y
        self.optimizer = torch.optim.Adam(self.stack.parameters(), lr=LEARNING_RATE, fused=True)

    def epochs(self, number: int) -> None:
        settings = {"batch_size": BATCH, "learning_rate": LEARNING_RATE, "optimizer": self.optimizer}
        fit_stacked(self.stack, self.x, self.y, epochs=number, **settings)


def measure(replicates: int, epochs: int, device: torch.device) -> dict:
    """One row {work, replicates, stacked_s, loop_s, speedup}; seconds are medians of one epoch of all replicates."""
    torch.manual_seed(0)
    arguments = problem(replicates, device)
    stack, loop = Stack(*arguments), Loop(*arguments)
    stack.epochs(2)
    loop.epoch()
    stacked_times, loop_times = [], []
    for _ in range(epochs):
        # an epoch of the stack is short: several of them, before and after the loop's one
        before = seconds(lambda: stack.epochs(5), device) / 5
        loop_times.append(seconds(loop.epoch, device))
        stacked_times.append((before + seconds(lambda: stack.epochs(5), device) / 5) / 2)
    ratios = [b / a for a, b in zip(stacked_times, loop_times, strict=True)]
    return {
        "work": "Simulation II, spike-and-slab 200-7-7-7-1, one epoch",
        "replicates": replicates,
        "stacked_s": round(statistics.median(stacked_times), 5),
        "loop_s": round(statistics.median(loop_times), 5),
        "speedup": round(statistics.median(ratios), 2),
    }


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("replicates", __doc__, device=True)
    parser.add_argument("--replicates", type=int, nargs="+", default=[30])
    parser.add_argument("--epochs", type=int, default=3, help="measured epochs of the loop")
    options = parser.parse_args(arguments)
    device, say = command.start(options, "Adam(fused=True)")
    rows = []
    for replicates in options.replicates:
        rows.append(row := measure(replicates, options.epochs, device))
        print(
            f"{row['replicates']} replicates, an epoch of all: {1e3 * row['stacked_s']:.1f} ms stacked, "
            f"{1e3 * row['loop_s']:.0f} ms one after another, {row['speedup']:.1f} times faster",
            file=say,
        )
    return command.done(rows, options)


if __name__ == "__main__":
    main()

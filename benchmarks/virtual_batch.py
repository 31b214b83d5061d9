"""Time of naive Monte Carlo over mini-batches against one virtual batch, for the prediction of one object.

`python -m benchmarks.virtual_batch [--json] [--samples 10 50 100] [--batch 16 128]`

Naive: each of K draws is a forward pass of a training mini-batch that holds the object, equation (sbn-predictive).
Virtual: one forward pass of K copies of the object, each with statistics of its own from the fitted r(mu) r(sigma),
equation (sbn-virtual). Naive passes K times the batch size of rows, the virtual batch K; the published "K times faster"
holds for mini-batches of K rows. Both take turns, and the ratio is the median over rounds. What the virtual batch
needs once, `match_moments` over training batches, is measured too (`fit_s`).
"""

import statistics
from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from torch import Tensor, nn

from benchmarks import command
from benchmarks.timing import seconds
from bnnlib.nn import match_moments, predict_virtual_batch, to_stochastic_batch_norm
from chapters.batch_statistics.lenet import lenet5_batch_norm
from chapters.batch_statistics.naive import predict_naive_batches
from chapters.batch_statistics.vgg import vgg11

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LeNet-5": (lenet5_batch_norm, (1, 28, 28)),
    "VGG-11, width 0.25": (lambda: vgg11(0.25, 5), (3, 32, 32)),
}
TRAIN_ROWS, FIT_BATCHES, REPEATS = 4096, 20, 3


def problem(network: str, batch: int, device: torch.device) -> tuple[nn.Module, Tensor, Tensor, float]:
    """The network with fitted moments, one object, training inputs, and the time of fitting a batch's moments."""
    torch.manual_seed(0)
    build, shape = NETWORKS[network]
    model = to_stochastic_batch_norm(build()).to(device).eval()
    train, x = torch.rand(TRAIN_ROWS, *shape, device=device), torch.rand(1, *shape, device=device)
    batches = [train[torch.randperm(len(train), device=device)[:batch]] for _ in range(FIT_BATCHES)]
    return model, x, train, seconds(lambda: match_moments(model, batches), device)


def _virtual(model: nn.Module, x: Tensor, number: int) -> None:
    for _ in range(REPEATS):
        predict_virtual_batch(model, x, number)


def _naive(model: nn.Module, x: Tensor, train: Tensor, number: int, batch: int) -> None:
    predict_naive_batches(model, x, train, number, batch)


def measure(network: str, samples: list[int], batch: int, rounds: int, device: torch.device) -> list[dict]:
    """Rows {network, samples, batch, naive_s, virtual_s, ratio, fit_s}; seconds are medians for one object."""
    model, x, train, fit_s = problem(network, batch, device)
    rows = []
    for number in samples:
        virtual, naive = partial(_virtual, model, x, number), partial(_naive, model, x, train, number, batch)
        virtual()
        _naive(model, x, train, 1, batch)
        naive_times, virtual_times = [], []
        for _ in range(rounds):
            # the virtual batch is short: several of them, before and after the naive passes
            before = seconds(virtual, device)
            naive_times.append(seconds(naive, device))
            virtual_times.append((before + seconds(virtual, device)) / (2 * REPEATS))
        ratios = [slow / fast for slow, fast in zip(naive_times, virtual_times, strict=True)]
        rows.append(
            {
                "network": network,
                "samples": number,
                "batch": batch,
                "device": str(device),
                "naive_s": round(statistics.median(naive_times), 5),
                "virtual_s": round(statistics.median(virtual_times), 5),
                "ratio": round(statistics.median(ratios), 2),
                "fit_s": round(fit_s, 5),
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("virtual_batch", __doc__, rounds=3, device=True)
    parser.add_argument("--samples", type=int, nargs="+", default=[10, 50, 100], help="draws K")
    parser.add_argument("--batch", type=int, nargs="+", default=[16, 128], help="rows of a training mini-batch")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    options = parser.parse_args(arguments)
    device, say = command.start(options, f"batches of {options.batch}")
    rows = []
    for network, batch in product(options.networks, options.batch):
        found = measure(network, options.samples, batch, options.rounds, device)
        for row in found:
            print(
                f"{network:20s} batch {batch:4d}  K = {row['samples']:4d}  {1e3 * row['naive_s']:8.1f} ms naive, "
                f"{1e3 * row['virtual_s']:6.1f} ms virtual, {row['ratio']:6.1f} times faster "
                f"(moments once: {1e3 * row['fit_s']:.0f} ms for {FIT_BATCHES} batches)",
                file=say,
            )
        rows += found
    return command.done(rows, options)


if __name__ == "__main__":
    main()

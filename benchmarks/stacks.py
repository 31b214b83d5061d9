"""What an epoch of a stack costs for each of its networks, by their number and width.

`python -m benchmarks.stacks [--json] [--processor] [--widths 7 50 200] [--replicates 1 3 10 30 100 300] [--rounds 5]`

The work is that of `benchmarks.replicates`, Simulation II with the spike-and-slab posterior, whose three hidden layers
have the given width. Stacks of one width take turns in every round, so that whatever else the machine does hits all
of them; a row holds the median and the quartiles over rounds. `--processor` counts processor time. Stacks beyond
`--largest` weights in all are left out.
"""

import statistics
import time

import torch

from benchmarks import command
from benchmarks.replicates import Stack, problem
from benchmarks.timing import seconds

WIDTHS, REPLICATES, LARGEST = (7, 50, 200), (1, 3, 10, 30, 100, 300), 4_000_000


def measure(width: int, replicates: list[int], rounds: int, device: torch.device, clock) -> list[dict]:
    """A row {width, replicates, weights, ms, quartiles, device} for each size; milliseconds an epoch and network."""
    torch.manual_seed(0)
    sizes = (200, width, width, width, 1)
    stacks = {number: Stack(*problem(number, device, sizes)) for number in replicates}
    times: dict[int, list[float]] = {number: [] for number in replicates}
    for stack in stacks.values():
        stack.epochs(1)
    for _ in range(rounds):
        for number, stack in stacks.items():
            epochs = max(1, 30 // number)  # of a short epoch several
            taken = seconds(lambda stack=stack, epochs=epochs: stack.epochs(epochs), device, clock)
            times[number].append(1e3 * taken / (epochs * number))
    weights = next(iter(stacks.values())).stack.posterior.layout.num_parameters
    return [
        {
            "width": width,
            "replicates": number,
            "weights": weights,
            "ms": round(statistics.median(some), 4),
            "quartiles": [round(one, 4) for one in statistics.quantiles(some, n=4)[::2]],
            "device": str(device),
        }
        for number, some in times.items()
    ]


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("stacks", __doc__, rounds=5, device=True)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--replicates", type=int, nargs="+", default=REPLICATES)
    parser.add_argument("--largest", type=int, default=LARGEST, help="weights of a stack")
    parser.add_argument("--processor", action="store_true", help="processor time in place of the clock's")
    options = parser.parse_args(arguments)
    clock = time.process_time if options.processor else time.perf_counter
    rows = []
    for width in options.widths:
        weights = 200 * width + 2 * width * width + 4 * width + 1
        numbers = [number for number in options.replicates if number * weights <= options.largest]
        rows += (some := measure(width, numbers, options.rounds, torch.device(options.device), clock))
        for row in some:
            line = f"width {width}, {row['replicates']} networks: {row['ms']:.2f} ms an epoch and network"
            print(line, file=command.progress(options))
    return command.done(rows, options)


if __name__ == "__main__":
    main()

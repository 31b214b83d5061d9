"""Time and memory of a training step under `bnnlib.optim.Adam`, beside PyTorch's Adam, on a CPU with one thread.

`python -m benchmarks.adam [--json] [--batch 128 1024] [--layers gaussian ...] [--rounds 15] [--processor]`

Networks and steps are those of `benchmarks.step_time`. A round times the deterministic network, then a layer under
PyTorch's fused Adam and under ours, in turns; ratios are to the deterministic step of the same round, whose Adam is the
same under either name: its parameters have no draw. `bytes` is the peak of a step for each of the 478,410 weights, as
in `benchmarks.memory`. Behind a ratio stands the goal of the project.
"""

from __future__ import annotations

import time

import torch

from benchmarks import command, memory
from benchmarks.goals import GOALS
from benchmarks.step_time import SIZES, Step, contenders, deterministic
from benchmarks.timing import Timed, compared
from bnnlib import optim

LAYERS = ("gaussian", "spike-slab", "gaussian-spike-slab", "scale-mixture", "horseshoe")
OPTIMIZERS = ("torch.optim.Adam", "bnnlib.optim.Adam")


def build(layer: str, optimizer: str) -> Step:
    """The step of a layer under an optimizer."""
    step = Step(contenders()["bnnlib", layer], torch.device("cpu"))
    if optimizer == OPTIMIZERS[1]:
        step.optimizer = optim.Adam(step.model.parameters(), lr=1e-3)
    return step


def measure(batch: int, layers: list[str], rounds: int, steps: int) -> list[dict]:
    """Rows {layer, optimizer, batch, device, ratio, quartiles, ms, base_ms, bytes}."""
    x, y = torch.rand(batch, SIZES[0]), torch.randint(0, SIZES[-1], (batch,))
    base, rows = Step(deterministic, torch.device("cpu")), []
    weights = sum(parameter.numel() for parameter in base.model.parameters())
    for layer in layers:
        both = {name: build(layer, name) for name in OPTIMIZERS}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in both}
        for one in (base, *both.values()):
            one.seconds(x, y, 4)
        for number in range(rounds):
            order = list(both.items())[:: 1 if number % 2 else -1]
            for name, step in order:
                plain, own = base.seconds(x, y, steps), step.seconds(x, y, steps)
                times[name].append((own, plain))
        for name, step in both.items():
            least = memory.standing(step) + memory.needed(step, x, y)
            rows.append(
                {
                    "layer": layer,
                    "optimizer": name,
                    "batch": batch,
                    "device": "cpu",
                    **compared(times[name]),
                    "bytes": round(least / weights, 1),
                }
            )
    return rows


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("adam", __doc__, batch=[128, 1024], rounds=15)
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), choices=LAYERS, metavar="NAME")
    parser.add_argument("--steps", type=int, default=4, help="training steps in one measurement")
    parser.add_argument("--processor", action="store_true", help="take the processor's time, not the clock's")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    Timed.clock = staticmethod(time.process_time if options.processor else time.perf_counter)
    rows = [row for batch in options.batch for row in measure(batch, options.layers, options.rounds, options.steps)]
    say = command.progress(options)
    for row in rows:
        low, high = row["quartiles"]
        goal = GOALS.get((row["layer"], row["batch"]))
        aim = f"goal {goal:.2f}" if goal else ""
        print(
            f"batch {row['batch']:5d}  {row['layer']:20s} {row['optimizer']:18s} {row['ratio']:5.2f} "
            f"[{low:.2f}, {high:.2f}] {aim:9s}  {row['bytes']:5.1f} bytes a weight",
            file=say,
        )
    return command.done(rows, options)


if __name__ == "__main__":
    main()

"""Small experiments that behave badly on purpose; run as a script, the command line with only these.

Every cell appends a line to $TINY_LOG when it starts, so that a test can count what was computed and where.
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path

import torch

from book.lab.cells import Cell, CellResult, Experiment, Need


def _log(text: str) -> None:
    with open(os.environ["TINY_LOG"], "a") as file:
        file.write(f"{text} {os.getpid()}\n")


def _row(cell: Cell, replicate: int, value: float, metric: str = "rmse_test") -> dict:
    where = {"setting": cell.setting, "method": cell.method, "replicate": replicate}
    return {**where, "metric": metric, "value": value}


def _train(replicate: int) -> float:
    # the layer's first weights come from the global generator, the sums of 256 x 256 products from torch's threads:
    # both differ between backends unless the worker fixes them
    generator = torch.Generator().manual_seed(replicate)
    x, layer = torch.randn(256, 256, generator=generator), torch.nn.Linear(256, 256)
    for _ in range(5):  # by hand: a process's first optimizer imports torch's compiler for seconds
        loss = (layer(x) - x.flip(1)).square().mean()
        for parameter, slope in zip(layer.parameters(), torch.autograd.grad(loss, layer.parameters()), strict=True):
            parameter.data.sub_(slope)
    return loss.item()


def good_cell(cell, device, checkpoint):
    _log(cell.setting)
    return CellResult([_row(cell, replicate, _train(replicate)) for replicate in cell.replicates])


def array_cell(cell, device, checkpoint):
    _log(cell.setting)
    return CellResult([_row(cell, r, 1.0) for r in cell.replicates], {"curve": torch.arange(3.0).numpy()})


def deadly_cell(cell, device, checkpoint):
    """Setting b kills its process the first time that it runs, d every time."""
    _log(cell.setting)
    mark = Path(os.environ["TINY_LOG"]).with_suffix(".died")
    if cell.setting == "d" or (cell.setting == "b" and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return CellResult([_row(cell, replicate, _train(replicate)) for replicate in cell.replicates])


def failing_cell(cell, device, checkpoint):
    _log(cell.setting)
    if cell.setting == "raises" and not os.environ.get("TINY_MENDED"):
        raise FloatingPointError("the loss is NaN at step 3; lower the learning rate")
    bad = float("nan") if cell.setting == "returns" else 1.0
    return CellResult([_row(cell, r, bad if r == 1 else 1.0) for r in cell.replicates])


def long_cell(cell, device, checkpoint):
    """A random walk of 8 steps that saves after each one and goes on from there; it waits at the step held."""
    held = Path(os.environ["TINY_LOG"]).with_suffix(".held")
    state = checkpoint.load() or {"step": 0, "at": 0.0, "generator": None}
    generator = torch.Generator().manual_seed(cell.replicates[0])
    if state["generator"] is not None:
        generator.set_state(state["generator"])
    at = state["at"]
    for step in range(state["step"], 8):
        _log(f"{cell.setting}:{step}")
        while step == 5 and cell.setting == "b" and held.exists():
            time.sleep(0.01)
        at += torch.randn((), generator=generator).item()
        checkpoint.save({"step": step + 1, "at": at, "generator": generator.get_state()})
    return CellResult([_row(cell, cell.replicates[0], at)])


def together_cell(cell, device, checkpoint, devices=1):
    _log(cell.setting)
    return CellResult([_row(cell, replicate, float(devices)) for replicate in cell.replicates])


def trained_cell(cell, device, checkpoint):
    """Leaves a network for others."""
    _log(f"{cell.setting}:begins")
    if os.environ.get("TINY_FAILS") == cell.setting:
        raise FloatingPointError("the loss is NaN")
    other = os.environ.get("TINY_OTHER") == cell.setting  # as on another machine
    generator = torch.Generator().manual_seed(cell.replicates[0] + other)
    network = {"weight": torch.randn(3, generator=generator), "layers": [torch.ones(2)], "name": cell.setting}
    _log(f"{cell.setting}:ends")
    return CellResult([_row(cell, cell.replicates[0], 1.0)], product=network)


def using_cell(cell, device, checkpoint, products):
    _log(cell.setting)
    value = sum(one["weight"].sum().item() for one in products)
    return CellResult([_row(cell, cell.replicates[0], value)])


def hungry_cell(cell, device, checkpoint):
    """Takes and frees 20 MB again and again: pages that the system must hand out anew each time."""

    def round_() -> None:
        held = [torch.ones(2**18) for _ in range(20)]  # in blocks of 1 MiB
        held.clear()

    round_()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        round_()
    pages = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10
    return CellResult([_row(cell, replicate, pages, "minutes") for replicate in cell.replicates])


NETWORK = Cell("network", "SVBNN", (0,))


def _users(name: str) -> list[Cell]:
    return [Cell(setting, "VBNN", (0,), needs=(Need(name, NETWORK),)) for setting in ("first", "second")]


def _chain() -> list[Cell]:
    # the users stand before what they need
    return [*_users("tiny-needs"), NETWORK]


def _cells(settings: str, replicates: tuple[int, ...] = (0, 1), **params):
    return lambda: [Cell(setting, "SVBNN", replicates, params) for setting in settings.split()]


def _experiment(name: str, run_cell, settings: str, **more) -> Experiment:
    options = {"profiles": {"smoke": _cells(settings), "book": _cells(settings, (0, 1, 2), seed=3)}, **more}
    return Experiment(name=name, summary=f"{name} for tests", run_cell=run_cell, **options)


EXPERIMENTS = [
    _experiment("tiny-good", good_cell, "a b c d", unavailable={"paper": "not run: no GPU"}),
    _experiment("tiny-arrays", array_cell, "a b"),
    _experiment("tiny-deadly", deadly_cell, "a b c d"),
    _experiment("tiny-failing", failing_cell, "fine raises returns"),
    _experiment("tiny-long", long_cell, "a b c", profiles={"smoke": _cells("a b c", (0,))}),
    _experiment("tiny-data", good_cell, "a", data=("small-set",)),
    _experiment("tiny-needs", using_cell, "", methods={"SVBNN": trained_cell}, profiles={"smoke": _chain}),
    _experiment("tiny-elsewhere", using_cell, "", profiles={"smoke": lambda: _users("tiny-needs")}, value=2.0),
    _experiment("tiny-hungry", hungry_cell, "a", profiles={"smoke": _cells("a", (0,))}),
    _experiment("tiny-together", together_cell, "a", several_devices=True),
]

if "TINY_ONLY" in os.environ:
    EXPERIMENTS = [one for one in EXPERIMENTS if one.name in os.environ["TINY_ONLY"].split()]

if __name__ == "__main__":
    from book.__main__ import main
    from book.lab import catalog

    catalog.modules = lambda: ["tiny_experiments"]
    sys.exit(main())

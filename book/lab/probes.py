"""A probe: a cell made so small that it takes seconds, interrupted once, and taking the same branches as the real one.

Its rows are kept beside a result. When the code has moved, the probe runs again, and equal rows certify that the cells
need not.
"""

import copy
import json
import tempfile
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from bnnlib.train import Checkpoint
from book.lab import catalog, keys
from book.lab.cells import Cell, Experiment, Need

GRADIENT = "size of the last gradients"
ProbeRows = list[list[Any]]  # [setting, method, replicate, metric, value]


def first(number: int) -> Callable[[list], list]:
    """For a value of ``tiny``: the first entries of a list."""
    return lambda values: list(values)[:number]


def shrink(experiment: Experiment, cell: Cell) -> Cell:
    """The cell with the parameters of ``experiment.tiny`` in place of its own, where it has them.

    A value of ``tiny`` is the new value, a function of the old one, or a dict for a dict of parameters.
    ``"replicates"`` is how many are kept, by default the first; ``"kind"`` a function of the cell, for kinds that only
    the setting tells apart; ``"added"`` parameters that the cell has not, such as the shape that digits are given.
    """
    tiny = dict(experiment.tiny)
    kept, added = tiny.pop("replicates", 1), tiny.pop("added", {})
    tiny.pop("kind", None)
    needs = tuple(Need(one.experiment, shrink(catalog.get(one.experiment), one.cell)) for one in cell.needs)
    return replace(cell, replicates=cell.replicates[:kept], params=_smaller(cell.params, tiny) | added, needs=needs)


def _smaller(params: dict[str, Any], tiny: dict[str, Any]) -> dict[str, Any]:
    out = dict(params)
    for key, small in tiny.items():
        if key in out:
            out[key] = _smaller(out[key], small) if isinstance(small, dict) else small
            if callable(small):
                out[key] = small(params[key])
    return out


def kinds(experiment: Experiment, profile: str, ids: Container[str] | None = None) -> list[tuple[Cell, list[Cell]]]:
    """One small cell for each kind of cell in the profile: a kind is what is left when sizes and seeds are gone.

    Each comes with the real cells of its kind, of those with the identities `ids`, such as what is stored. None without
    ``experiment.tiny``: the cells themselves are no probes.
    """
    if not experiment.tiny:
        return []
    found: dict[str, tuple[Cell, list[Cell]]] = {}
    for cell in experiment.profiles[profile]():
        small = shrink(experiment, cell)
        named = experiment.tiny["kind"](cell) if "kind" in experiment.tiny else ""
        kind = json.dumps([small.method, named, small.params], sort_keys=True)
        _, real = found.setdefault(kind, (small, []))
        if ids is None or keys.identity(experiment, cell) in ids:
            real.append(cell)
    return [(small, real) for small, real in found.values() if real]


def kind_of(cell: dict[str, Any]) -> str:
    """By which name the probe of a small cell (as JSON) is found again."""
    return json.dumps(cell, sort_keys=True)


def rows_of(name: str, profile: str, method: str) -> dict[str, ProbeRows]:
    """Rows of one method's probes by kind, run now."""
    experiment = catalog.get(name)
    chosen = [cell for cell, _ in kinds(experiment, profile) if cell.method == method]
    return {kind_of(cell.as_json()): run(experiment, cell) for cell in chosen}


class _Once(Checkpoint):
    """A checkpoint that is always due; the first of two ends the run as a kill would."""

    class Stopped(BaseException):
        """The run ends here."""

    def __init__(self, path: Path, stop: bool) -> None:
        super().__init__(path)
        self.stop = stop

    def due(self, seconds: float = 0.0) -> bool:
        return True

    def save(self, state: dict[str, Any]) -> None:
        super().save(state)
        if self.stop:
            raise self.Stopped


def run(experiment: Experiment, cell: Cell) -> ProbeRows:
    """Rows of a small cell on the CPU in one thread: started, stopped at its first checkpoint, and taken up again.

    The last row is the size of the last gradients: counts of images forgive a step that is a little wrong, they do not.
    """
    products = _products(cell)
    with _gradients() as gradients:
        result = _run(experiment, cell, products)
    if result.product is not None:
        _remember(_name(experiment, cell), result.product)
    skip = experiment.measured
    rows = [
        [row["setting"], row["method"], int(row["replicate"]), row["metric"], float(row["value"])]
        for row in result.rows
        if not (skip and row["metric"].startswith(skip))
    ]
    if size := gradients():
        rows.append([cell.setting, cell.method, cell.replicates[0], GRADIENT, size])
    return rows


@contextmanager
def _gradients() -> Iterator[Callable[[], float]]:
    """A function that says how large the gradients of the last step of every optimizer were, 0 where none has any."""
    kept: dict[int, list[torch.Tensor]] = {}
    seen: list[torch.optim.Optimizer] = []  # held, so that no number stands for two of them

    def keep(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if all(optimizer is not one for one in seen):
            seen.append(optimizer)
        found = (p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None)
        kept[id(optimizer)] = [gradient.detach().clone() for gradient in found]

    hook = register_optimizer_step_pre_hook(keep)
    try:
        yield lambda: float(sum(one.double().square().sum() for last in kept.values() for one in last)) ** 0.5
    finally:
        hook.remove()


def _products(cell: Cell) -> dict[str, Any]:
    """What a cell's function gets of the cells that it needs: copies, since a network may be trained on in place."""
    made = [_made(catalog.get(need.experiment), need.cell) for need in cell.needs]
    return {"products": copy.deepcopy(made)} if made else {}


def _made(experiment: Experiment, cell: Cell) -> Any:
    """The product of a small cell, run once for all that need it one after another."""
    name = _name(experiment, cell)
    return _remember(name, _MADE[name] if name in _MADE else _run(experiment, cell, _products(cell)).product)


def _remember(name: tuple, product: Any) -> Any:
    _MADE.pop(name, None)
    _MADE[name] = product  # the last one of few: what is needed again and again stays
    while len(_MADE) > 8:
        del _MADE[next(iter(_MADE))]
    return product


def _name(experiment: Experiment, cell: Cell) -> tuple[str, str, Callable]:
    return experiment.name, kind_of(cell.as_json()), experiment.function(cell)


_MADE: dict[tuple, Any] = {}


def _run(experiment: Experiment, cell: Cell, products: dict[str, Any]):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so little data warns of much
            path = Path(folder) / "cell.pt"
            for stop in (True, False):
                torch.manual_seed(keys.seed_of(cell))
                try:
                    return experiment.function(cell)(cell, torch.device("cpu"), _Once(path, stop), **products)
                except _Once.Stopped:
                    continue
    finally:
        torch.set_num_threads(threads)
    raise AssertionError("the second run is not stopped")

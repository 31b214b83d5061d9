"""What a task of the comparison is, and a run of one method on it as the protocol has it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from bnnlib.contest import METHODS, Predictor, predictive_nll
from bnnlib.sampling import DivergedError
from book.lab.cells import Cell, CellResult, rows_of

Data = dict[str, Any]
TUNED_ON = 100  # the replicate on which settings are tried


@dataclass(frozen=True)
class Task:
    """Where a method is tried.

    Args:
        load: called as load(replicate, device, params); returns "problem" (`Problem`) and whatever scores need. Test
            rows are behind "test", a function, which is called when a run is over.
        network: called with a replicate; the deterministic network with its first weights.
        one: optimizer steps of the deterministic network at budget 1.
        score: called with (predictor, data, params); returns metrics.
        seeds: how many replicates there are.
    """

    load: Callable[..., Data]
    network: Callable[[int], nn.Module]
    one: int
    score: Callable[[Predictor, Data, dict[str, Any]], dict[str, float]]
    seeds: int = 10


def first_weights(replicate: int) -> torch.Generator:
    """From which the network of a seed is drawn, for all methods."""
    return torch.Generator().manual_seed(2_000 + replicate)


def run(task: Task, cell: Cell, device: torch.device, products: Sequence[dict[str, Any]] = ()) -> CellResult:
    """Try the settings, or take those of the budget before; then train with them and with the default on every seed."""
    params, method = cell.params, METHODS[cell.method]
    if "rates_to" in params:  # a wider box than the comparison's
        method = replace(method, box={**method.box, "lr": replace(method.box["lr"], high=params["rates_to"])})
    place, default, rows = cell.setting, method.trials(1)[0], []
    if products:
        chosen = products[0]["settings"]
    else:
        trials = method.trials(params["trials"], params.get("trials_seed", 0))
        tried = [_validated(task, cell, trial, device) for trial in trials]
        chosen = trials[min(range(len(trials)), key=tried.__getitem__)]
        for number, loss in enumerate(tried):
            own = number in cell.replicates  # where seeds are fewer than trials, the others are numbered by name
            name = "validation_nll" if own else f"validation_nll {number}"
            rows += rows_of(cell, {name: loss}, f"{place}, trials", replicate=number if own else None)
    for replicate in cell.replicates:
        done: dict[tuple, dict[str, float]] = {}
        for name, settings in (("default", default), ("tuned", chosen)):
            if name == "default" and (products or not {"rates_to", "trials_seed"}.isdisjoint(params)):
                continue
            key = tuple(settings.items())
            if key not in done:
                done[key] = scored(task, cell, settings, replicate, device)
            rows += rows_of(cell, done[key], f"{place}, {name}", replicate=replicate)
    rows += rows_of(cell, {f"setting {name}": value for name, value in chosen.items()}, f"{place}, tuned")
    return CellResult(rows, product={"settings": chosen})


def trained(task: Task, cell: Cell, settings: dict[str, float], replicate: int, device) -> tuple[Predictor, Data, bool]:
    """The predictor, the data, and whether it diverged; the one that knows nothing stands for one that did."""
    data, network = task.load(replicate, device, cell.params), task.network(replicate).to(device)
    problem = data["problem"] = replace(data["problem"], keep=cell.params.get("keep", "own"))
    try:
        predictor = METHODS[cell.method].fit(network, problem, cell.params["steps"], replicate, settings)
        bad = not bool(predictor.predict(data["problem"].x_validation, 2).isfinite().all())
    except DivergedError:
        bad = True
    if bad:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
        predictor = Predictor(network.eval(), data["problem"], variance=1.0, cost={"seconds": 0.0})
    return predictor, data, bad


def _validated(task: Task, cell: Cell, settings: dict[str, float], device) -> float:
    predictor, data, _ = trained(task, cell, settings, TUNED_ON, device)
    problem = data["problem"]
    outputs = predictor.predict(problem.x_validation, cell.params["draws"])
    if problem.kind == "classification":
        return float(predictive_nll(outputs, problem.y_validation))
    return float(predictive_nll(outputs, problem.y_validation, predictor.fitted_variance(cell.params["draws"])))


def scored(task: Task, cell: Cell, settings: dict[str, float], replicate: int, device) -> dict[str, float]:
    """All metrics of one run."""
    predictor, data, diverged = trained(task, cell, settings, replicate, device)
    found = task.score(predictor, data, cell.params)
    sizes = predictor.size_in_bytes()
    found |= {"active": 100.0 * (1.0 - predictor.sparsity), "bytes": min(sizes.values()), "bytes_dense": sizes["dense"]}
    found["flops"] = predictor.flops()
    return found | {"networks": predictor.networks, "diverged": float(diverged), "seconds": predictor.cost["seconds"]}

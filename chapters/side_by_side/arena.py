"""The tasks of the comparison, and a run of one method on one of them as the protocol has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib import metrics
from bnnlib.contest import METHODS, Predictor, Problem, log_predictive, predictive_nll
from bnnlib.models import lenet_300_100, mlp
from bnnlib.sampling import DivergedError
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.shared import simulated
from chapters.shared.images import load_images
from chapters.side_by_side.shifts import SHIFTS, shifted

Data = dict[str, Any]
TUNED_ON = 100  # the replicate on which settings are tried
HELD_OUT = 0.2
NUM_RELEVANT = 5


@dataclass(frozen=True)
class Task:
    """Where a method is tried.

    Args:
        load: called as load(replicate, device, params); returns "problem" (`Problem`) and whatever scores need. Test
            rows are behind "test", a function, which is called when a run is over.
        network: called with a replicate; the deterministic network with its first weights.
        one: optimizer steps of the deterministic network at budget 1.
        score: called with (predictor, data, params); returns metrics.
    """

    load: Callable[..., Data]
    network: Callable[[int], nn.Module]
    one: int
    score: Callable[[Predictor, Data, dict[str, Any]], dict[str, float]]


def correlated_teacher(num_samples: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The sparse teacher of chapter 03 on inputs that are correlated by .9 with their neighbors, every 20th relevant.

    Returns:
        x (num_samples, 100), of which inputs 0, 20, 40, 60, 80 matter and are the first five columns here; y = f +
        noise and f (num_samples, 1).
    """
    x, _ = simulated.correlated_regression(num_samples, torch.zeros(100), generator, correlation=0.9)
    relevant = torch.arange(0, 100, 20)
    rest = torch.tensor([j for j in range(100) if j % 20])
    f = simulated.sparse_teacher_function(x[:, relevant] / math.sqrt(3.0)).unsqueeze(-1)
    return x[:, torch.cat([relevant, rest])], f + torch.empty_like(f).normal_(generator=generator), f


def load_simulated(draw, num_samples: int, batch_size: int, replicate: int, device, params=None) -> Data:
    """Standardized training and validation rows; the test rows are other draws of the same law."""
    x, y, _ = draw(num_samples, torch.Generator().manual_seed(1_000 + replicate))
    kept = num_samples - round(HELD_OUT * num_samples)
    means, scales = (x[:kept].mean(0), y[:kept].mean(0)), (x[:kept].std(0), y[:kept].std(0))
    x, y = ((one - mean) / scale for one, mean, scale in zip((x, y), means, scales, strict=True))
    parts = (part.to(device) for part in (x[:kept], y[:kept], x[kept:], y[kept:]))

    def test() -> tuple[Tensor, Tensor, Tensor]:
        rows = draw((params or {}).get("test_rows", 10_000), torch.Generator().manual_seed(999))
        x, y, f = rows
        return tuple(one.to(device) for one in ((x - means[0]) / scales[0], (y - means[1]) / scales[1], f))

    scale, mean = float(scales[1]), float(means[1])
    return {"problem": Problem(*parts, batch_size=batch_size), "test": test, "scale": scale, "mean": mean}


def rows_read(task: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a cell of a simulation reads, for its probe: the rows of its first seed, and the test rows."""
    data = TASKS[task].load(0, "cpu", params)
    return {"problem": data["problem"], "test": data["test"]()}


def score_simulated(predictor: Predictor, data: Data, params: dict[str, Any]) -> dict[str, float]:
    """Errors in the units of the target, and what is selected of which inputs."""
    x, y, f = data["test"]()
    outputs, scale = predictor.predict(x, params["draws"]), data["scale"]
    fitted = predictor.fitted_variance(params["draws"])
    found = {"rmse": float(metrics.rmse(outputs.mean(0) * scale + data["mean"], f))}
    for name, variance in (("nll", fitted), ("nll_as_trained", predictor.variance)):
        found[name] = float(predictive_nll(outputs, y, max(variance, 1e-6))) + math.log(scale)
    found["crps"] = scale * float(metrics.crps(outputs[:, :2000], y[:2000], math.sqrt(fitted)))
    noise = torch.Generator(x.device).manual_seed(7)
    many = outputs.repeat(-(-1000 // len(outputs)), 1, 1)[:, :2000]
    found["coverage"] = float(metrics.coverage(many, y[:2000], noise_scale=math.sqrt(fitted), generator=noise))
    relevant = torch.arange(x.shape[1], device=x.device) < NUM_RELEVANT
    selected, inclusion = predictor.selected, predictor.inclusion()
    found |= {
        "fpr": float(metrics.false_positive_rate(selected, relevant)),
        "fnr": float(metrics.false_negative_rate(selected, relevant)),
        "fdr": float(metrics.false_discovery_rate(selected, relevant)),
        "inclusion_brier": float((inclusion - relevant.float()).square().mean()),
    }
    return found


def load_task_images(name: str, other: str, replicate: int, device, params=None) -> Data:
    """Images of one set with 5,000 held out, and behind "test" its test images and those of another."""
    params = {"scaling": "unit", "held_out": 5000, "data": name, **(params or {})}
    data = load_images(params, torch.device(device))

    def test() -> tuple[Tensor, Tensor, Tensor]:
        unknown = load_images({**params, "data": params.get("unknown", other), "held_out": 0}, torch.device(device))
        return (*data["test"], unknown["test"][0])

    (x, y), held = data["train"], data["validation"]
    return {"problem": Problem(x, y, *held, kind="classification", batch_size=128), "test": test}


def score_images(predictor: Predictor, data: Data, params: dict[str, Any]) -> dict[str, float]:
    """Errors, calibration, unknown images and shifted ones."""
    x, y, unknown = data["test"]()
    held, labels = data["problem"].x_validation, data["problem"].y_validation
    draws = params["draws"]
    known = log_predictive(predictor.predict(x, draws))
    temperature = metrics.fit_temperature(log_predictive(predictor.predict(held, draws)), labels)
    probabilities = known.exp()
    probabilities /= probabilities.sum(dim=1, keepdim=True)
    others = log_predictive(predictor.predict(unknown[: params["shifted_rows"]], draws))
    entropies = [-(one.exp() * one).sum(dim=1) for one in (others, known)]
    found = {
        "accuracy": metrics.accuracy(known, y),
        "nll": float(nn.functional.nll_loss(known, y)),
        "nll_tempered": float(nn.functional.cross_entropy(known / temperature, y)),
        "temperature": temperature,
        "ece": metrics.ece(probabilities, y, equal_mass=True),
        "brier": metrics.brier(probabilities, y),
        "auroc_unknown": metrics.auroc(*entropies),
    }
    rows = slice(0, params["shifted_rows"])
    for kind in SHIFTS:
        for severity in params["severities"]:
            outputs = log_predictive(predictor.predict(shifted(x[rows], kind, severity), draws))
            found[f"nll_{kind}_{severity}"] = float(nn.functional.cross_entropy(outputs / temperature, y[rows]))
            found[f"accuracy_{kind}_{severity}"] = metrics.accuracy(outputs, y[rows])
    return found


def _first_weights(replicate: int) -> torch.Generator:
    return torch.Generator().manual_seed(2_000 + replicate)


def _mlp(sizes: tuple[int, ...], activation: str, replicate: int) -> nn.Module:
    return mlp(sizes, activation, generator=_first_weights(replicate))


def _lenet(replicate: int) -> nn.Module:
    return lenet_300_100(generator=_first_weights(replicate))


TASKS = {
    "simulation-2": Task(
        partial(load_simulated, simulated.simulation_two, 3000, 512),
        partial(_mlp, (200, 7, 7, 7, 1), "relu"),
        500,
        score_simulated,
    ),
    "sparse-teacher": Task(
        partial(load_simulated, simulated.sparse_teacher, 500, 128),
        partial(_mlp, (100, 6, 6, 1), "tanh"),
        500,
        score_simulated,
    ),
    "correlated": Task(
        partial(load_simulated, correlated_teacher, 500, 128),
        partial(_mlp, (100, 6, 6, 1), "tanh"),
        500,
        score_simulated,
    ),
    "mnist": Task(partial(load_task_images, "mnist", "fmnist"), _lenet, 4300, score_images),
    "fmnist": Task(partial(load_task_images, "fmnist", "mnist"), _lenet, 4300, score_images),
}


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """Try the settings, or take those of the budget before; then train with them and with the default on every seed."""
    params, method = cell.params, METHODS[cell.method]
    place, default, rows = cell.setting, method.trials(1)[0], []
    if products:
        chosen = products[0]["settings"]
    else:
        trials = method.trials(params["trials"])
        tried = [_validated(cell, trial, device) for trial in trials]
        chosen = trials[min(range(len(trials)), key=tried.__getitem__)]
        for number, loss in enumerate(tried):
            rows += rows_of(cell, {"validation_nll": loss}, f"{place}, trials", replicate=number)
    for replicate in cell.replicates:
        done: dict[tuple, dict[str, float]] = {}
        for name, settings in (("default", default), ("tuned", chosen)):
            if products and name == "default":
                continue
            key = tuple(settings.items())
            if key not in done:
                done[key] = scored(cell, settings, replicate, device)
            rows += rows_of(cell, done[key], f"{place}, {name}", replicate=replicate)
    rows += rows_of(cell, {f"setting {name}": value for name, value in chosen.items()}, f"{place}, tuned")
    return CellResult(rows, product={"settings": chosen})


def trained(cell: Cell, settings: dict[str, float], replicate: int, device) -> tuple[Predictor, Data, bool]:
    """The predictor, the data, and whether it diverged; the one that knows nothing stands for one that did."""
    task = TASKS[cell.params["task"]]
    data, network = task.load(replicate, device, cell.params), task.network(replicate).to(device)
    try:
        predictor = METHODS[cell.method].fit(network, data["problem"], cell.params["steps"], replicate, settings)
        bad = not bool(predictor.predict(data["problem"].x_validation, 2).isfinite().all())
    except DivergedError:
        bad = True
    if bad:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
        predictor = Predictor(network.eval(), data["problem"], variance=1.0, cost={"seconds": 0.0})
    return predictor, data, bad


def _validated(cell: Cell, settings: dict[str, float], device) -> float:
    predictor, data, _ = trained(cell, settings, TUNED_ON, device)
    problem = data["problem"]
    outputs = predictor.predict(problem.x_validation, cell.params["draws"])
    if problem.kind == "classification":
        return float(predictive_nll(outputs, problem.y_validation))
    return float(predictive_nll(outputs, problem.y_validation, predictor.fitted_variance(cell.params["draws"])))


def scored(cell: Cell, settings: dict[str, float], replicate: int, device) -> dict[str, float]:
    """All metrics of one run."""
    predictor, data, diverged = trained(cell, settings, replicate, device)
    found = TASKS[cell.params["task"]].score(predictor, data, cell.params)
    sizes = predictor.size_in_bytes()
    found |= {"active": 100.0 * (1.0 - predictor.sparsity), "bytes": min(sizes.values()), "bytes_dense": sizes["dense"]}
    return found | {"networks": predictor.networks, "diverged": float(diverged), "seconds": predictor.cost["seconds"]}

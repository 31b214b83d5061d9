"""How the experiments on Structured Bayesian Pruning pretrain, prune, choose and compress one network.

All methods start from the same dense network of a replicate, the product of "Original", and end as the network that
`compress` makes: its test error, its units, and its costs next to those of the dense network are what is reported.
Where a method has several candidates (strengths of a penalty), each is trained, and the smallest network is taken that
costs at most `TOLERANCE` points on held-out training images. Test images are looked at once, at the end. Nothing is
fine-tuned after pruning, except for SSL, whose penalty shrinks the weights that stay as well: it ends after half of
the epochs, and the groups that are 0 by then are held.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from bnnlib.nn import to_bayesian
from bnnlib.pruning import GroupLasso, compress, compression_report
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.fit import Run, cosine
from book.lab.cells import Cell, CellResult, Experiment, Need, rows_of
from book.lab.probes import first
from chapters.shared.augmentation import Compose, RandomCrop, RandomHorizontalFlip
from chapters.shared.images import BestEpoch, Split, error_percent, load_images, reads
from chapters.shared.stages import Stages
from chapters.shared.training import falling, falling_late, fit, rising
from chapters.unit_noise.experiments.networks import UnitCurve, add_noise, flops, frozen_statistics, network, units_left

# a real cell at the sizes of the digits
TINY = {"data": "digits", "held_out": 300, "epochs": 2, "repeats": 2, "warm_up": 1, "dense": {"epochs": 2}}
TINY |= {"candidates": first(2), "width": 0.05}
BEST = "error_test_best_epoch"  # of the network with its noise, as the published code keeps it
TOLERANCE = 0.2  # points of held-out error that pruning may cost
NOISE = ("location", "log_scale", "weight_log_variance")  # parameters with a learning rate of their own
EXAMPLES = 1000  # held-out images on which the compressed network is compared with the masked one


def budget(cell: Cell) -> tuple[float, str]:
    """Epochs of the dense network and of its pruning."""
    return cell.params["dense"]["epochs"] + cell.params.get("epochs", 0), "epochs"


def pruned_from(name: str, dense: Cell, methods: dict[str, dict[str, Any]]) -> list[Cell]:
    """The cell of the dense network, and those of the methods that prune it, by their parameters.

    Args:
        name: of the experiment.
        dense: the cell "Original".
        methods: name to the parameters that a method has of its own.
    """
    start = replace(dense, needs=(Need(name, dense),))
    return [dense] + [replace(start, method=one, params=dense.params | params) for one, params in methods.items()]


def run_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """Train the dense network, which is then the product; or prune it.

    To prune is to train every candidate, to choose on the held-out images, and to measure the compressed network.
    """
    params, data = cell.params, load_images(cell.params, device)
    stages = Stages(checkpoint)
    # of training: sums in one order
    layout = torch.channels_last if _channels_last(params) else torch.contiguous_format
    dense = network(params, 90_000 + cell.replicates[0]).to(device, memory_format=layout)
    if cell.method == "Original":
        best = _best(params, data)
        _fit(dense, data, params | params["dense"], device, 91_000 + cell.replicates[0], stages, best)
        rows = _measured(cell, dense, data) + [row for one in best for row in rows_of(cell, {BEST: one.error})]
        return CellResult(rows, product={"model": dense.state_dict()})
    dense.load_state_dict(products[0]["model"])
    candidates = params["candidates"]
    for candidate in candidates[len(stages.finished) :]:
        stages.finish(_candidate(cell, candidate, dense, data, device, stages))
    found = stages.finished
    reference = error_percent(dense, data, "validation")
    best = found[choose([(one["error"], one["flops"]) for one in found], reference)]
    model = _build(cell, candidates[found.index(best)], dense).to(device)
    model.load_state_dict(best["model"])
    rows = _measured(cell, model, data) + (rows_of(cell, {BEST: best[BEST]}) if BEST in best else [])
    for candidate, one in zip(candidates, found, strict=True):
        label = ", ".join(f"{name}={_shown(value)}" for name, value in candidate.items())
        note = "chosen on the held-out images" if one is best and len(found) > 1 else ""
        values = {"error_validation": one["error"], "flops_ratio": flops(dense, data["train"][0][:1]) / one["flops"]}
        rows += rows_of(cell, values, f"{cell.setting}, {cell.method} with {label}", note=note)
    rows += rows_of(cell, {"error_validation_original": reference})
    return CellResult(rows, {name: np.asarray(values, np.float32) for name, values in best["curves"].items()})


def choose(found: list[tuple[float, int]], reference: float) -> int:
    """Index of the (held-out error, FLOPs) with the fewest FLOPs among errors up to `reference` + `TOLERANCE`.

    If there is none, that of the smallest error.
    """
    near = [index for index, (error, _) in enumerate(found) if error <= reference + TOLERANCE + 1e-9]
    if not near:
        return min(range(len(found)), key=lambda index: found[index][0])
    return min(near, key=lambda index: found[index][1])


def _build(cell: Cell, candidate: dict[str, Any], dense: nn.Module) -> nn.Module:
    if cell.method == "SSL":
        return copy.deepcopy(dense)
    if cell.method == "SparseVD":
        return to_bayesian(dense, "sparse_vd")
    free = not cell.method.endswith(", fixed mu")
    return add_noise(dense, cell.params["network"], candidate["kl_weights"], learn_location=free)


def _candidate(cell: Cell, candidate: dict[str, Any], dense: nn.Module, data: Split, device, stages: Stages):
    model = _build(cell, candidate, dense).to(device)
    params = cell.params | candidate
    steps = -(-len(data["train"][0]) // params["batch_size"])
    # the second half trains the groups that are left, without the penalty
    lasso = []
    if "strength" in params:
        half, layers = steps * params["epochs"] // 2, params.get("layers")
        lasso.append(GroupLasso(model, params["strength"], half, layers=layers))
    units = [UnitCurve()] if "kl_weights" in params else []
    best = _best(params, data)
    with frozen_statistics(model):
        run = _fit(model, data, params, device, 92_000 + cell.replicates[0], stages, [*lasso, *units, *best])
    small = compress(model, data["train"][0][:2])
    curves = {
        "nll": [len(data["train"][0]) * row["nll"] for row in run.history],  # summed over the images, in nats
        "kl": [row["kl"] for row in run.history],  # with the weights of its layers
    }
    if units:
        curves["units"] = units[0].rows
    return {
        "error": error_percent(small, data, "validation"),
        "flops": flops(small, data["train"][0][:1]),
        "model": model.state_dict(),
        "curves": curves,
    } | ({BEST: best[0].error} if best else {})


def _channels_last(params: dict[str, Any]) -> bool:
    return params["bfloat16"] or params.get("channels_last", False)


def _best(params: dict[str, Any], data: Split) -> list[BestEpoch]:
    return [BestEpoch(data["test"])] if params.get("best_epoch") else []


def rates(schedule: str, epochs: int) -> Callable[[int], float]:
    """Of the learning rate: "cosine", "linear" or "late"."""
    if schedule == "cosine":
        return cosine(epochs)
    return partial(falling_late if schedule == "late" else falling, steps=epochs)


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    found = {}
    trainings = [cell.params["dense"]] if cell.method == "Original" else cell.params["candidates"]
    for own in trainings:
        params = cell.params | own
        epochs, weight = range(params["epochs"]), params.get("kl_scale", 1.0)
        found["learning rate"] = (rates(params["schedule"], len(epochs)), epochs)
        if params.get("warm_up", 0):
            found[f"divergence {weight:g}"] = (partial(rising, weight=weight, warm_up=params["warm_up"]), epochs)
    return found


def _fit(model: nn.Module, data: Split, params: dict[str, Any], device, seed: int, stages: Stages, callbacks) -> Run:
    epochs, rate = params["epochs"], params["learning_rate"]
    groups = [{"params": [p for name, p in model.named_parameters() if not name.endswith(NOISE)]}]
    groups[0]["weight_decay"] = params["weight_decay"]
    noise = [p for name, p in model.named_parameters() if name.endswith(NOISE) and p.requires_grad]
    if noise:
        groups.append({"params": noise, "lr": rate * params["noise_factor"], "weight_decay": 0.0})
    if params["optimizer"] == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(groups, lr=rate, momentum=0.9)
    else:
        optimizer = torch.optim.Adam(groups, lr=rate, betas=(0.95, 0.999), fused=True)  # beta_1 as published
    # a network that knows its images by heart has gradients below 1e-38, each of which costs a CPU some hundred cycles
    torch.set_flush_denormal(True)
    try:
        return fit(
            model,
            data["train"],
            epochs=epochs,
            batch_size=params["batch_size"],
            optimizer=optimizer,
            kl_scale=partial(rising, weight=params.get("kl_scale", 1.0), warm_up=params.get("warm_up", 0)),
            schedule=rates(params["schedule"], epochs),
            augment=Compose([RandomCrop(4), RandomHorizontalFlip()]) if params.get("augment") else None,
            autocast=torch.bfloat16 if params["bfloat16"] else None,
            channels_last=_channels_last(params),
            generator=torch.Generator(device).manual_seed(seed),
            checkpoint=stages,
            callbacks=callbacks,
        )
    finally:
        torch.set_flush_denormal(False)


def _measured(cell: Cell, model: nn.Module, data: Split) -> list[dict[str, Any]]:
    """Rows of the compressed network: its test error, units, and costs of the dense network divided by its own.

    A cell with "timed" false has no latencies: it may share its machine with other work.
    """
    example = data["validation"][0][:EXAMPLES]
    small = compress(model, example[:2])
    batches = (1, 256) if cell.params.get("timed", True) else ()
    report = compression_report(model, small, example, batches=batches, repeats=cell.params["repeats"])
    values = {f"error_{part}": error_percent(small, data, part) for part in ("test", "validation")}
    values |= {f"units_{i}": count for i, count in enumerate(units_left(small, cell.params["network"]), 1)}
    values |= {f"{name}_ratio": report[name]["ratio"] for name in ("flops", "parameters", "bytes")}
    for row in report["latency"]:
        place = {"cpu": "cpu", "cuda": "gpu"}[row["device"]] + ("_onnx" if row["runtime"] == "onnxruntime" else "")
        values |= {f"{place}_batch_{row['batch']}": row["ratio"]}
        values |= {f"{place}_batch_{row['batch']}_ms": row["compressed_ms"]}
    return rows_of(cell, values | {"max_difference": report["max_difference"]})


def _shown(value: Any) -> str:
    return "/".join(f"{one:g}" for one in value) if isinstance(value, list) else f"{value:g}"


experiment = partial(
    Experiment,
    run_cell=run_cell,
    tiny=TINY,
    measured=("cpu", "gpu"),  # latencies
    reads=reads,
    schedules=schedules,
    budget=budget,
)

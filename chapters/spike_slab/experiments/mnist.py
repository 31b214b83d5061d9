"""MNIST with two hidden layers of 512, after Bai, Song and Cheng (2020): exact and tempered objectives, AGP and VD.

The paper's settings for MNIST are in its supplement only. Ours are stated in `_book` and `_paper`; every choice among
them is made on 10,000 images held out of the training set, and test images score the finished choice only.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from bnnlib.functional import inclusion_probability_for
from bnnlib.models import mlp
from bnnlib.nn.objective import percent_active
from bnnlib.nn.sparse_vd import SparseVDLinear
from bnnlib.nn.spike_slab import SpikeSlabLinear
from bnnlib.pruning import AGPPruner, agp_sparsity
from bnnlib.train import DivergedError
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.fit import Run, cosine
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from book.lab.probes import first
from chapters.shared.stages import Stages
from chapters.shared.training import fit
from chapters.spike_slab.experiments.mnist_scores import (
    Curves,
    Split,
    elbo_account,
    final_scores,
    load_split,
    probabilities,
    reads,
    scores,
)
from chapters.spike_slab.experiments.simulations import rising

CHOSEN = {"kl_scale": 0.05}  # by replicate 0 of the book profile; its other replicates repeat this candidate only
MAX_ACTIVE = 6.0  # percent; a candidate that keeps more is not chosen
ROWS = 50_000  # images of MNIST that are left to train on


def _generators(cell: Cell, device: torch.device) -> tuple[torch.Generator, torch.Generator]:
    # weights start from a CPU generator, so that a GPU run starts where a CPU run does
    seed = cell.replicates[0]
    return torch.Generator().manual_seed(40_000 + seed), torch.Generator(device).manual_seed(50_000 + seed)


def _spike_slab(params: dict[str, Any], num_data: int, start: torch.Generator) -> nn.Sequential:
    prior = params["prior_inclusion_probability"]
    return mlp(
        params["sizes"],
        layer=SpikeSlabLinear,
        generator=start,
        prior_inclusion_probability=inclusion_probability_for(params["sizes"], num_data) if prior == "opt" else prior,
        prior_scale=params["prior_scale"],
        initial_inclusion_probability=params["initial_inclusion_probability"],
    )


def _train(
    model, data: Split, params: dict[str, Any], gates: str, kl_scale, generator, checkpoint
) -> tuple[Run, Curves]:
    """Adam, with a learning rate of their own for the parameters whose names end so."""
    own = {name: p for name, p in model.named_parameters() if name.endswith(gates)}
    others = [p for name, p in model.named_parameters() if name not in own]
    groups = [
        {"params": others, "lr": params["learning_rate"]},
        {"params": list(own.values()), "lr": params["gate_learning_rate"]},
    ]
    curves = Curves(data, lambda: percent_active(model))
    run = fit(
        model,
        data["train"],
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        optimizer=torch.optim.Adam(groups, fused=True),
        kl_scale=kl_scale,
        schedule=cosine(params["epochs"]) if params.get("cosine", True) else None,
        generator=generator,
        checkpoint=checkpoint,
        callbacks=[curves],
    )
    return run, curves


def run_spike_slab(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """The paper's method: the exact objective, or the search among tempered ones."""
    return (run_search if "candidates" in cell.params else run_exact)(cell, device, checkpoint)


def run_exact(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """The objective of the paper at lambda_opt, as it is."""
    data = load_split(cell.params, device)
    start, generator = _generators(cell, device)
    model = _spike_slab(cell.params, len(data["train"][1]), start).to(device)
    run, curves = _train(model, data, cell.params, "_logit", cell.params["kl_scale"], generator, checkpoint)
    values = final_scores(model, data, generator) | elbo_account(model, data, generator) | {"epochs": run.epoch}
    # what stopping early would give: the first epoch with few enough weights
    early = next((row for row in curves.rows if row[3] <= MAX_ACTIVE), None)
    if early:
        values |= {"early_stop_epoch": early[0], "accuracy_validation_early_stop": early[1]}
    return CellResult(rows_of(cell, values), {"curve": curves.array(True).numpy()})


def run_search(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Train the candidates, choose on the held-out images, and measure the chosen one on the test images."""
    data = load_split(cell.params, device)
    stages = Stages(checkpoint)
    for candidate in cell.params["candidates"][len(stages.finished) :]:
        params = cell.params["common"] | candidate
        start, generator = _generators(cell, device)
        model = _spike_slab(params, len(data["train"][1]), start).to(device)
        try:
            _, curves = _train(model, data, params, "_logit", params["kl_scale"], generator, stages)
            x, y = data["validation"]
            found = scores(probabilities(model, x, generator), y)
            row = {"accuracy": found["accuracy"], "nll": found["nll"], "active": percent_active(model), "error": ""}
            row |= {"curve": curves.rows, "model": model.state_dict(), "generator": generator.get_state()}
        except DivergedError as error:
            row = {"accuracy": 0.0, "nll": math.inf, "active": 100.0, "error": str(error), "curve": []}  # never chosen
        stages.finish(row)
    return _chosen(cell, device, data, stages.finished)


def _chosen(cell: Cell, device: torch.device, data: Split, finished: list[dict[str, Any]]) -> CellResult:
    if all(one["error"] for one in finished):
        raise DivergedError(f"every candidate diverged; the first one said: {finished[0]['error']}")
    good = [one for one in finished if one["active"] <= MAX_ACTIVE]
    best = max(good, key=lambda one: one["accuracy"]) if good else min(finished, key=lambda one: one["active"])
    rows, arrays = [], {}
    for candidate, one in zip(cell.params["candidates"], finished, strict=True):
        label = ", ".join(f"{name}={value:g}" for name, value in candidate.items())
        values = {"accuracy_validation": one["accuracy"], "active": one["active"]}
        values |= {} if one["error"] else {"nll_validation": one["nll"]}
        rows += rows_of(cell, values, f"candidate {label}", note=one["error"])
        if one["curve"]:
            curves = Curves(data, None)
            curves.rows = one["curve"]
            arrays["curve" if one is best else f"curve {label}"] = curves.array(one is best).numpy()
        if one is best:
            params = cell.params["common"] | candidate
            note = f"chosen on the held-out images: {label}"
    start, generator = _generators(cell, device)
    model = _spike_slab(params, len(data["train"][1]), start).to(device)
    model.load_state_dict(best["model"])
    generator.set_state(best["generator"].cpu())
    values = final_scores(model, data, generator) | elbo_account(model, data, generator)
    chosen = [row | {"note": note} if row["metric"] == "accuracy" else row for row in rows_of(cell, values)]
    return CellResult(chosen + rows, arrays)


def run_vd(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Sparse variational dropout (Molchanov et al., 2017), with a warm-up of its divergence as they advise."""
    params, data = cell.params, load_split(cell.params, device)
    start, generator = _generators(cell, device)
    model = mlp(params["sizes"], layer=SparseVDLinear, generator=start).to(device)
    kl_scale = partial(rising, warm_up=params["warm_up"])
    _, curves = _train(model, data, params, "_log_variance", kl_scale, generator, checkpoint)
    return CellResult(rows_of(cell, final_scores(model, data, generator)), {"curve": curves.array(True).numpy()})


def ramp(steps: int, final_sparsity: float) -> dict[str, Any]:
    """When gradual pruning begins and ends."""
    return {"final_sparsity": final_sparsity, "begin_step": steps // 8, "end_step": steps * 3 // 4}


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    params = cell.params.get("common", cell.params)
    epochs, found = params["epochs"], {}
    if params.get("cosine", True):
        found["learning rate"] = (cosine(epochs), range(epochs))
    if "warm_up" in params:
        found["divergence"] = (partial(rising, warm_up=params["warm_up"]), range(epochs))
    if "kept" in params:
        steps = epochs * ROWS // params["batch_size"]
        found["sparsity"] = (partial(agp_sparsity, **ramp(steps, 1.0 - params["kept"])), range(steps))
    return found


def run_agp(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Automated gradual pruning to 5.00 % of all parameters; biases are kept and count."""
    params, data = cell.params, load_split(cell.params, device)
    start, generator = _generators(cell, device)
    model = mlp(params["sizes"], generator=start).to(device)
    total = sum(parameter.numel() for parameter in model.parameters())
    weights = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() == 2)
    final = 1.0 - (params["kept"] * total - (total - weights)) / weights
    steps = -(-len(data["train"][1]) // params["batch_size"]) * params["epochs"]
    pruner = AGPPruner(model, **ramp(steps, final), frequency=max(1, steps // 100))
    curves = Curves(data, lambda: 100.0 * (1.0 - pruner.sparsity * weights / total))
    fit(
        model,
        data["train"],
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        optimizer=torch.optim.Adam(model.parameters(), lr=params["learning_rate"], fused=True),
        schedule=cosine(params["epochs"]),
        generator=generator,
        checkpoint=checkpoint,
        callbacks=[pruner, curves],
    )
    x, y = data["test"]
    with torch.no_grad():
        values = scores(model.eval()(x).softmax(dim=1), y)
    # the paper's word for the percentage of active weights
    return CellResult(rows_of(cell, values | {"sparsity": curves.active()}), {"curve": curves.array(True).numpy()})


def _cells(sizes, data: str, held_out: int, batch_size: int, epochs: dict[str, int], replicates: int) -> list[Cell]:
    common = {"data": data, "held_out": held_out, "sizes": list(sizes), "batch_size": batch_size}
    spike = {"learning_rate": 3e-3, "prior_scale": math.sqrt(2.0)}
    spike |= {"prior_inclusion_probability": "opt", "initial_inclusion_probability": 0.99}
    # With Adam a gate moves by about its learning rate a step: at 3e-3 the gates that should close were still on their
    # way from 0.99 to the prior after 80 epochs.
    spike |= {"gate_learning_rate": 1e-2, "cosine": True}
    exact = {"kl_scale": 1.0, "epochs": epochs["exact"]}
    search = common | spike | {"epochs": epochs["search"]}
    candidates = [
        {"kl_scale": 0.05},
        {"kl_scale": 0.02},
        {"kl_scale": 0.03},
        {"kl_scale": 1.0, "prior_inclusion_probability": 0.1},
        {"kl_scale": 0.05, "initial_inclusion_probability": 0.5},
    ]
    agp = {"kept": 0.05, "learning_rate": 1e-3, "epochs": epochs["others"]}
    vd = {"learning_rate": 1e-3, "gate_learning_rate": 1e-2, "epochs": epochs["others"]}
    vd["warm_up"] = max(1, epochs["others"] // 4)
    cells = []
    for replicate in range(replicates):
        where = (replicate,)
        chosen = {"data": data, "held_out": held_out, "common": search, "candidates": candidates}
        cells += [
            Cell("tempered", "SVBNN", where, chosen),
            Cell("exact", "SVBNN", where, common | spike | exact),
            Cell("pruned", "AGP", where, common | agp),
            Cell("dropout", "VD", where, common | vd),
        ]
    return cells


def _book() -> list[Cell]:
    cells = _cells((784, 512, 512, 10), "mnist", 10_000, 512, {"exact": 100, "search": 30, "others": 40}, 1)
    search = next(cell for cell in cells if "candidates" in cell.params)
    exact = next(cell for cell in cells if cell.setting == "exact")
    again = {**search.params, "candidates": [CHOSEN]}
    for replicate in (1, 2):
        cells += [Cell(search.setting, search.method, (replicate,), again), replace(exact, replicates=(replicate,))]
    return cells


def _paper() -> list[Cell]:
    return _cells((784, 512, 512, 10), "mnist", 10_000, 512, {"exact": 400, "search": 400, "others": 400}, 3)


_TINY = {"data": "digits", "held_out": 300, "sizes": [64, 32, 32, 10], "batch_size": 128, "epochs": 2, "warm_up": 1}
_TINY |= {"candidates": first(2), "common": dict(_TINY)}

EXPERIMENTS = [
    Experiment(
        name="svbnn-mnist",
        summary="MNIST, 784-512-512-10: the exact objective, what tempering reaches, AGP and VD",
        profiles=profiles(
            _cells,
            smoke=((64, 32, 32, 10), "digits", 300, 128, {"exact": 2, "search": 2, "others": 2}, 1),
            book=_book,
            paper=_paper,
        ),
        run_cell=run_spike_slab,
        tiny=_TINY,
        unavailable={"paper": "not run: no GPU"},
        methods={"AGP": run_agp, "VD": run_vd},
        reads=reads,
        schedules=schedules,
        budget=lambda cell: (cell.params.get("common", cell.params)["epochs"], "epochs"),
        value=3.0,
    )
]

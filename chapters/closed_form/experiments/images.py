"""How experiments 6 to 9 of Saha, Liu and Liang (2024) train, choose and prune one network.

The paper chose its hyper-parameters by test errors. Here each candidate (tau_1, tau_0, pi, weight of the KL term,
start) is trained on the training images without the held-out ones, compared by the held-out errors at the drop rates of
`choose_at`, and the chosen network is scored once on the test images. Pruned networks use the posterior means, as the
paper's replacement "with a constant zero" implies; what they lose is measured against the means of the whole network.
Sparse VD has no p*, and its biases have no posterior: its drop rates are shares of the weights alone, and its whole
network is without the weights that its own threshold drops.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from bnnlib import metrics
from bnnlib.nn import percent_active, predict, to_bayesian
from bnnlib.pruning import prune_ranked, weight_scores
from bnnlib.train import DivergedError
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.fit import cosine
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, rows_of
from book.lab.probes import first
from chapters.closed_form.experiments.networks import network, prior_of, scale_means
from chapters.shared.augmentation import Compose, RandomCrop, RandomHorizontalFlip
from chapters.shared.images import Split, error_percent, load_images, reads
from chapters.shared.stages import Stages
from chapters.shared.training import fit, rising

RANKED_BY = {"sBNN": "inclusion", "BbB": "signal_to_noise", "Sparse VD": "signal_to_noise"}  # each as its paper prunes
OTHERS = {"sBNN": ("signal_to_noise", "magnitude"), "BbB": ("inclusion", "magnitude")}
LABELS = {"inclusion": "p*", "signal_to_noise": "SNR", "magnitude": "|m|"}
NUM_DRAWS = 30
# a real cell of this study at the sizes of the digits
TINY = {"data": "digits", "held_out": 300, "epochs": 2, "batch_size": 256, "warm_up": 1, "candidates": first(2)}
TINY |= {"sizes": lambda sizes: [sizes[0], 32, 32, 10], "width": 0.05, "pretrain": {"epochs": 1}}
TOLERANCE = 0.1  # points of held-out error that the reported sparsity may cost


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Train the candidates, choose on the held-out images, and measure the chosen network on the test images."""
    params, data = cell.params, load_images(cell.params, device)
    stages = Stages(checkpoint)
    pretrained = None
    if params.get("pretrain"):
        if not stages.finished:
            start = network(params, "deterministic", 80_000 + cell.replicates[0]).to(device)
            train(start, data, params | params["pretrain"], {}, device, 81_000 + cell.replicates[0], stages)
            stages.finish(start.state_dict())
        pretrained = stages.finished[0]
    skip = int(pretrained is not None)
    for index, candidate in enumerate(params["candidates"]):
        if index + skip >= len(stages.finished):
            stages.finish(_candidate(cell, candidate, pretrained, data, device, stages))
    found = stages.finished[skip:]
    if all(one["error"] for one in found):
        raise DivergedError(f"every candidate diverged; the first one said: {found[0]['error']}")
    best = min((one for one in found if not one["error"]), key=lambda one: one["score"])
    chosen = params["candidates"][found.index(best)]
    model = _build(cell, chosen, pretrained).to(device)
    model.load_state_dict(best["model"])
    rows, arrays = _final(cell, model, data, device, best["validation"])
    for candidate, one in zip(params["candidates"], found, strict=True):
        values = {f"validation_error_at_{rate}": error for rate, error in one["validation"].items()}
        note = one["error"] or ("chosen on the held-out images" if one is best and len(found) > 1 else "")
        rows += rows_of(cell, values, f"{cell.setting}, candidate {_label(candidate)}", note=note)
    return CellResult(rows, arrays)


def _label(candidate: dict[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in candidate.items())


def _build(cell: Cell, candidate: dict[str, float], pretrained: dict[str, Tensor] | None) -> nn.Module:
    seed = 80_000 + cell.replicates[0]
    if pretrained is None:
        model = network(cell.params, cell.method, seed, prior_of(candidate))
        scale_means(model, candidate.get("mean_scale", 1.0))
        return model
    start = network(cell.params, "deterministic", seed)
    start.load_state_dict(pretrained)
    kind = {"sBNN": "gaussian_spike_slab", "BbB": "scale_mixture"}[cell.method]
    return to_bayesian(start, kind, **prior_of(candidate))


def first_epochs(params: dict[str, Any]) -> int:
    """Epochs before anything is removed: those of all trainings without those after each removal."""
    return max(1, params["epochs"] - params.get("retrain", 0) * (len(params["drop_rates"]) - 1))


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    params, found = cell.params, {}
    lengths = {"": first_epochs(params)}
    if retrain := params.get("retrain"):
        lengths[", retrain"] = retrain
    if pretrain := params.get("pretrain"):
        lengths[", pretraining"] = pretrain["epochs"]
    for name, epochs in lengths.items():
        if params["cosine"]:
            found[f"learning rate{name}"] = (cosine(epochs), range(epochs))
    for weight in sorted({candidate.get("kl_scale", 0.0) for candidate in params.get("candidates", [])}):
        if params.get("warm_up", 0):
            part = partial(rising, weight=weight, warm_up=params["warm_up"])
            found[f"divergence {weight:g}"] = (part, range(params["epochs"]))
    return found


def _candidate(cell: Cell, candidate, pretrained, data: Split, device, stages: Stages) -> dict[str, Any]:
    model = _build(cell, candidate, pretrained).to(device)
    try:
        train(model, data, cell.params, candidate, device, 82_000 + cell.replicates[0], stages)
    except DivergedError as error:
        return {"error": str(error), "score": float("inf"), "validation": {}}
    errors = pruning_curve(model, data, "validation", cell.params["drop_rates"], RANKED_BY[cell.method])
    score = float(np.mean([errors[str(rate)] for rate in cell.params["choose_at"]]))
    return {"error": "", "score": score, "validation": errors, "model": model.state_dict()}


def train(
    model: nn.Module, data: Split, params: dict, candidate: dict, device, seed: int, stages: Stages, callbacks=()
) -> None:
    """Train `model` in place as the cell's `params` and the `candidate` say; a checkpoint is kept in `stages`."""
    rate = candidate.get("learning_rate", params.get("learning_rate"))
    groups: list[dict[str, Any]] = [{"params": list(model.parameters())}]
    if factor := params.get("noise_factor"):  # a learning rate of their own for the scales of Sparse VD
        own = {name: p for name, p in model.named_parameters() if name.endswith("log_variance")}
        groups = [{"params": [p for name, p in model.named_parameters() if name not in own]}]
        groups.append({"params": list(own.values()), "lr": rate * factor})
    if params["optimizer"] == "sgd":
        more = {"momentum": params["momentum"], "weight_decay": params.get("weight_decay", 0.0)}
        optimizer: torch.optim.Optimizer = torch.optim.SGD(groups, lr=rate, **more)
    else:
        optimizer = torch.optim.Adam(groups, lr=rate, fused=True)
    fit(
        model,
        data["train"],
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        optimizer=optimizer,
        kl_scale=partial(rising, weight=candidate.get("kl_scale", 0.0), warm_up=params.get("warm_up", 0)),
        minibatch_scheme=params["minibatch_scheme"],
        schedule=cosine(params["epochs"]) if params["cosine"] else None,
        augment=Compose([RandomCrop(4), RandomHorizontalFlip()]) if params.get("augment") else None,
        autocast=torch.bfloat16 if params.get("bfloat16") else None,
        channels_last=bool(params.get("bfloat16")),
        generator=torch.Generator(device).manual_seed(seed),
        keyed=params.get("keyed", False),
        checkpoint=stages,
        callbacks=list(callbacks),
    )


def pruning_curve(model: nn.Module, data: Split, part: str, drop_rates: list[float], by: str) -> dict[str, float]:
    """Error in percent of the posterior means after each drop rate (percent of all weights and biases).

    Where there is batch norm its statistics are taken anew from training images: those of training belong to noisy
    weights.
    """
    normalized = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    errors = {}
    for rate in drop_rates:
        pruned = prune_ranked(model, rate / 100.0, by=by)
        if normalized:
            update_bn(data["train"][0][:10_000].split(500), pruned)
        errors[f"{rate:g}"] = error_percent(pruned, data, part)
    return errors


def curve_rows(rates: list[float], test: dict[str, float], validation: dict[str, float]) -> dict[str, float]:
    """Values of a network at all drop rates, and at the highest that costs next to nothing on the held-out images."""
    kept = max((rate for rate in rates if validation[f"{rate:g}"] <= validation["0"] + TOLERANCE), default=0)
    values = {"error_test": test["0"], "accuracy": 100.0 - test["0"]}
    values |= {"removed": kept, "error_pruned": test[f"{kept:g}"]}
    return values | {f"error_at_{rate}": error for rate, error in test.items()}


def _final(cell: Cell, model: nn.Module, data: Split, device, validation: dict[str, float]):
    rates = cell.params["drop_rates"]
    values = curve_rows(rates, pruning_curve(model, data, "test", rates, RANKED_BY[cell.method]), validation)
    x, y = data["test"]
    generator = torch.Generator(device).manual_seed(83_000)
    average = predict(model, x, NUM_DRAWS, 1000, generator).softmax(-1).mean(0)
    values |= {"error_predictive": 100.0 - metrics.accuracy(average, y), "nll": metrics.nll(average, y)}
    values |= {"active": percent_active(model)}
    if cell.method == "Sparse VD":
        return rows_of(cell, values), {}
    scores = torch.cat([score.flatten() for score in weight_scores(model).values()])
    values |= {"share_below_quarter": 100.0 * float((scores.sigmoid() < 0.25).float().mean())}
    rows = rows_of(cell, values)
    for other in OTHERS[cell.method]:
        curve = pruning_curve(model, data, "test", rates, other)
        values = {f"error_at_{rate}": error for rate, error in curve.items()}
        rows += rows_of(cell, values, method=f"{cell.method} by {LABELS[other]}")
    shares = np.linspace(0.0, 1.0, 201)
    quantiles = np.quantile(scores.double().sigmoid().cpu().numpy(), shares)
    return rows, {"inclusion_cdf": np.stack([quantiles, shares], axis=1).astype(np.float32)}


experiment = partial(Experiment, run_cell=run_cell, tiny=TINY, reads=reads, schedules=schedules, budget=epochs_of)

"""How the image experiments of Stochastic Batch Normalization train, score and compare networks.

A cell holds all networks of one architecture, with dropout or without, because the ensembles need them all. Networks
are trained with plain batch norm; afterwards moments are matched on batches of training images, augmented as in
training. Held-out training images fit the temperatures. Entropies are those of the averaged probabilities, in nats.

BN is the plain network with the running statistics of its training, SBN the average of draws from r(mu) r(sigma), DE
the average of all networks, DO that of draws of dropout masks; DE+SBN and DO+SBN combine them. Moments for DO+SBN are
matched with dropout on. Gains are SBN's metric less that of the same networks without it: `error_gain` and `auroc_gain`
in points, `entropy_gain` in nats, `nll_gain` likewise. With "best_epoch" the same networks are also measured at the
epoch that errs least on the test images, as the published table does; nothing else is made of that.
"""

import copy
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib import datasets, metrics
from bnnlib.nn import match_moments, predict, predict_dropout, to_stochastic_batch_norm
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.batch_statistics import formulas
from chapters.batch_statistics.lenet import lenet5_batch_norm
from chapters.batch_statistics.networks import preact_resnet18
from chapters.batch_statistics.statistics import collect_statistics
from chapters.batch_statistics.vgg import vgg11
from chapters.shared.augmentation import Compose, RandomCrop, RandomHorizontalFlip
from chapters.shared.images import BestEpoch, fitted, held_out_parts
from chapters.shared.stages import Stages
from chapters.shared.training import fit

Images = dict[str, Tensor]
PARTS = ("validation", "test", "unknown")
GRID = 101  # points of the stored distribution functions of the entropy
BINS = 15
SOURCES = {"SBN": "BN", "DE": "BN", "DE+SBN": "BN", "DO+SBN": "DO"}  # which networks a method averages over
# a real cell at the sizes of the digits
TINY = {"replicates": 2, "data": "digits", "held_out": 300, "unknown_rows": 100, "draws": 3, "shown_batches": 10}
TINY |= {"unknown": lambda name: name if name == "rest" else "digits", "chunk": 300, "batches": 10, "epochs": 1}
TINY |= {"width": 0.05, "noise_draws": 4, "noise_rows": 60}
COUNTS = (1, 2, 5, 10, 20, 50)  # draws after which SBN is measured too


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Train the networks of all seeds one after another, score each, and compare alone and as an ensemble.

    The product has the "models", replicate to the state of its network.
    """
    images, stages = load_images(cell.params, device), Stages(checkpoint)
    for replicate in cell.replicates[len(stages.finished) :]:
        model = network(cell.params, replicate).to(device)
        best = [BestEpoch((images["test"], images["test_y"]))] if cell.params.get("best_epoch") else []
        _train(model, images, cell.params, device, replicate, stages, best)
        scored = _score(model, images, cell, device, replicate) | {"model": copy.deepcopy(model.state_dict())}
        for one in best:
            model.load_state_dict(one.weights)
            scored["best epoch"] = _score(model, images, cell, device, replicate)
        stages.finish(scored)
    labels = {part: images[f"{part}_y"].cpu() for part in ("validation", "test")}
    plain, stochastic = ("DO", "DO+SBN") if cell.method == "DO" else ("BN", "SBN")
    rows: list[dict] = []
    arrays: dict[str, np.ndarray] = {}
    pairs = [(plain, stochastic, list(zip(cell.replicates, stages.finished, strict=True)))]
    if cell.method != "DO":
        average = {
            name: {part: sum(one[name][part] for one in stages.finished) / len(stages.finished) for part in PARTS}
            for name in (plain, stochastic)
        }
        pairs.append(("DE", "DE+SBN", [(cell.replicates[0], average)]))
    for without, with_sbn, members in pairs:
        found = {without: [], with_sbn: []}
        for replicate, one in members:
            measured = [measure(one[name], labels) for name in (plain, stochastic)]
            rows += rows_of(cell, measured[0], method=without, replicate=replicate)
            rows += rows_of(cell, measured[1] | _gains(*measured), method=with_sbn, replicate=replicate)
            found[without].append(one[plain])
            found[with_sbn].append(one[stochastic])
        for name, several in found.items():
            arrays |= {f"{name}|{key}": value for key, value in _curves(several, labels["test"]).items()}
    if cell.params.get("best_epoch"):
        rows += _best_rows(cell, [one["best epoch"] for one in stages.finished], (plain, stochastic), labels)
    for replicate, one in zip(cell.replicates, stages.finished, strict=True):
        rows += rows_of(cell, one["fit"], method=stochastic, replicate=replicate)
    arrays |= {f"{stochastic}|draws": torch.stack([one["draws"] for one in stages.finished]).numpy()}
    arrays |= {f"statistics|{name}": value.numpy() for name, value in stages.finished[0]["statistics"].items()}
    models = {replicate: one["model"] for replicate, one in zip(cell.replicates, stages.finished, strict=True)}
    return CellResult(rows, arrays, {"models": models})


def _best_rows(cell: Cell, found: list[dict], names: tuple[str, str], labels: dict[str, Tensor]) -> list[dict]:
    """Error and likelihood of the networks at their best epochs on the test images, alone and as an ensemble."""
    rows = []
    for name, together in zip(names, ("DE", "DE+SBN"), strict=True):
        members = list(zip([name] * len(found), cell.replicates, [one[name] for one in found], strict=True))
        if cell.method != "DO":
            average = {part: sum(one[name][part] for one in found) / len(found) for part in PARTS}
            members.append((together, cell.replicates[0], average))
        for method, replicate, one in members:
            values = measure(one, labels)
            best = {f"{metric}_best_epoch": values[metric] for metric in ("error_test", "nll")}
            rows += rows_of(cell, best, method=method, replicate=replicate)
    return rows


def load_images(params: dict[str, Any], device: torch.device) -> Images:
    """Inputs and labels: "train", "validation" and "test" of the known classes, and "unknown", which has no labels.

    Classes below params["classes"] are known, or those that params["known"] lists, which are numbered in its order.
    Unknown is another data set, or "rest": the test images of the others.
    """
    parts = held_out_parts(params["data"], params["held_out"])
    place = torch.full((int(parts["test"][1].max()) + 1,), -1)
    place[list(params.get("known", range(params["classes"])))] = torch.arange(params["classes"])
    unknown = parts["test"][0][place[parts["test"][1]] < 0]
    images: Images = {}
    for name, (x, y) in parts.items():
        known = place[y] >= 0
        images |= {name: fitted(x[known], params), f"{name}_y": place[y[known]]}
    if params["unknown"] != "rest":
        unknown = datasets.load(params["unknown"]).test_x[: params["unknown_rows"]]
    images["unknown"] = fitted(unknown, params)
    return {name: value.to(device) for name, value in images.items()}


def reads(cell: Cell) -> list[partial]:
    """The call of `load_images` that a cell makes, for its probe."""
    names = ("data", "held_out", "classes", "known", "unknown", "unknown_rows", "shape")
    asked = {name: cell.params[name] for name in names if name in cell.params}
    return [partial(load_images, asked, torch.device("cpu"))]


def falling(epoch: int, epochs: int, constant: float) -> float:
    """Of the learning rate: constant for a share of the epochs, then linearly down to 0."""
    return min(1.0, (epochs - epoch) / (epochs - constant * epochs))


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    epochs = cell.params["epochs"]
    return {"learning rate": (partial(falling, epochs=epochs, constant=cell.params["constant"]), range(epochs))}


def network(params: dict[str, Any], replicate: int) -> nn.Module:
    """An untrained network of the cell, its initial weights by the replicate."""
    generator, dropout = torch.Generator().manual_seed(90_000 + replicate), params["dropout"]
    if params["network"] == "LeNet-5":
        return lenet5_batch_norm(dropout, generator=generator)
    if params["network"] == "VGG-11":
        return vgg11(params["width"], params["classes"], dropout, generator=generator)
    return preact_resnet18(params["width"], params["classes"], dropout, generator=generator)


def _augmentation(params: dict[str, Any]) -> Compose:
    return Compose([RandomCrop(4), RandomHorizontalFlip()] if params["augment"] else [])


def _train(model: nn.Module, images: Images, params, device, replicate: int, stages: Stages, callbacks=()) -> None:
    """Adam whose learning rate is constant for the share params["constant"] of the epochs, then falls linearly to 0."""
    epochs = params["epochs"]
    fit(
        model,
        (images["train"], images["train_y"]),
        epochs=epochs,
        batch_size=params["batch_size"],
        optimizer=torch.optim.Adam(model.parameters(), lr=params["learning_rate"], fused=True),
        schedule=partial(falling, epochs=epochs, constant=params["constant"]),
        augment=_augmentation(params) if params["augment"] else None,
        autocast=torch.bfloat16 if params["bfloat16"] else None,
        channels_last=True,
        generator=torch.Generator(device).manual_seed(91_000 + replicate),
        checkpoint=stages,
        callbacks=callbacks,
    )


def training_batches(images: Images, params: dict, number: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Random batches of training images, of the size and with the augmentation of training."""
    augment, x, size = _augmentation(params), images["train"], params["batch_size"]
    order = torch.empty(0, dtype=torch.long, device=x.device)
    for _ in range(number):
        if len(order) < size:
            order = torch.randperm(len(x), generator=generator, device=x.device)
        rows, order = order[:size], order[size:]
        yield augment(x[rows], generator=generator).contiguous(memory_format=torch.channels_last)


def _cast(params: dict, device: torch.device) -> AbstractContextManager:
    return torch.autocast(device.type, torch.bfloat16) if params["bfloat16_scores"] else nullcontext()


def _score(model: nn.Module, images: Images, cell: Cell, device: torch.device, replicate: int) -> dict[str, Any]:
    """Probabilities of the held-out, test and unknown images without and with SBN, and how well r fits."""
    params, random = cell.params, torch.Generator(device).manual_seed(92_000 + replicate)
    x = torch.cat([images[part] for part in PARTS]).contiguous(memory_format=torch.channels_last)
    sizes, chunk, draws = [len(images[part]) for part in PARTS], params["chunk"], params["draws"]
    stochastic = to_stochastic_batch_norm(model)

    def split(outputs: Tensor) -> dict[str, Tensor]:
        average = torch.stack([one.float().softmax(-1) for one in outputs]).mean(0).cpu()
        return dict(zip(PARTS, average.split(sizes), strict=True))

    with _cast(params, device):
        batches = training_batches(images, params, params["batches"], random)
        if cell.method == "DO":
            match_moments(stochastic, batches, dropout=True, generator=random)
            plain = split(predict_dropout(model, x, draws, chunk, random))
            outputs = predict_dropout(stochastic, x, draws, chunk, random)
            result = {"DO": plain, "DO+SBN": split(outputs)}
        else:
            match_moments(stochastic, batches)
            model.eval()
            with torch.no_grad():
                plain = split([torch.cat([model(rows) for rows in x.split(chunk)])])
            outputs = predict(stochastic, x, draws, chunk, random)
            result = {"BN": plain, "SBN": split(outputs)}
        fits = _goodness(stochastic, images, params, random) if cell.method != "DO" else ({}, {})
    counts = [count for count in COUNTS if count <= draws]
    labels = {part: images[f"{part}_y"].cpu() for part in ("validation", "test")}
    found = [measure(split(outputs[:count]), labels) for count in counts]
    table = [[n, one["error_test"], one["nll"], one["auroc"]] for n, one in zip(counts, found, strict=True)]
    return result | {"draws": torch.tensor(table), "fit": fits[0], "statistics": fits[1]}


def _goodness(model: nn.Module, images: Images, params: dict, random: torch.Generator):
    """How far r(mu) and r(sigma) are from the statistics of fresh batches, and a few of them to show."""
    real = collect_statistics(model, training_batches(images, params, params["shown_batches"], random))
    distances: dict[str, list[Tensor]] = {"ks_mean": [], "ks_scale": [], "correlation": []}
    shown: dict[str, Tensor] = {}
    for name, (means, log_scales) in real.items():
        moments = model.get_submodule(name).moments()
        alive = (moments.mean_spread > 0) & (moments.log_scale_spread > 0)
        first = ((means - moments.mean) / moments.mean_spread)[:, alive]
        second = ((log_scales - moments.log_scale) / moments.log_scale_spread)[:, alive]
        distances["ks_mean"].append(_distance(first))
        distances["ks_scale"].append(_distance(second))
        centered = [part - part.mean(0) for part in (first, second)]
        distances["correlation"].append(
            ((centered[0] * centered[1]).mean(0) / (first.std(0, False) * second.std(0, False))).abs()
        )
        few = slice(0, params["shown_features"])
        # row 0 and 1: the fitted (m, s); the others the batches; last dimension mu and log sigma
        rows = [torch.stack(pair, -1)[None, few] for pair in (moments[0::2], moments[1::2])]
        shown[name] = torch.cat([*rows, torch.stack([means[:, few], log_scales[:, few]], -1)]).float().cpu()
    return {key: float(torch.cat(values).median()) for key, values in distances.items()}, shown


def _distance(values: Tensor) -> Tensor:
    """Kolmogorov-Smirnov distance of each column to a standard normal distribution."""
    level = torch.special.ndtr(values.double().sort(0).values)
    steps = torch.arange(len(values), device=values.device, dtype=torch.float64)[:, None] / len(values)
    return torch.maximum(level - steps, steps + 1.0 / len(values) - level).amax(0)


def measure(probabilities: dict[str, Tensor], labels: dict[str, Tensor]) -> dict[str, float]:
    """The numbers of one method: on known test images, on unknown ones, and with the temperature of held-out ones."""
    temperature = metrics.fit_temperature(probabilities["validation"], labels["validation"], given="probabilities")
    scaled = {
        part: metrics.apply_temperature(probabilities[part].double(), temperature, given="probabilities")
        for part in ("test", "unknown")
    }
    values = {"error_test": 100.0 - metrics.accuracy(probabilities["test"], labels["test"]), "temperature": temperature}
    for suffix, parts in (("", probabilities), ("_scaled", scaled)):
        test, unknown = parts["test"].double(), parts["unknown"].double()
        known, other = metrics.predictive_entropy(test), metrics.predictive_entropy(unknown)
        values |= {
            f"nll{suffix}": metrics.nll(test, labels["test"]),
            f"ece{suffix}": metrics.ece(test, labels["test"], BINS),
            f"entropy_known{suffix}": float(known.mean()),
            f"entropy_unknown{suffix}": float(other.mean()),
            f"auroc{suffix}": metrics.auroc(other, known),
        }
    return values


def _gains(without: dict[str, float], with_sbn: dict[str, float]) -> dict[str, float]:
    names = {"error_test": "error", "auroc": "auroc", "nll": "nll", "entropy_unknown": "entropy"}
    return {f"{short}_gain": with_sbn[name] - without[name] for name, short in names.items()}


def _curves(members: list[dict[str, Tensor]], labels: Tensor) -> dict[str, np.ndarray]:
    """Distribution functions of the entropy, (points, 1 + members) with the grid first, and the reliability diagram."""
    grid = torch.linspace(0.0, math.log(members[0]["test"].shape[1]), GRID, dtype=torch.float64)
    curves = {}
    for part in ("test", "unknown"):
        columns = [formulas.entropy_cdf(metrics.predictive_entropy(one[part]), grid) for one in members]
        curves[f"entropy_cdf_{part}"] = torch.stack([grid, *columns], dim=1).float().numpy()
    confidence, choice = torch.cat([one["test"] for one in members]).double().max(dim=1)
    correct = (choice == labels.repeat(len(members))).double()
    place = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
    sums = torch.zeros(BINS, 3, dtype=torch.float64)
    sums.index_add_(0, place, torch.stack([confidence, correct, torch.ones_like(correct)], dim=1))
    # mean confidence and accuracy of a bin, 0 where it is empty, and its share of the images
    curves["reliability"] = torch.cat(
        [sums[:, :2] / sums[:, 2:].clamp_min(1.0), sums[:, 2:] / len(correct)], dim=1
    ).float().numpy()  # fmt: skip
    return curves

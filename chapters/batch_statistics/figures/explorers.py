"""Explorer of Stochastic Batch Normalization: from the batch size to the spread of the statistics to the entropy."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib import metrics
from bnnlib.nn import StochasticBatchNorm1d, StochasticBatchNorm2d, match_moments, predict
from bnnlib.nn import to_stochastic_batch_norm as to_stochastic
from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Line, Panel, Picture, Points
from chapters.batch_statistics.figures.method import tables
from chapters.batch_statistics.statistics import collect_statistics

SHOWN = 150  # batches that are drawn as points


class BatchSizeStudy(NamedTuple):
    """What one network does at several batch sizes; made by `batch_size_study`."""

    sizes: tuple[int, ...]
    layers: tuple[str, ...]
    statistics: dict[tuple[int, str], np.ndarray]  # (2 + batches, 2): fitted (m, s), then (mu, log sigma) of batches
    entropy: dict[tuple[int, str], np.ndarray]  # of "known" and "unknown" at a size, sorted; size 0: no draws
    error: dict[int, float]  # on the known inputs in percent; size 0: no draws
    classes: int


def _batches(x: Tensor, size: int, number: int, generator: torch.Generator | None) -> Iterator[Tensor]:
    for _ in range(number):
        yield x[torch.randperm(len(x), generator=generator, device=x.device)[:size]]


def _deterministic(model: nn.Module, x: Tensor) -> Tensor:
    """Probabilities with the running statistics."""
    model = copy.deepcopy(model).eval()
    for layer in model.modules():
        if isinstance(layer, StochasticBatchNorm1d | StochasticBatchNorm2d):
            layer.weight_mode = "mean"
    return torch.cat([model(rows) for rows in x.split(1024)]).softmax(-1)


@torch.no_grad()
def batch_size_study(
    model: nn.Module,
    train_x: Tensor,
    known: tuple[Tensor, Tensor],
    unknown_x: Tensor,
    sizes: Sequence[int] = (4, 8, 16, 32, 64, 128, 256),
    layers: Sequence[str] | None = None,
    num_batches: int = 300,
    num_samples: int = 20,
    generator: torch.Generator | None = None,
) -> BatchSizeStudy:
    """Fit the moments of one trained network at several batch sizes, and predict with each; nothing is trained.

    Args:
        model: trained classifier with plain or stochastic batch norm; it is not changed.
        train_x: training inputs, of which batches are drawn.
        known: inputs and labels of known classes.
        unknown_x: inputs of unknown classes.
        sizes: of the batches, at least 2 each.
        layers: names of batch norm layers to show; first, middle and last one when omitted.
        num_batches: for fitting, and as many fresh ones to compare with.
        num_samples: draws of a prediction.
        generator: of batches and draws, on the model's device.

    Returns:
        The study, which `batch_size` draws and `batch_size_explorer` lets move.

    Raises:
        ValueError: a size is not between 2 and the number of training inputs, or the model has no batch norm.
    """
    bad = [size for size in sizes if not 2 <= size <= len(train_x)]
    if bad:
        raise ValueError(f"sizes has {bad}, but a batch needs 2 to {len(train_x)} inputs, as many as train_x has.")
    stochastic = any(isinstance(one, StochasticBatchNorm1d | StochasticBatchNorm2d) for one in model.modules())
    fitted = copy.deepcopy(model) if stochastic else to_stochastic(model)
    statistics: dict[tuple[int, str], np.ndarray] = {}
    entropy: dict[tuple[int, str], np.ndarray] = {}
    error: dict[int, float] = {}

    def score(size: int, p_known: Tensor, p_unknown: Tensor) -> None:
        for name, p in (("known", p_known), ("unknown", p_unknown)):
            entropy[size, name] = metrics.predictive_entropy(p).sort().values.cpu().numpy()
        error[size] = 100.0 - metrics.accuracy(p_known, known[1])

    score(0, _deterministic(model, known[0]), _deterministic(model, unknown_x))
    for size in sizes:
        match_moments(fitted, _batches(train_x, size, num_batches, generator))
        found = collect_statistics(fitted, _batches(train_x, size, num_batches, generator))
        statistics |= {(size, name): table[:, 0] for name, table in tables(fitted, found).items()}
        inputs = (known[0], unknown_x)
        score(size, *(predict(fitted, x, num_samples, 1024, generator).softmax(-1).mean(0) for x in inputs))
    classes = _deterministic(model, known[0][:2]).shape[1]
    names = list(dict.fromkeys(name for _, name in statistics))
    if layers is None:
        layers = [names[k] for k in dict.fromkeys((0, len(names) // 2, len(names) - 1))]
    kept = {key: value[: 2 + SHOWN] for key, value in statistics.items() if key[1] in layers}
    return BatchSizeStudy(tuple(sizes), tuple(layers), kept, entropy, error, classes)


def area(study: BatchSizeStudy, size: int) -> float:
    """Area under the ROC curve of telling unknown from known by the entropy, in percent, equation (sbn-auroc).

    Args:
        study: from `batch_size_study`.
        size: of the batches; 0 for the running statistics.
    """
    unknown, known = (torch.as_tensor(study.entropy[size, name]) for name in ("unknown", "known"))
    return metrics.auroc(unknown, known)


def batch_size_in_words(study: BatchSizeStudy, size: int, layer: str, name: str) -> str:
    """The alternative text of `batch_size`, with the reader's name of the layer."""
    spread = study.statistics[size, layer][1]
    mean = {name: study.entropy[size, name].mean() for name in ("known", "unknown")}
    return (
        f"Batches of {size}: in the {name} layer the mean scatters with {spread[0]:.2g}, log sigma with "
        f"{spread[1]:.2g}. The entropy averages {mean['known']:.2g} nats on known and {mean['unknown']:.2g} on unknown "
        f"inputs; the area under the ROC curve is {area(study, size):.1f} %, without draws {area(study, 0):.1f} %."
    )


def _reach(study: BatchSizeStudy, layer: str) -> np.ndarray:
    """Ends of both axes of a layer's statistics over all sizes, shape (2 ends, 2)."""
    tables = [study.statistics[size, layer] for size in study.sizes]
    low = np.min([one[0] - 3.2 * one[1] for one in tables], axis=0)
    high = np.max([one[0] + 3.2 * one[1] for one in tables], axis=0)
    return np.stack([low, high])


def batch_size(study: BatchSizeStudy, size: int, layer: str) -> Picture:
    """The statistics of one layer at a batch size with the fitted r(mu) r(sigma), and the entropies that follow.

    Args:
        study: from `batch_size_study`.
        size: one of its sizes.
        layer: one of its layers.

    Returns:
        Two panels whose axes are the same at every size: one feature's mu and log sigma over batches with the ellipse
        of two standard deviations of r; the distribution functions of the entropy on known and unknown inputs, thin
        where the running statistics are used.
    """
    table, reach = study.statistics[size, layer], _reach(study, layer)
    (center, spread), batches = table[:2], table[2:]
    turn = np.linspace(0, 2 * np.pi, 61)
    ellipse = center + 2 * spread * np.stack([np.cos(turn), np.sin(turn)], 1)
    scatter = [
        Points(*batches.T, "batches", "gray", marker=0, size=4.5, alpha=0.6),
        Line(*ellipse.T, "r, two s.d.", 1, dash=0),
    ]
    share = np.linspace(0, 1, 81)
    entropies = [
        Line(
            np.quantile(study.entropy[kind, name], share),
            share,
            f"{name}, {'averaged' if kind else 'no draws'}",
            look,
            width=2.8 if kind else 1.2,
            alpha=1.0 if kind else 0.7,
        )
        for look, name in enumerate(("known", "unknown"))
        for kind in (0, size)
    ]
    ends = {"xlim": tuple(map(float, reach[:, 0])), "ylim": tuple(map(float, reach[:, 1]))}
    entropy = {"xlim": (-0.02, math.log(study.classes)), "ylim": (0, 1.02), "yticks": (0, 0.5, 1)}
    return Picture(
        [
            Panel("one feature over batches", scatter, "mean μ", "log σ", **ends),
            Panel("share of inputs below", entropies, "predictive entropy (nats)", **entropy),
        ],
        f"batches of {size}: AUROC {area(study, size):.1f} % (no draws {area(study, 0):.1f} %)\n"
        f"error {study.error[size]:.2f} % (no draws {study.error[0]:.2f} %)",
    )


def batch_size_controls(study: BatchSizeStudy, names: Mapping[str, str]) -> dict[str, Control]:
    """Knobs for the sizes and layers of a study; the layer's is left out if there is only one."""
    start = study.sizes[len(study.sizes) // 2]
    controls = {"size": Control("batch size", study.sizes, start)}
    if len(study.layers) > 1:
        controls["layer"] = Control("layer", study.layers, study.layers[-1], format=names.__getitem__, choice=True)
    return controls


def batch_size_explorer(study: BatchSizeStudy, names: Mapping[str, str]) -> Explorer:
    """Knobs for batch size and layer: spread of the statistics, entropy of known and unknown inputs.

    Args:
        study: from `batch_size_study`, of at least 12 sizes.
        names: what the reader calls each of its layers, such as "first hidden".
    """

    def compute(size: int, layer: str = study.layers[-1]) -> Picture:
        return batch_size(study, size, layer)

    def words(size: int, layer: str = study.layers[-1]) -> str:
        return batch_size_in_words(study, size, layer, names[layer])

    return curves(compute, batch_size_controls(study, names), title="How large is a batch?", alt=words)

"""What random statistics do to the logits: how far they move them, and how far there is to go.

The *margin* of an image is the distance between its two largest logits, its *spread* the standard deviation of that
distance over draws. Exchanged draws are a control: every image keeps its mean logits and gets the deviations of another
image, so that what its own deviations know about it is gone.
"""

import math

import numpy as np
import torch
from torch import Tensor

from bnnlib import metrics

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)  # for averages over a standard normal
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
Values = float | np.ndarray


def sigmoid(distance: Values) -> Values:
    """The probability of the first of two classes whose logits differ by `distance`."""
    return 1.0 / (1.0 + np.exp(-np.asarray(distance)))


def average_of(margin: Values, spread: float) -> Values:
    """The left side of equation (sbn-noise), by quadrature: the average of `sigmoid` over N(margin, spread^2)."""
    return sigmoid(np.asarray(margin)[..., None] + spread * _NODES) @ _WEIGHTS


def temperature_of(spread: float) -> float:
    """By what the right side of equation (sbn-noise) divides the margin."""
    return math.sqrt(1.0 + math.pi * spread**2 / 8.0)


def entropy_of(margin: Values, spread: float) -> Values:
    """Entropy in nats of the average over two classes, equation (sbn-entropy)."""
    p = average_of(np.abs(margin), spread)
    rest = average_of(-np.abs(margin), spread)  # 1 - p without loss of digits
    return -(p * np.log(p) + rest * np.log(rest))


def leading(logits: Tensor) -> Tensor:
    """The two classes with the largest mean logits.

    Args:
        logits: shape (draws, images, classes).

    Returns:
        Long tensor (images, 2), the largest first.
    """
    return logits.mean(0).topk(2, dim=-1).indices


def distances(logits: Tensor) -> Tensor:
    """The logit of the class that leads on average less that of the second, by draw.

    Args:
        logits: shape (draws, images, classes).

    Returns:
        Tensor (draws, images); negative where a draw turns the two round.
    """
    first, second = leading(logits).unbind(-1)
    chosen = [logits.gather(-1, one.expand(len(logits), -1)[..., None])[..., 0] for one in (first, second)]
    return chosen[0] - chosen[1]


def exchanged(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """The same mean logits with the deviations of another image, which is chosen by a random permutation of all.

    Args:
        logits: shape (draws, images, classes).
        generator: of the permutation.
    """
    mean = logits.mean(0)
    other = torch.randperm(logits.shape[1], generator=generator)
    return mean + (logits - mean)[:, other]


def exchanged_by_rank(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """As `exchanged`, the deviations of the other image's leading class going to the leading class, and so on.

    By class, another image's deviations are large along *its* leading classes, and less is left along the image's own.
    """
    mean = logits.mean(0)
    other = torch.randperm(logits.shape[1], generator=generator)
    order = mean.argsort(-1, descending=True)
    moved = (logits - mean)[:, other].gather(-1, order[other].expand_as(logits))
    return mean + torch.zeros_like(moved).scatter(-1, order.expand_as(logits), moved)


def ranked(logits: Tensor, known: int, permutations: int, seed: int) -> float:
    """The AUROC of the entropy with draws that are exchanged by rank, in percent, averaged over permutations.

    Args:
        logits: under draws of the statistics, shape (draws, images, classes); known images first.
        known: how many are known.
        permutations: how many, each from a generator of its own.
        seed: of the first; the others follow.
    """
    scores = [
        entropy(exchanged_by_rank(logits, torch.Generator().manual_seed(seed + one))) for one in range(permutations)
    ]
    return sum(metrics.auroc(score[known:], score[:known]) for score in scores) / permutations


def entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of the probabilities averaged over draws, equation (sbn-entropy), shape (images,)."""
    return metrics.predictive_entropy(logits.double().softmax(-1).mean(0))


def measures(logits: Tensor, averages: Tensor, known: int, generator: torch.Generator | None = None) -> dict:
    """Spread and margin of known and unknown images, and which scores tell them apart.

    Args:
        logits: under draws of the statistics, shape (draws, images, classes); known images first.
        averages: with the averages of the same statistics, shape (images, classes).
        known: how many are known.
        generator: of the exchange.

    Returns:
        Medians over images, in logits: "spread_known", "spread_unknown", "margin_known", "margin_unknown". AUROCs in
        percent, equation (sbn-auroc), of the entropy with averages ("auroc_averages"), with draws ("auroc_own") and
        with exchanged draws ("auroc_exchanged"), and of the spread alone ("auroc_spread"). "entropy_rank" is the rank
        correlation over all images of the entropies with draws and with averages.
    """
    away = distances(logits)
    spread, margin = away.std(0), away.mean(0)
    scores = {
        "averages": entropy(averages[None]),
        "own": entropy(logits),
        "exchanged": entropy(exchanged(logits, generator)),
        "spread": spread,
    }
    found = {f"auroc_{name}": metrics.auroc(score[known:], score[:known]) for name, score in scores.items()}
    for name, value in (("spread", spread), ("margin", margin)):
        found |= {f"{name}_known": value[:known].median().item(), f"{name}_unknown": value[known:].median().item()}
    ranks = torch.stack([scores[name].argsort().argsort().double() for name in ("averages", "own")])
    return found | {"entropy_rank": torch.corrcoef(ranks)[0, 1].item()}

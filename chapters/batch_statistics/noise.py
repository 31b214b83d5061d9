"""What random statistics do to the logits: how far they move them, and how far there is to go.

The *margin* of an image is the distance between its two largest logits, its *spread* the standard deviation of that
distance over draws. Exchanged draws are a control: every image keeps its mean logits and gets the deviations of another
image, so that what its own deviations know about it is gone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bnnlib import metrics


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

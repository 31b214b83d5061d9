"""Measures of fit, calibration, uncertainty and selection. Every share is in percent, every log-likelihood in nats."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from bnnlib._checks import check_count, check_non_negative, check_probability


def _same_shape(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    if value.shape != other.shape:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)} and {other_name} {tuple(other.shape)}, but they must be equal: a "
            "pair such as (n,) and (n, 1) would be broadcast to (n, n) without a word. Reshape one of them."
        )
    if value.numel() == 0:
        raise ValueError(f"{name} is empty, and the mean over nothing is not a number. Pass at least one value.")


def _finite(name: str, value: Tensor) -> None:
    if not torch.isfinite(value).all():
        bad = int((~torch.isfinite(value)).sum())
        raise ValueError(
            f"{name} has {bad} NaN or infinite entries of {value.numel()}, so no metric of it means anything. "
            "Look for a diverged training run (lower the learning rate) or for missing values in the data."
        )


def _labels(labels: Tensor, scores: Tensor, name: str) -> None:
    if scores.dim() != 2 or labels.shape != scores.shape[:1] or labels.numel() == 0:
        raise ValueError(
            f"{name} has shape {tuple(scores.shape)} and labels {tuple(labels.shape)}, but they must be (n, classes) "
            "and (n,) with n > 0. Average draws over their dimension first."
        )
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(f"labels have type {labels.dtype}, but they must be integer class numbers. Use labels.long().")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= scores.shape[1]:
        raise ValueError(f"labels run from {low} to {high}, but {name} has classes 0 to {scores.shape[1] - 1} only.")
    _finite(name, scores)


def _probabilities(probabilities: Tensor, labels: Tensor) -> None:
    _labels(labels, probabilities, "probabilities")
    totals = probabilities.sum(dim=1)
    if (probabilities < 0).any() or not torch.allclose(totals, torch.ones_like(totals), atol=1e-3):
        raise ValueError(
            f"probabilities have entries from {probabilities.min().item():g} and rows that sum to values from "
            f"{totals.min().item():g} to {totals.max().item():g}, but rows must be non-negative and sum to 1. "
            "Pass logits.softmax(dim=1)."
        )


def rmse(prediction: Tensor, target: Tensor) -> float:
    """Root mean squared error, in the units of the target.

    Args:
        prediction, target: tensors of one shape.

    Raises:
        ValueError: shapes differ, or there is nothing, a NaN or an infinity in one of them.
    """
    _same_shape("prediction", prediction, "target", target)
    _finite("prediction", prediction)
    _finite("target", target)
    return float((prediction.double() - target.double()).square().mean().sqrt())


def coverage(
    draws: Tensor,
    target: Tensor,
    level: float = 0.95,
    noise_scale: float = 0.0,
    generator: torch.Generator | None = None,
) -> float:
    """Share of targets inside the central `level` quantile band of posterior draws, in percent.

    With `noise_scale` 0 the band is one for the regression function, and `target` should be E[y|x]; with the scale of
    the observation noise it is the predictive band, and `target` should be y. Section 6 of Bai, Song and Cheng (2020)
    reports the 95 % band.

    Args:
        draws: predictions under posterior draws, shape (num_draws, *target.shape), at least 2 of them.
        target: any shape.
        level: between 0 and 1.
        noise_scale: standard deviation of Gaussian noise that is added to each draw.
        generator: of that noise, on the device of `draws`.

    Raises:
        ValueError: shapes do not fit, `level` or `noise_scale` is out of range, or a value is NaN or infinite.
    """
    check_probability("level", level, open_interval=True)
    check_non_negative("noise_scale", noise_scale)
    if draws.dim() != target.dim() + 1 or draws.shape[1:] != target.shape or draws.shape[0] < 2 or target.numel() == 0:
        raise ValueError(
            f"draws have shape {tuple(draws.shape)} and target {tuple(target.shape)}, but draws must be "
            "(num_draws, *target.shape) with at least two draws of at least one target."
        )
    _finite("draws", draws)
    _finite("target", target)
    if noise_scale:
        draws = draws + noise_scale * torch.empty_like(draws).normal_(generator=generator)
    tails = draws.new_tensor([0.5 - level / 2, 0.5 + level / 2])
    low, high = torch.quantile(draws, tails, dim=0)
    return 100.0 * float(((target >= low) & (target <= high)).double().mean())


def _selection(selected: Tensor, relevant: Tensor) -> None:
    _same_shape("selected", selected, "relevant", relevant)
    for name, value in (("selected", selected), ("relevant", relevant)):
        if value.dtype != torch.bool:
            raise ValueError(
                f"{name} has type {value.dtype}, but it must be a Boolean mask over the inputs: (phi > 0.5).any(dim=0)."
            )


def false_positive_rate(selected: Tensor, relevant: Tensor) -> float:
    """Share of the irrelevant inputs that were selected, in percent.

    Args:
        selected, relevant: Boolean masks of one shape.

    Raises:
        ValueError: shapes or types do not fit, or every input is relevant, so that the rate does not exist.
    """
    _selection(selected, relevant)
    if relevant.all():
        raise ValueError("every input is relevant, so there is no false positive to count. Pass the teacher's inputs.")
    return 100.0 * float(selected[~relevant].double().mean())


def false_negative_rate(selected: Tensor, relevant: Tensor) -> float:
    """Share of the relevant inputs that were not selected, in percent.

    Args:
        selected, relevant: Boolean masks of one shape.

    Raises:
        ValueError: shapes or types do not fit, or no input is relevant, so that the rate does not exist.
    """
    _selection(selected, relevant)
    if not relevant.any():
        raise ValueError("no input is relevant, so there is no false negative to count. Pass the teacher's inputs.")
    return 100.0 * float((~selected[relevant]).double().mean())


def sparsity(inclusion: Tensor | Iterable[Tensor]) -> float:
    """Share of active weights in percent, s_hat = sum(phi) / T over all tensors together.

    Args:
        inclusion: inclusion probabilities or Boolean masks of the weights, one tensor or one for each layer. Biases
            count when they are passed, as they do in the paper.

    Raises:
        ValueError: there is nothing, or a value outside [0, 1].
    """
    tensors = [inclusion] if isinstance(inclusion, Tensor) else list(inclusion)
    total = sum(tensor.numel() for tensor in tensors)
    if total == 0:
        raise ValueError(
            "inclusion is empty, so there is no share to take. Pass the probabilities of at least one layer."
        )
    for tensor in tensors:
        if tensor.numel():
            check_probability("inclusion", tensor.float())
    return 100.0 * sum(float(tensor.sum(dtype=torch.float64)) for tensor in tensors) / total


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of rows whose largest score is at the label, in percent.

    Args:
        scores: logits or probabilities, shape (n, classes).
        labels: class numbers, shape (n,).

    Raises:
        ValueError: shapes do not fit, a label is no class, or a score is NaN or infinite.
    """
    _labels(labels, scores, "scores")
    return 100.0 * float((scores.argmax(dim=1) == labels).double().mean())


def nll(probabilities: Tensor, labels: Tensor) -> float:
    """Mean negative log-likelihood of the labels, in nats.

    Args:
        probabilities: shape (n, classes), rows sum to 1; for a Bayesian network the average over its draws.
        labels: class numbers, shape (n,).

    Returns:
        The mean; infinite when the probability of a label is exactly 0, as it should be.

    Raises:
        ValueError: shapes do not fit, a label is no class, or a row is not a distribution.
    """
    _probabilities(probabilities, labels)
    return -float(probabilities.double().gather(1, labels[:, None]).log().mean())


def brier(probabilities: Tensor, labels: Tensor) -> float:
    """Mean squared distance of the probabilities to the one-hot labels, summed over classes: 0 is perfect, 2 the worst.

    Args:
        probabilities: shape (n, classes), rows sum to 1.
        labels: class numbers, shape (n,).

    Raises:
        ValueError: shapes do not fit, a label is no class, or a row is not a distribution.
    """
    _probabilities(probabilities, labels)
    wide = probabilities.double()
    return float((wide.square().sum(dim=1) - 2.0 * wide.gather(1, labels[:, None]).squeeze(1) + 1.0).mean())


def ece(probabilities: Tensor, labels: Tensor, num_bins: int = 15) -> float:
    """Expected calibration error: mean |accuracy - confidence| over equal bins of confidence, by rows, in percent.

    Args:
        probabilities: shape (n, classes), rows sum to 1.
        labels: class numbers, shape (n,).
        num_bins: bins (k - 1, k] / num_bins of the largest probability.

    Raises:
        ValueError: shapes do not fit, a label is no class, a row is not a distribution, or num_bins is below 1.
    """
    check_count("num_bins", num_bins)
    _probabilities(probabilities, labels)
    confidence, choice = probabilities.double().max(dim=1)
    excess = (choice == labels).double() - confidence
    place = (confidence * num_bins).ceil().long().clamp(1, num_bins) - 1
    # the rows of a bin divided by n, times |mean excess of the bin|, is |sum of the excess| / n
    sums = excess.new_zeros(num_bins).index_add_(0, place, excess)
    return 100.0 * float(sums.abs().sum()) / len(labels)

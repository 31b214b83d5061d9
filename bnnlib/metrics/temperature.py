"""Temperature scaling (Guo et al., 2017): one number that makes a trained classifier more or less sure of itself."""

import math
import warnings

import torch
from torch import Tensor

from bnnlib._checks import check_positive
from bnnlib.metrics._arguments import check_distributions, check_finite, check_labels, floating, of_arrays

COLDEST, HOTTEST = 1e-4, 100.0  # the range that the code of Atanov et al. searches
HALVINGS = 60  # of log(HOTTEST / COLDEST) = 13.8 nats: beyond the precision of float64
KINDS = ("logits", "probabilities")
_MORE_ROWS = "Fit on more held-out rows, or leave the temperature at 1."
_RESCALE = "Fit to logits in another unit: to c times as large ones belongs c times as large a temperature."


@of_arrays
def fit_temperature(scores: Tensor, labels: Tensor, *, given: str = "logits") -> float:
    """The temperature T with the least mean negative log-likelihood, equation (sbn-temperature).

    The loss of softmax(logits / T) is convex in 1 / T, so its derivative changes sign once and bisection finds where.
    Fit on held-out data: neither on the training set, where the network is too sure, nor on the test set.

    Args:
        scores: logits, or the averaged probabilities of an ensemble, shape (n, classes).
        labels: class numbers, shape (n,).
        given: "logits" or "probabilities"; the logits of probabilities p are log p, where a p of 0 counts as the
            smallest positive number of its type.

    Returns:
        T between 1e-4 and 100: above 1 the classifier was too sure of itself, below 1 not sure enough. It is 1 where
        the scores do not depend on the class, and every T is the same. Where every label has the largest score of its
        row the best T is 0, and where the scores say no more than none would it is infinite: then, and where it is
        beyond the range, the end of the range is returned with a RuntimeWarning.

    Raises:
        ValueError: shapes do not fit, a label is no class, a score is NaN or infinite, or `given` is not what is given.

    Example:
        >>> logits, labels = torch.tensor([[4.0, 0.0]]).repeat(4, 1), torch.tensor([0, 0, 0, 1])
        >>> round(fit_temperature(logits, labels), 2)  # three of four are right: log(3) = 4 / T
        3.64
    """
    check_labels(labels, scores, "scores")
    logits = _logits(floating(scores), given)
    # relative to the label: sums of differences do not cancel where the label has nearly all the mass
    gaps = logits - logits.gather(1, labels.long()[:, None])
    if not gaps.any():
        return 1.0
    if not (gaps > 0).any():
        _warn("every label has the largest score of its row, so the best temperature is 0", COLDEST)
        return COLDEST
    if _slope(gaps, COLDEST) < 0:
        _warn(f"the best temperature is below {COLDEST:g}", COLDEST, _RESCALE)
        return COLDEST
    if _slope(gaps, math.inf) >= 0:
        _warn("the scores say no more about these labels than none would", HOTTEST)
        return HOTTEST
    if _slope(gaps, HOTTEST) >= 0:
        _warn(f"the best temperature is above {HOTTEST:g}", HOTTEST, _RESCALE)
        return HOTTEST
    low, high = math.log(COLDEST), math.log(HOTTEST)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        # the loss still falls with 1 / T: the best temperature is lower
        low, high = (low, middle) if _slope(gaps, math.exp(middle)) < 0 else (middle, high)
    return math.exp(0.5 * (low + high))


@of_arrays
def apply_temperature(scores: Tensor, temperature: float, *, given: str = "logits") -> Tensor:
    """Probabilities softmax(logits / T), or p^(1/T) / sum p^(1/T), equations (sbn-temperature) and (fnd-temperature).

    The most probable class stays the same, and so does the accuracy.

    Args:
        scores: logits or probabilities, shape (n, classes).
        temperature: T > 0, such as `fit_temperature` returns.
        given: "logits" or "probabilities", as for `fit_temperature`.

    Returns:
        Shape (n, classes), in the type of `scores`, float64 for whole numbers; rows sum to 1.

    Raises:
        ValueError: the shape is not (n, classes), the temperature is not positive, a score is NaN or infinite, or
            `given` is not what is given.

    Example:
        >>> apply_temperature(torch.tensor([[2.0, 0.0]]), 2.0)
        tensor([[0.7311, 0.2689]])
    """
    check_positive("temperature", temperature)
    if scores.dim() != 2 or scores.numel() == 0:
        raise ValueError(f"scores have shape {tuple(scores.shape)}, but it must be (n, classes) with n > 0.")
    scores = floating(scores)
    return (_logits(scores, given) / temperature).softmax(dim=1).to(scores.dtype)


def _logits(scores: Tensor, given: str) -> Tensor:
    if given not in KINDS:
        raise ValueError(f"given is {given!r}, but it must be one of: {', '.join(KINDS)}.")
    if given == "probabilities":
        check_distributions(scores)
        return scores.clamp_min(torch.finfo(scores.dtype).tiny).double().log()
    check_finite("scores", scores)
    logits = scores.double()
    if scores.shape[1] > 1 and (logits >= 0).all() and ((logits.sum(dim=1) - 1.0).abs() < 1e-3).all():
        raise ValueError(
            'the rows of scores are non-negative and sum to 1, so they are probabilities, but given is "logits". '
            'Pass given="probabilities".'
        )
    return logits


def _slope(gaps: Tensor, temperature: float) -> float:
    # derivative of mean logsumexp(gaps / T) with respect to 1 / T: the mean gap under the tempered probabilities
    return float(((gaps / temperature).softmax(dim=1) * gaps).sum(dim=1).mean())


def _warn(reason: str, temperature: float, advice: str = _MORE_ROWS) -> None:
    warnings.warn(
        f"{reason}; {temperature:g}, the end of the range, is returned. {advice}", RuntimeWarning, stacklevel=3
    )

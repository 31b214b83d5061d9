"""Measures of a classifier on classes that it knows: accuracy, likelihood, calibration."""

from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.metrics._arguments import check_distributions, check_labels, of_arrays


@of_arrays
def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of rows whose largest score is at the label, in percent.

    Args:
        scores: logits or probabilities, shape (n, classes).
        labels: class numbers, shape (n,).

    Raises:
        ValueError: shapes do not fit, a label is no class, or a score is NaN or infinite.

    Example:
        >>> accuracy(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1]))
        50.0
    """
    check_labels(labels, scores, "scores")
    return 100.0 * float((scores.argmax(dim=1) == labels).double().mean())


@of_arrays
def nll(probabilities: Tensor, labels: Tensor) -> float:
    """Mean negative log-likelihood of the labels, in nats: a proper score, equation (fnd-proper).

    Args:
        probabilities: shape (n, classes), rows sum to 1; for a Bayesian network the average over its draws.
        labels: class numbers, shape (n,).

    Returns:
        The mean; infinite when the probability of a label is exactly 0, as it should be.

    Raises:
        ValueError: shapes do not fit, a label is no class, or a row is not a distribution.

    Example:
        >>> round(nll(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0])), 4)
        0.3466
    """
    check_distributions(probabilities, labels)
    return -float(probabilities.double().gather(1, labels.long()[:, None]).log().mean())


@of_arrays
def brier(probabilities: Tensor, labels: Tensor) -> float:
    """Mean squared distance of the probabilities to the one-hot labels, summed over classes: 0 is perfect, 2 the worst.

    A proper score, equation (fnd-proper); arguments and errors as for `nll`.

    Example:
        >>> brier(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))
        0.25
    """
    check_distributions(probabilities, labels)
    wide = probabilities.double()
    return float((wide.square().sum(dim=1) - 2.0 * wide.gather(1, labels.long()[:, None]).squeeze(1) + 1.0).mean())


@of_arrays
def ece(probabilities: Tensor, labels: Tensor, num_bins: int = 15, equal_mass: bool = False) -> float:
    """Expected calibration error: mean |accuracy - confidence| over bins of confidence, by rows, in percent.

    Equation (fnd-ece).

    Args:
        probabilities: shape (n, classes), rows sum to 1.
        labels: class numbers, shape (n,).
        num_bins: bins (k - 1, k] / num_bins of the largest probability.
        equal_mass: bins of equally many rows, sorted by their largest probability, in place of equal widths.

    Raises:
        ValueError: shapes do not fit, a label is no class, a row is not a distribution, or num_bins is below 1.

    Example:
        >>> round(ece(torch.tensor([[0.8, 0.2], [0.8, 0.2]]), torch.tensor([0, 1])), 4)
        30.0
    """
    check_count("num_bins", num_bins)
    check_distributions(probabilities, labels)
    confidence, choice = probabilities.double().max(dim=1)
    excess = (choice == labels).double() - confidence
    place = (confidence * num_bins).ceil().long().clamp(1, num_bins) - 1
    if equal_mass:
        ranks = confidence.argsort(stable=True).argsort(stable=True)
        place = ranks * num_bins // len(labels)
    # the rows of a bin divided by n, times |mean excess of the bin|, is |sum of the excess| / n
    sums = excess.new_zeros(num_bins).index_add_(0, place, excess)
    return 100.0 * float(sums.abs().sum()) / len(labels)

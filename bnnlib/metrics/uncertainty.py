"""Measures of a classifier on classes that it does not know: entropy, its distribution, and how well it tells them."""

import torch
from torch import Tensor

from bnnlib.metrics._arguments import check_distributions, floating, of_arrays


@of_arrays
def predictive_entropy(probabilities: Tensor) -> Tensor:
    """Entropy -sum_c p_c log p_c of each row, equation (sbn-entropy): from 0 to log(classes), in nats.

    Atanov et al. (2019) measure with it how unsure a network is about classes that it never saw.

    Args:
        probabilities: shape (n, classes), rows sum to 1; for a Bayesian network or an ensemble the average over its
            draws, as the entropy of the average also counts what the draws disagree about.

    Returns:
        Shape (n,), float64; a probability of 0 adds 0.

    Raises:
        ValueError: the shape is not (n, classes), or a row is not a distribution.

    Example:
        >>> predictive_entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
        tensor([0.6931, 0.0000], dtype=torch.float64)
    """
    check_distributions(probabilities)
    return torch.special.entr(probabilities.double()).sum(dim=1)


@of_arrays
def entropy_split(probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Entropy of the averaged prediction, its mean over the draws, and their difference: the mutual information.

    The mean is what remains where the weights are known (aleatoric); the mutual information of label and weights is
    what more data would take away (epistemic).

    Args:
        probabilities: shape (draws, n, classes), rows sum to 1.

    Returns:
        (total, aleatoric, epistemic), each (n,) of float64 in nats; the third is never below 0.

    Raises:
        ValueError: the shape is not (draws, n, classes), or a row is not a distribution.

    Example:
        >>> sure_but_apart = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])  # two draws, one row, two classes
        >>> [round(part.item(), 4) for part in entropy_split(sure_but_apart)]
        [0.6931, 0.0, 0.6931]
    """
    if probabilities.dim() != 3 or probabilities.numel() == 0:
        raise ValueError(
            f"probabilities has shape {tuple(probabilities.shape)}, but it must be (draws, n, classes) with at least "
            "one draw of one row: do not average over the draws first."
        )
    probabilities = floating(probabilities)
    total = predictive_entropy(probabilities.mean(dim=0))
    aleatoric = predictive_entropy(probabilities.flatten(0, 1)).unflatten(0, probabilities.shape[:2]).mean(dim=0)
    return total, aleatoric, (total - aleatoric).clamp_min(0.0)


@of_arrays
def auroc(unknown_scores: Tensor, known_scores: Tensor) -> float:
    """Area under the ROC curve of telling unknown from known inputs by a score, equation (sbn-auroc), in percent.

    It is the chance that a random unknown input has a higher score than a random known one, where a tie counts half:
    100 is perfect, 50 is a coin, and below 50 the score points the wrong way. Only ranks matter. Counted exactly over
    all pairs, in O((n + m) log m).

    Args:
        unknown_scores: scores that should be high, shape (n,), such as the predictive entropy out of domain.
        known_scores: scores that should be low, shape (m,). Infinite scores are allowed: they have a rank.

    Raises:
        ValueError: one of the two is not a vector, is empty, or has NaN entries.

    Example:
        >>> auroc(unknown_scores=torch.tensor([0.9, 0.8]), known_scores=torch.tensor([0.1, 0.85]))
        75.0
    """
    for name, scores in (("unknown_scores", unknown_scores), ("known_scores", known_scores)):
        _check_vector(name, scores)
        if scores.isnan().any():
            raise ValueError(
                f"{name} has {int(scores.isnan().sum())} NaN entries of {scores.numel()}, and NaN has no rank. "
                "Look for a diverged training run (lower the learning rate)."
            )
    ordered, strangers = known_scores.double().sort().values, unknown_scores.double()
    below = torch.searchsorted(ordered, strangers, right=False).sum()
    not_above = torch.searchsorted(ordered, strangers, right=True).sum()
    # the mean of the two counts gives each tie a half
    return 50.0 * int(below + not_above) / (len(strangers) * len(ordered))


def _check_vector(name: str, value: Tensor) -> None:
    if value.dim() != 1 or value.numel() == 0:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}, but it must be a vector (n,) with n > 0. Pass one score an input."
        )

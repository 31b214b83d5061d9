"""The constants of the bounds of Neklyudov et al. (2019), arXiv 1906.03644."""

from torch import Tensor

from bnnlib._checks import check_positive


def pinsker_bound(divergence: Tensor, mass: Tensor) -> Tensor:
    """Bound of the squared total variation, equation (imh-pinsker), (24): (2 C + 1) / 6 * (KL + C - 1).

    Args:
        divergence: the formal KL of a distribution and a positive function, (25), in nats; it may be negative.
        mass: C, the function's integral. With C = 1 this is Pinsker's inequality.

    Example:
        >>> pinsker_bound(torch.tensor(0.1), torch.tensor(1.0))
        tensor(0.0500)
    """
    return (2.0 * mass + 1.0) / 6.0 * (divergence + mass - 1.0)


def implicit_bound_constant(lower: float, minorization: float = 1.0) -> float:
    """(4 + 2 b) / (3 eps^2 b^3), equation (imh-constant), (28): what the discriminator's loss is multiplied by.

    Args:
        lower: b, the least value of the discriminator, in (0, 1].
        minorization: eps, in (0, 1]; 1 for an independent proposal.

    Raises:
        ValueError: one of the two is outside of (0, 1].

    Example:
        >>> round(implicit_bound_constant(0.5), 4)
        13.3333
    """
    for name, value in (("lower", lower), ("minorization", minorization)):
        check_positive(name, value)
        if value > 1.0:
            raise ValueError(f"{name} is {value}, but it must be in (0, 1]: it bounds a probability from below.")
    return (4.0 + 2.0 * lower) / (3.0 * minorization**2 * lower**3)

"""What the adaptive variational optimizer of Ke and Fan (2023) computes weight by weight, in units of the mean loss."""

import math

from torch import Tensor

Number = float | Tensor

ALPHAS = (0.5, 1.0)
ESTIMATORS = ("squared", "stein")


def positive_precision_step(
    precision: Tensor, curvature: Tensor, prior_precision: Number, num_data: Number, rate: float
) -> Tensor:
    """1 / s^2 moved to curvature + delta / N, with a second-order term that keeps it positive (avo-positive-precision).

    For curvatures of either sign, as "stein" gives them: with r = (curvature + delta / N) / precision - 1 the new
    precision is precision (1 + gamma r + (gamma r)^2 / 2), which is at least half the old one (Lin, Schmidt and Khan,
    2020).

    Example:
        >>> positive_precision_step(torch.tensor(1.0), torch.tensor(-3.0), 1.0, num_data=100, rate=0.5) > 0
        tensor(True)
    """
    moved = rate * (curvature + prior_precision / num_data - precision)
    return precision + moved + 0.5 * moved.square() / precision


def injected_scale(lr: float, momentum: float, temperature: float) -> float:
    """sqrt(2 + 2 beta^2) l^(3/4) T, what the code adds to the momentum, equation (avo-noise).

    Two draws of scale sigma, the new and the old, make 2 sigma^2; the momentum's share of the last difference, which
    must be taken out again, makes 2 beta^2 sigma^2. In units of tau, as the momentum is.

    Example:
        >>> round(injected_scale(lr=0.01, momentum=0.9, temperature=1.0), 4)
        0.0602
    """
    return math.sqrt(2.0 + 2.0 * momentum**2) * lr**0.75 * temperature

"""The predictive distribution of a regression: a mixture of one normal a posterior draw."""

import torch
from torch import Tensor

from bnnlib._checks import check_probability, check_scale

_HALVINGS = 60  # of an interval: more than the 53 bits of a double


def mixture_quantile(mean: Tensor, scale: Tensor, probability: float) -> Tensor:
    """Quantile of the equally weighted mixture of N(mean_k, scale_k^2), by bisection of its distribution function.

    Exact to rounding: nothing is drawn, so that the same draws of the weights always give the same interval.

    Args:
        mean: of the components, shape (components, ...).
        scale: their standard deviations, a shape that broadcasts to that of `mean`.
        probability: of the quantile, strictly between 0 and 1.

    Returns:
        Tensor (...) of float64, in the units of `mean`.

    Raises:
        ValueError: there is no component, a scale is not positive, or the probability is out of range.

    Example:
        >>> mean, scale = torch.tensor([[-1.0], [1.0]]), torch.tensor([[0.1], [0.1]])
        >>> mixture_quantile(mean, scale, 0.25)
        tensor([-1.], dtype=torch.float64)
    """
    check_probability("probability", probability, open_interval=True)
    check_scale("scale", scale)
    if mean.dim() == 0 or len(mean) == 0:
        raise ValueError(f"mean has shape {tuple(mean.shape)}, but a mixture needs (components, ...), at least one.")
    mean, scale = torch.broadcast_tensors(mean.double(), scale.double())
    # the quantile of a mixture lies between those of its components
    reach = torch.special.ndtri(mean.new_tensor(probability))
    quantiles = mean + scale * reach
    low, high = quantiles.amin(dim=0), quantiles.amax(dim=0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = torch.special.ndtr((middle - mean) / scale).mean(dim=0) < probability
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return 0.5 * (low + high)

"""Measures of fit for regressions: error, and how often a band holds the target."""

import math

import torch
from torch import Tensor

from bnnlib._checks import check_non_negative, check_probability
from bnnlib.metrics._arguments import Dims, check_finite, check_same_shape, of_arrays


@of_arrays
def rmse(prediction: Tensor, target: Tensor, dim: Dims = None) -> Tensor:
    """Root mean squared error, in the units of the target.

    Args:
        prediction, target: tensors of one shape; with `dim` they may broadcast.
        dim: one or several dimensions to take the mean over, (1, 2) for each network of predictions (networks, rows,
            1); None for all. A network that has diverged beside others then has the error NaN.

    Returns:
        Tensor of the dimensions that are left, float64.

    Raises:
        ValueError: without `dim`, shapes differ, or there is nothing, a NaN or an infinity in one of them.

    Example:
        >>> rmse(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 3.0])).item()
        3.0
        >>> rmse(torch.zeros(2, 5), torch.tensor([[3.0], [4.0]]), dim=1)
        tensor([3., 4.], dtype=torch.float64)
    """
    if dim is None:
        check_same_shape("prediction", prediction, "target", target)
        check_finite("prediction", prediction)
        check_finite("target", target)
    return (prediction.double() - target.double()).square().mean(dim=dim).sqrt()


@of_arrays
def central_interval(draws: Tensor, level: float = 0.95, dim: int = 0) -> tuple[Tensor, Tensor]:
    """Ends of the central `level` quantile band of posterior draws, (low, high), without the dimension `dim`.

    Args:
        draws: at least two along `dim`.
        level: between 0 and 1.
        dim: that counts the draws.

    Returns:
        Two tensors of the dtype of the draws, float64 where that is neither float32 nor float64.

    Raises:
        ValueError: `level` is out of range, or there are fewer than two draws.

    Example:
        >>> central_interval(torch.linspace(0, 1, 101), level=0.9)
        (tensor(0.0500), tensor(0.9500))
    """
    check_probability("level", level, open_interval=True)
    if draws.dim() == 0 or draws.shape[dim] < 2:
        raise ValueError(f"draws have shape {tuple(draws.shape)}, but an interval needs two along dimension {dim}.")
    draws = _wide(draws)
    low, high = torch.quantile(draws, draws.new_tensor([0.5 - level / 2, 0.5 + level / 2]), dim=dim)
    return low, high


@of_arrays
def coverage(
    draws: Tensor,
    target: Tensor,
    level: float = 0.95,
    noise_scale: float = 0.0,
    generator: torch.Generator | None = None,
    dim: Dims = None,
) -> Tensor:
    """Share of targets inside the central `level` quantile band of posterior draws, in percent.

    With `noise_scale` 0 the band is one for the regression function, and `target` should be E[y|x]; with the scale of
    the observation noise it is the predictive band, and `target` should be y. Section 6 of Bai, Song and Cheng (2020)
    reports the 95 % band.

    Args:
        draws: predictions under posterior draws, shape (num_draws, *target.shape), at least 2 of them.
        target: any shape; with `dim` it may broadcast to that of a draw.
        level: between 0 and 1.
        noise_scale: standard deviation of Gaussian noise that is added to each draw.
        generator: of that noise, on the device of `draws`.
        dim: one or several dimensions of a draw to take the share over; None for all. Where a draw or a target is NaN
            the share is, too.

    Returns:
        Tensor of the dimensions that are left, float64.

    Raises:
        ValueError: `level` or `noise_scale` is out of range, or there are fewer than two draws; without `dim`, shapes
            do not fit, or a value is NaN or infinite.

    Example:
        >>> draws = torch.linspace(0, 1, 101)[:, None].expand(101, 2)
        >>> coverage(draws, torch.tensor([0.5, 2.0]), level=0.9).item()
        50.0
    """
    check_probability("level", level, open_interval=True)
    check_non_negative("noise_scale", noise_scale)
    if dim is None:
        if draws.shape[1:] != target.shape or draws.dim() == 0 or draws.shape[0] < 2 or target.numel() == 0:
            raise ValueError(
                f"draws have shape {tuple(draws.shape)} and target {tuple(target.shape)}, but draws must be "
                "(num_draws, *target.shape) with at least two draws of at least one target."
            )
        check_finite("draws", draws)
        check_finite("target", target)
    draws = _wide(draws)
    if noise_scale:
        draws = draws + noise_scale * torch.empty_like(draws).normal_(generator=generator)
    low, high = central_interval(draws, level)
    inside = ((target >= low) & (target <= high)).double()
    # a band of NaN holds nothing, and so would count as an honest miss
    return 100.0 * inside.masked_fill((low + high + target).isnan(), math.nan).mean(dim=dim)


@of_arrays
def crps(draws: Tensor, target: Tensor, noise_scale: float = 0.0, dim: Dims = None) -> Tensor:
    """Continuous ranked probability score, E|X - y| - E|X - X'| / 2, in the units of the target; lower is better.

    Equation (side-crps).

    X is normal around a draw, all draws alike, so that the score is exact for the mixture (Gneiting and Raftery, 2007;
    Grimit et al., 2006), the distribution function of which takes all pairs of draws.

    Args:
        draws: predictions (S, ...).
        target: (...).
        noise_scale: standard deviation around every draw; 0 for the draws alone.
        dim: of the target, to take the mean over; None for all.

    Returns:
        Tensor of the dimensions that are left, float64.

    Raises:
        ValueError: noise_scale is negative, there are no draws, or a draw does not have the shape of the target.

    Example:
        >>> round(crps(torch.zeros(1, 3), torch.tensor([-1.0, 0.0, 1.0])).item(), 4)
        0.6667
    """
    check_non_negative("noise_scale", noise_scale)
    if draws.dim() == 0 or len(draws) == 0:
        raise ValueError(
            f"draws have shape {tuple(draws.shape)}, but it must be (S, *target.shape) with S > 0. Of one prediction, "
            "give prediction[None]."
        )
    check_same_shape("a draw", draws[0], "target", target)
    draws, target = draws.double(), target.double()
    error = _mean_absolute(draws - target, noise_scale).mean(dim=0)
    apart = [_mean_absolute(draws - draw, 2.0**0.5 * noise_scale).mean(dim=0) for draw in draws]
    spread = torch.stack(apart).mean(dim=0)
    return (error - 0.5 * spread).mean(dim=dim)


def _wide(draws: Tensor) -> Tensor:
    """Draws of a dtype that torch.quantile takes."""
    return draws if draws.dtype in (torch.float32, torch.float64) else draws.double()


def _mean_absolute(mean: Tensor, scale: float) -> Tensor:
    """E|X| of X ~ N(mean, scale^2)."""
    if scale == 0.0:
        return mean.abs()
    z = mean / scale
    return mean * torch.erf(z / 2.0**0.5) + scale * (2.0 / torch.pi) ** 0.5 * torch.exp(-0.5 * z.square())

"""Measures of fit for regressions: error, and how often a band holds the target."""

from __future__ import annotations

import torch
from torch import Tensor

from bnnlib._checks import check_non_negative, check_probability
from bnnlib.metrics._arguments import check_finite, check_same_shape


def rmse(prediction: Tensor, target: Tensor) -> float:
    """Root mean squared error, in the units of the target.

    Args:
        prediction, target: tensors of one shape.

    Raises:
        ValueError: shapes differ, or there is nothing, a NaN or an infinity in one of them.

    Example:
        >>> rmse(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 3.0]))
        3.0
    """
    check_same_shape("prediction", prediction, "target", target)
    check_finite("prediction", prediction)
    check_finite("target", target)
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

    Example:
        >>> draws = torch.linspace(0, 1, 101)[:, None].expand(101, 2)
        >>> coverage(draws, torch.tensor([0.5, 2.0]), level=0.9)
        50.0
    """
    check_probability("level", level, open_interval=True)
    check_non_negative("noise_scale", noise_scale)
    if draws.dim() != target.dim() + 1 or draws.shape[1:] != target.shape or draws.shape[0] < 2 or target.numel() == 0:
        raise ValueError(
            f"draws have shape {tuple(draws.shape)} and target {tuple(target.shape)}, but draws must be "
            "(num_draws, *target.shape) with at least two draws of at least one target."
        )
    check_finite("draws", draws)
    check_finite("target", target)
    if noise_scale:
        draws = draws + noise_scale * torch.empty_like(draws).normal_(generator=generator)
    tails = draws.new_tensor([0.5 - level / 2, 0.5 + level / 2])
    low, high = torch.quantile(draws, tails, dim=0)
    return 100.0 * float(((target >= low) & (target <= high)).double().mean())

"""What precision costs a unit, and what it earns: the lowest divergence at a signal-to-noise ratio, and the best ratio.

A unit whose own weight is free gains G r^2 / (1 + r^2) nats at ratio r, equation (sbp-gain). The price of a ratio is
the smallest divergence (sbp-kl) over all mu and sigma that have it.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from chapters.unit_noise import formulas

RATIOS = np.geomspace(0.334, 60.0, 160)  # from just above the prior's, 1/3
_LOCATIONS = torch.linspace(-2.0, 5.0, 57, dtype=torch.float64)  # 5: as far as the published code lets mu go


def scale_at(ratio: Tensor, location: Tensor) -> Tensor:
    """The sigma at which noise with this mu has this ratio, by bisection of its logarithm.

    Args:
        ratio: signal-to-noise ratios above that of the prior, 1/3.
        location: mu from -2 to 5, where the ratio falls with sigma; broadcasts with `ratio`.
    """
    ratio, location = torch.broadcast_tensors(torch.as_tensor(ratio).double(), torch.as_tensor(location).double())
    low, high = torch.full_like(ratio, -9.0), torch.full_like(ratio, 7.0)
    for _ in range(40):
        middle = 0.5 * (low + high)
        above = formulas.truncated_log_normal_snr(location, middle.exp()) > ratio
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (0.5 * (low + high)).exp()


def price_at(ratio: Tensor, location: Tensor) -> Tensor:
    """Divergence in nats of the noise with this ratio and this mu; arguments as for `scale_at`."""
    ratio, location = torch.broadcast_tensors(torch.as_tensor(ratio).double(), torch.as_tensor(location).double())
    return formulas.truncated_log_normal_kl(location, scale_at(ratio, location))


def cheapest(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lowest price of each ratio in nats, and the mu that has it.

    Args:
        ratios: signal-to-noise ratios above 1/3, flat.
    """
    prices = price_at(torch.as_tensor(np.asarray(ratios))[:, None], _LOCATIONS)
    best, place = prices.min(dim=1)
    return best.numpy(), _LOCATIONS[place].numpy()


@cache
def price_curve() -> np.ndarray:
    """The lowest price of each of `RATIOS`, in nats."""
    return cheapest(RATIOS)[0]


def bound(t: float | np.ndarray, weight: float = 1.0) -> np.ndarray:
    """What a unit adds to the bound at each of `RATIOS`, in nats.

    Args:
        t: its t-statistics; its gain is half of their square.
        weight: of the divergence, equation (sbp-scaling).

    Returns:
        Shape (..., ratios), the shape of `t` in front.
    """
    gain = 0.5 * np.square(np.asarray(t, dtype=float))[..., None]
    return gain * RATIOS**2 / (1 + RATIOS**2) - weight * price_curve()


def best_ratio(t: float | np.ndarray, weight: float = 1.0) -> np.ndarray:
    """The ratio with the largest bound; arguments as for `bound`."""
    return RATIOS[bound(t, weight).argmax(axis=-1)]


@cache
def entry() -> float:
    """The smallest gain, to 0.01 nats and at weight 1, whose best ratio is above the threshold of one."""
    gains = np.arange(0.0, 10.0, 0.01)
    return float(gains[best_ratio(np.sqrt(2 * gains)) > 1][0])


@cache
def two_optima() -> tuple[float, float]:
    """The gains, to 0.01 nats and at weight 1, between which the bound has a maximum on each side of a ratio of one.

    Both maxima are over mu up to 5 and sigma. Near a ratio of one the one above lies at the edge of mu, where training
    from little noise comes only slowly.
    """
    gains = np.arange(2.0, 5.0, 0.01)
    worth = bound(np.sqrt(2 * gains))
    top = (worth[:, 1:-1] >= worth[:, :-2]) & (worth[:, 1:-1] > worth[:, 2:])
    above = RATIOS[1:-1] > 1
    return float(gains[(top & above).any(axis=1)][0]), float(gains[(top & ~above).any(axis=1)][-1])


def trained_ratios(t: float, starts: list[tuple[float, float]]) -> list[float]:
    """The signal-to-noise ratios to which Adam takes a unit's noise from these (mu, log sigma), at weight 1."""
    noise = torch.tensor(starts, dtype=torch.float64).T.clone().requires_grad_()
    adam = torch.optim.Adam([noise], lr=0.08)
    decay = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, 300)
    for _ in range(300):
        ratio = formulas.truncated_log_normal_snr(noise[0], noise[1].exp())
        earned = 0.5 * t**2 * ratio**2 / (1 + ratio**2)
        adam.zero_grad()
        (formulas.truncated_log_normal_kl(noise[0], noise[1].exp()) - earned).sum().backward()
        adam.step()
        decay.step()
    return ratio.tolist()

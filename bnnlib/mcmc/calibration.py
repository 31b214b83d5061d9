"""Calibration of a discriminator on held-out data and proposals: an addition to implicit Metropolis-Hastings.

The MH-GAN of Turner et al. (2019) does it; section 1.4 of the thesis does not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bnnlib.mcmc.discriminators import IndependentDiscriminator, check_rows

METHODS = ("isotonic", "platt")


def isotonic_regression(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """The non-decreasing sequence nearest to `values` in weighted squares, by pooling adjacent violators.

    Args:
        values: shape (n,).
        weights: positive, shape (n,); by default all 1.

    Example:
        >>> isotonic_regression(torch.tensor([1.0, 3.0, 2.0, 4.0]))
        tensor([1.0000, 2.5000, 2.5000, 4.0000])
    """
    means: list[float] = []
    masses: list[float] = []
    lengths: list[int] = []
    weights = torch.ones_like(values) if weights is None else weights
    for mean, mass in zip(values.double().tolist(), weights.double().tolist(), strict=True):
        length = 1
        while means and means[-1] >= mean:
            before, total = masses.pop(), 0.0
            total = before + mass
            mean = (means.pop() * before + mean * mass) / total
            mass, length = total, length + lengths.pop()
        means.append(mean)
        masses.append(mass)
        lengths.append(length)
    return torch.repeat_interleave(torch.tensor(means, dtype=values.dtype), torch.tensor(lengths))


class CalibratedDiscriminator(IndependentDiscriminator):
    """An independent discriminator whose score went through an increasing function, fitted by `calibrate`.

    Args:
        discriminator: whose scores are calibrated.
        knots, logits: the function: linear between the knots, constant beyond; both (m,).

    Example:
        >>> discriminator = IndependentDiscriminator(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0)))
        >>> calibrated = calibrate(discriminator, torch.randn(50, 2), torch.randn(50, 2) + 1.0)
        >>> isinstance(calibrated, CalibratedDiscriminator)
        True
    """

    knots: Tensor
    logits: Tensor

    def __init__(self, discriminator: IndependentDiscriminator, knots: Tensor, logits: Tensor) -> None:
        super().__init__(discriminator.network, discriminator.lower)
        self.register_buffer("knots", knots)
        self.register_buffer("logits", logits)

    def of_raw(self, raw: Tensor) -> Tensor:
        """logit d(x), calibrated, within +-logit(1 - b)."""
        score = super().of_raw(raw)
        right = torch.searchsorted(self.knots, score.contiguous()).clamp(1, len(self.knots) - 1)
        left = right - 1
        share = ((score - self.knots[left]) / (self.knots[right] - self.knots[left]).clamp_min(1e-12)).clamp(0.0, 1.0)
        out = torch.lerp(self.logits[left], self.logits[right], share)
        return torch.where(score.isnan(), score, out).clamp(-self.limit, self.limit)


@torch.no_grad()
def calibrate(
    discriminator: IndependentDiscriminator, data: Tensor, proposed: Tensor, method: str = "isotonic"
) -> CalibratedDiscriminator:
    """Make d(x) the share of data among points of its score, on points that it was not trained on.

    Args:
        discriminator: stays as it is; its network is shared.
        data, proposed: held-out data and proposals; if their numbers differ, they are weighted to the same mass.
        method: "isotonic" for any increasing function, "platt" for a line in the logit.

    Raises:
        ValueError: there is no such method, no rows, or a score is NaN.

    Example:
        >>> discriminator = IndependentDiscriminator(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0)))
        >>> calibrated = calibrate(discriminator, torch.randn(50, 2), torch.randn(50, 2) + 1.0)
        >>> calibrated(torch.randn(5, 2)).shape
        torch.Size([5])
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}, but it must be one of {', '.join(METHODS)}.")
    check_rows("data", data)
    check_rows("proposed", proposed)
    parts = [torch.cat([discriminator.score(rows) for rows in part.split(1000)]) for part in (data, proposed)]
    scores = torch.cat(parts)
    if scores.isnan().any():
        raise ValueError(
            f"{int(scores.isnan().sum())} of {len(scores)} scores are NaN; look for NaN in the points, or for a "
            "discriminator whose training diverged."
        )
    labels = torch.cat([torch.ones_like(parts[0]), torch.zeros_like(parts[1])])
    weights = torch.cat([torch.full_like(part, 0.5 / len(part)) for part in parts])
    fit = _isotonic if method == "isotonic" else _platt
    knots, logits = fit(scores.double().cpu(), labels.double().cpu(), weights.double().cpu(), discriminator.limit)
    out = CalibratedDiscriminator(discriminator, knots.to(scores), logits.to(scores))
    return out.train(discriminator.training)


def _isotonic(scores: Tensor, labels: Tensor, weights: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    knots, place = scores.unique(return_inverse=True)  # sorted; ties are one point
    mass = torch.zeros_like(knots).index_add_(0, place, weights)
    share = torch.zeros_like(knots).index_add_(0, place, weights * labels) / mass
    logits = isotonic_regression(share, mass).clamp(0.0, 1.0).logit().clamp(-limit, limit)
    if len(knots) == 1:
        knots, logits = torch.cat([knots, knots + 1.0]), logits.repeat(2)
    return knots, logits


def _platt(scores: Tensor, labels: Tensor, weights: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    design = torch.stack([scores, torch.ones_like(scores)], dim=1)
    ridge = 1e-9 * torch.eye(2, dtype=scores.dtype)
    line = torch.zeros(2, dtype=scores.dtype)
    for _ in range(50):  # Newton's method on a convex function
        share = (design @ line).sigmoid()
        gradient = design.T @ (weights * (share - labels))
        curvature = (design.T * (weights * share * (1.0 - share)).clamp_min(1e-12)) @ design + ridge
        line = line - torch.linalg.solve(curvature, gradient).clamp(-2.0, 2.0)
    # an increasing line: a discriminator that points the wrong way is flattened, not turned
    slope = line[0].clamp_min(0.0)
    knots = torch.tensor([-limit, limit], dtype=scores.dtype)
    return knots, slope * knots + line[1]

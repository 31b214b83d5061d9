"""Implicit Metropolis-Hastings on finite spaces: everything that the propositions speak of, for many chains at once.

Laws have shape (..., n). A proposal has q(x | y) at [..., y, x], a discriminator d(x, y) at [..., x, y], as in
`chapters.shared.finite`.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from chapters.implicit_acceptance import formulas
from chapters.shared import finite

LADDER = ("(21)", "(22), ours", "(22)", "(24)", "(28)")


class Chains(NamedTuple):
    """A batch of chains: target, proposal and discriminator, with the constants b and epsilon that they keep."""

    target: Tensor
    proposal: Tensor
    discriminator: Tensor
    lower: float
    minorization: float


def _laws(shape: tuple[int, ...], generator: torch.Generator, peaked: float) -> Tensor:
    weights = torch.rand(shape, generator=generator, dtype=torch.float64).clamp_min(1e-12).log().neg() ** peaked
    return (weights + 1e-9) / (weights + 1e-9).sum(-1, keepdim=True)


def best_log_ratio(target: Tensor, proposal: Tensor) -> Tensor:
    """log p(x) q(y | x) - log p(y) q(x | y) at [..., x, y], equation (imh-best); all entries must be positive."""
    forward = (target.unsqueeze(-1) * proposal).log()
    return forward - forward.transpose(-1, -2)


def discriminator_of(log_ratio: Tensor, lower: float) -> Tensor:
    """A d in [b, 1] with d(x, y) / d(y, x) = exp(log_ratio), as near to that as b lets it: min{1, ratio}."""
    return log_ratio.clamp(math.log(lower), 0.0).exp()


def random_chains(
    count: int,
    size: int,
    generator: torch.Generator,
    *,
    lower: float = 0.2,
    minorization: float = 0.3,
    error: float = 0.5,
    near: float = 0.0,
) -> Chains:
    """Random targets and proposals, and discriminators whose log ratio is the best one with normal errors.

    Args:
        count, size: chains and states of each.
        generator: of all randomness.
        lower: b.
        minorization: epsilon; the proposal is epsilon nu(x) + (1 - epsilon) r(x | y) with random nu and r.
        error: standard deviation of the errors of the log ratio, in nats.
        near: share of the proposals that are draws of the target, so that a large b admits nearly the best d.
    """
    target, base = _laws((count, size), generator, 1.0), _laws((count, 1, size), generator, 1.0)
    proposal = minorization * base + (1.0 - minorization) * _laws((count, size, size), generator, 2.0)
    proposal = near * target.unsqueeze(-2) + (1.0 - near) * proposal
    minorization = near + (1.0 - near) * minorization
    noise = torch.randn(count, size, size, generator=generator, dtype=torch.float64)
    log_ratio = best_log_ratio(target, proposal) + error * (noise - noise.transpose(-1, -2)) / 2**0.5
    return Chains(target, proposal, discriminator_of(log_ratio, lower), lower, minorization)


def contraction(chains: Chains) -> tuple[Tensor, Tensor]:
    """Both sides of Proposition 1 for the first two steps from the target, (imh-contraction), shape (...)."""
    kernel = finite.implicit_kernel(chains.proposal, chains.discriminator)
    first = _step(chains.target, kernel)
    second = _step(first, kernel)
    rate = 1.0 - chains.lower * chains.minorization
    return finite.total_variation(second, first), rate * finite.total_variation(first, chains.target)


def _step(law: Tensor, kernel: Tensor) -> Tensor:
    return (law.unsqueeze(-2) @ kernel).squeeze(-2)


def flows(chains: Chains) -> tuple[Tensor, Tensor]:
    """alpha = q(y | x) p(x) and f = q(x | y) p(y) d(x, y) / d(y, x) at [..., x, y], the two sides of (imh-joint)."""
    alpha = chains.target.unsqueeze(-1) * chains.proposal
    ratio = chains.discriminator / chains.discriminator.transpose(-1, -2)
    return alpha, alpha.transpose(-1, -2) * ratio


def gap(chains: Chains) -> Tensor:
    """loss - 1 + KL of (imh-bound), in nats, from the loss of the library and the divergence; shape (...)."""
    alpha, _ = flows(chains)
    ratio = (chains.discriminator / chains.discriminator.transpose(-1, -2)).log()
    loss = (alpha * ((-ratio).exp() - ratio)).sum((-1, -2))
    divergence = (alpha * (alpha / alpha.transpose(-1, -2)).log()).sum((-1, -2))
    return loss - 1.0 + divergence


def ladder(chains: Chains) -> dict[str, Tensor]:
    """The measured total variation of the stationary law from the target, and each bound of it, shape (...).

    Returns:
        {"measured", "one step": of t_1 and p, and the names in `LADDER`}; the last two by Proposition 3, with the
        factor 2 of the paper's (22). "(22), ours" is without it.
    """
    kernel = finite.implicit_kernel(chains.proposal, chains.discriminator)
    alpha, flow = flows(chains)
    joint, mass = finite.total_variation(alpha, flow, dims=2), flow.sum((-1, -2))
    formal = (alpha * (alpha / flow).log()).sum((-1, -2))
    one_step = finite.total_variation(_step(chains.target, kernel), chains.target)
    scale = 1.0 / (chains.lower * chains.minorization)
    constant = formulas.implicit_bound_constant(chains.lower, chains.minorization)
    return {
        "measured": finite.total_variation(finite.stationary_law(kernel), chains.target),
        "one step": one_step,
        "(21)": scale * one_step,
        "(22), ours": scale * joint,
        "(22)": scale * 2.0 * joint,
        "(24)": scale * 2.0 * formulas.pinsker_bound(formal, mass).clamp_min(0.0).sqrt(),
        "(28)": (constant * gap(chains)).clamp_min(0.0).sqrt(),
    }

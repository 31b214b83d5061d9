"""The same kernels on a finite space, as matrices: what is claimed of them can be solved for and not only sampled.

A kernel or proposal is a matrix whose entry [..., y, x] is the probability of going from y to x; rows sum to 1. Leading
dimensions are batches.
"""

import torch
from torch import Tensor

from bnnlib._checks import check_positive, check_probability


def check_kernel(kernel: Tensor, name: str = "kernel") -> Tensor:
    """Return `kernel` if its rows are distributions.

    Raises:
        ValueError: it is not (..., n, n), an entry is negative, or a row does not sum to 1.
    """
    if kernel.dim() < 2 or kernel.shape[-1] != kernel.shape[-2]:
        raise ValueError(f"{name} has shape {tuple(kernel.shape)}, but it must be (..., n, n), rows for where one is.")
    if not (kernel >= 0).all() or not ((kernel.sum(-1) - 1.0).abs() <= torch.finfo(kernel.dtype).eps ** 0.5).all():
        raise ValueError(f"{name} has rows that are no distributions. Divide by kernel.sum(-1, keepdim=True).")
    return kernel


def acceptance_kernel(proposal: Tensor, acceptance: Tensor) -> Tensor:
    """Propose, then accept or stay: equation (imh-kernel), (16)-(17), and (mh-kernel).

    Args:
        proposal: q(x | y) at [..., y, x].
        acceptance: probability of taking x from y, the same shape.
    """
    moved = check_kernel(proposal, "proposal") * check_probability("acceptance", acceptance)
    # where all is accepted, rounding must not leave a negative probability to stay
    return moved + torch.diag_embed((1.0 - moved.sum(dim=-1)).clamp_min(0.0))


def metropolis_hastings_kernel(target: Tensor, proposal: Tensor) -> Tensor:
    """Exact kernel of `bnnlib.sampling.metropolis_hastings`, equation (mh-kernel).

    Args:
        target: probabilities (..., n), positive.
        proposal: q(x | y) at [..., y, x].

    Raises:
        ValueError: the target is no distribution with positive entries, or the proposal no kernel.
    """
    flow = _check_target(target).unsqueeze(-1) * check_kernel(proposal, "proposal")  # p(y) q(x | y)
    backward = flow.transpose(-1, -2)
    # where the move is impossible its acceptance does not matter
    ratio = torch.where(flow > 0, backward / torch.where(flow > 0, flow, 1.0), 0.0)
    return acceptance_kernel(proposal, ratio.clamp_max(1.0))


def implicit_kernel(proposal: Tensor, discriminator: Tensor) -> Tensor:
    """Kernel of implicit Metropolis-Hastings, equation (imh-kernel), (16)-(17).

    Args:
        proposal: q(x | y) at [..., y, x].
        discriminator: d(x, y) at [..., x, y], positive: its first argument comes first.

    Raises:
        ValueError: the discriminator is not positive and finite, or the proposal no kernel.
    """
    check_positive("discriminator", discriminator)
    ratio = discriminator / discriminator.transpose(-1, -2)  # [x, y]
    return acceptance_kernel(proposal, ratio.transpose(-1, -2).clamp_max(1.0))


def acceptance_rate(target: Tensor, proposal: Tensor) -> Tensor:
    """E min{1, xi} over x ~ p and x' ~ q(. | x), equation (mh-theorem), summed exactly; shape (...)."""
    flow = _check_target(target).unsqueeze(-1) * check_kernel(proposal, "proposal")
    return torch.minimum(flow, flow.transpose(-1, -2)).sum(dim=(-1, -2))


def stationary_law(kernel: Tensor) -> Tensor:
    """The law t with t = t T, equation (imh-stationary), by linear algebra; shape (..., n), float64.

    Raises:
        ValueError: there is more than one, as some states cannot reach others.
    """
    kernel = check_kernel(kernel).double()
    kernel = kernel / kernel.sum(-1, keepdim=True)
    size, one = kernel.shape[-1], torch.eye(kernel.shape[-1]).to(kernel)
    singular = torch.linalg.svdvals(one - kernel)
    if size > 1 and (singular[..., -2] < 1e-12).any():
        raise ValueError("the kernel has more than one stationary law: some states cannot reach others.")
    # the equations of balance, with their sum to 1 added to each: regular where the law is unique
    return torch.linalg.solve(one - kernel.transpose(-1, -2) + 1.0, kernel.new_ones(kernel.shape[:-1]))


def _check_target(target: Tensor) -> Tensor:
    total = target.sum(-1)
    if not (target > 0).all() or not ((total - 1.0).abs() <= torch.finfo(target.dtype).eps ** 0.5).all():
        raise ValueError(
            f"target has entries from {target.min().item():g} on and sums up to {total.max().item():g}, but it must be "
            "a distribution with positive entries. Divide by target.sum(-1, keepdim=True), and leave out other states."
        )
    return target


def total_variation(first: Tensor, second: Tensor, dims: int = 1) -> Tensor:
    """Half the sum of |first - second| over the last `dims` dimensions, equations (mh-tv) and (imh-tv), (18).

    On a finite space; neither needs to sum to 1, as in (22) and (24).

    Example:
        >>> total_variation(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(0.5000)
    """
    return 0.5 * (first - second).abs().flatten(-dims).sum(dim=-1)

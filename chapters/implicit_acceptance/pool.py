"""Implicit Metropolis-Hastings over a pool of proposals, each made and scored once, so that chains can be long."""

import torch
from torch import Tensor

from bnnlib._checks import DivergedError, check_count
from bnnlib.sampling.discriminators import PairDiscriminator, check_rows
from bnnlib.sampling.implicit import ImplicitChains, accept_scored

_BLOCK = 100  # steps whose random numbers are drawn at once


@torch.no_grad()
def pooled_metropolis_hastings(
    discriminator: PairDiscriminator,
    pool: Tensor,
    start: Tensor,
    num_steps: int,
    *,
    restart: bool = False,
    generator: torch.Generator | None = None,
) -> ImplicitChains:
    """Chains with kernel (imh-kernel), (16)-(17), whose independent proposals are drawn from a pool with replacement.

    `implicit_metropolis_hastings` makes a new point for each step of each chain. Here n points are made and scored
    once, and a step looks two scores up, so that hundreds of steps cost what one did. The chain's law is then that of
    the pool's points with weights in proportion to d / (1 - d): for n to infinity that of fresh proposals, and for a
    finite n no better than the few points that carry the weights (the effective size of the pool is 1 / sum of
    squared weights).

    Args:
        discriminator: of `bnnlib.sampling`, in evaluation mode.
        pool: independent proposals, shape (n, ...), on the device of the start.
        start: where the chains start, shape (chains, ...).
        num_steps: proposals for each chain.
        restart: see `implicit_metropolis_hastings`; a restarted chain begins at a point of the pool.
        generator: of proposals and acceptance, on the device of the start; by default PyTorch's own.

    Returns:
        Chains whose states are places in the pool, shape (chains,); None where a chain may still be at its start.

    Raises:
        ValueError: the count, or the rows of the pool or the start.
        DivergedError: a score is NaN.
    """
    check_count("num_steps", num_steps)
    check_rows("pool", pool)
    check_rows("start", start)
    if pool.shape[1:] != start.shape[1:]:
        raise ValueError(
            f"points of the pool have shape {tuple(pool.shape[1:])} and those of the start {tuple(start.shape[1:])}, "
            "but a chain moves from one to the other. Give the proposals the shape of the data."
        )
    scores, first = (torch.cat([discriminator.score(part) for part in rows.split(1000)]) for rows in (pool, start))
    if bool(scores.isnan().any() | first.isnan().any()):
        raise DivergedError(
            "the discriminator gave NaN. Look for NaN in the start and in the pool, or for a training of the "
            "discriminator that diverged.",
            "the pool's scores",
        )
    place = torch.full((len(start),), -1, dtype=torch.long, device=start.device)
    place, moves = _run(discriminator, scores, place, first, num_steps, generator)
    never, rate = moves == 0, moves.double() / num_steps
    error = float(rate.std() / len(rate) ** 0.5) if len(rate) > 1 else 0.0
    again = never.nonzero().squeeze(1) if restart else never.new_zeros(0, dtype=torch.long)
    if len(again):
        fresh = torch.randint(len(pool), (len(again),), generator=generator, device=start.device)
        fresh, moves[again] = _run(discriminator, scores, fresh, scores[fresh], num_steps, generator)
        place[again] = fresh
    restarted = torch.zeros_like(never).index_fill_(0, again, True)
    at_start = (place < 0).view(-1, *[1] * (start.dim() - 1))
    samples = torch.where(at_start, start, pool[place.clamp_min(0)])
    states = place if bool((never == restarted).all()) else None
    return ImplicitChains(samples, states, moves, never, restarted, float(rate.mean()), error)


def _run(discriminator, scores: Tensor, place: Tensor, now: Tensor, steps: int, generator) -> tuple[Tensor, Tensor]:
    """Where chains at these places, with these scores, are after some steps, and how often each moved."""
    moves, chains = torch.zeros_like(place), len(place)
    for done in range(0, steps, _BLOCK):
        shape = (min(_BLOCK, steps - done), chains)
        chosen = torch.randint(len(scores), shape, generator=generator, device=scores.device)
        out = accept_scored(now, scores[chosen], generator, discriminator.log_ratio_of_scores)
        taken = chosen.gather(0, out.last.clamp_min(0).unsqueeze(0)).squeeze(0)
        place = torch.where(out.last >= 0, taken, place)
        now, moves = out.scores, moves + out.accepted.sum(dim=0)
    return place, moves

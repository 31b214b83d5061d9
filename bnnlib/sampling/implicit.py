"""The implicit Metropolis-Hastings algorithm: chains whose test is a discriminator's (Algorithm 1 of section 1.4).

Many chains are one batch, and a step waits for nothing: what may be wrong is looked at between blocks of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import DivergedError, check_count
from bnnlib.sampling.discriminators import (
    GenerativeProposal,
    PairDiscriminator,
    check_rows,
    check_same_rows,
    states_of,
)
from bnnlib.sampling.kernels import chosen

_CHECK_EVERY = 50  # steps between looks at what a discriminator gave


class ScoredChains(NamedTuple):
    """What `accept_scored` returns."""

    last: Tensor  # for each chain the step whose proposal it holds at the end; -1 where it never moved
    accepted: Tensor  # which proposals were taken, (steps, chains)
    scores: Tensor  # at the end, (chains,)


@dataclass(frozen=True)
class ImplicitChains:
    """What `implicit_metropolis_hastings` returns.

    Args:
        samples: where the chains are at the end, shape (chains, ...).
        states: the same as states of the proposal: latents, or the points; None where a chain may still be at its
            start, which has no latents.
        moves: accepted proposals of each chain; of a restarted chain those after the restart.
        never_moved: chains that refused every proposal, before any restart.
        restarted: chains that began again from a proposal.
        acceptance_rate: share of proposals that were taken, restarts left out.
        acceptance_error: its standard error over the chains.
        trace: all states of the chains, (steps, chains, ...), as points; None unless asked for.

    Example:
        >>> proposal = PointProposal(draw=lambda count, generator: torch.randn(count, 2, generator=generator))
        >>> half = lambda x, y: torch.full((len(x),), 0.5)
        >>> implicit_metropolis_hastings(half, proposal, torch.randn(5, 2), num_steps=10).moves
        tensor([10, 10, 10, 10, 10])
    """

    samples: Tensor
    states: Tensor | None
    moves: Tensor
    never_moved: Tensor
    restarted: Tensor
    acceptance_rate: float
    acceptance_error: float
    trace: Tensor | None = None


def accept_scored(
    start: Tensor, proposed: Tensor, generator: torch.Generator | None, log_ratio: Callable[[Tensor, Tensor], Tensor]
) -> ScoredChains:
    """Independent implicit Metropolis-Hastings on scores alone, equation (imh-kernel) without a look at the points.

    `start` are scores (chains,), `proposed` (steps, chains); `log_ratio` of two scores is log d(x, y) - log d(y, x).
    """
    steps, chains = proposed.shape
    uniform = torch.rand(steps, chains, generator=generator, device=proposed.device, dtype=proposed.dtype).log()
    last = torch.full((chains,), -1, dtype=torch.long, device=proposed.device)
    accepted = torch.empty(steps, chains, dtype=torch.bool, device=proposed.device)
    current = start
    for step in range(steps):
        taken = uniform[step] < log_ratio(proposed[step], current)
        current = torch.where(taken, proposed[step], current)
        last = torch.where(taken, step, last)
        accepted[step] = taken
    return ScoredChains(last, accepted, current)


@torch.no_grad()
def implicit_metropolis_hastings(
    discriminator: PairDiscriminator | Callable[[Tensor, Tensor], Tensor],
    proposal: GenerativeProposal,
    start: Tensor,
    num_steps: int,
    *,
    start_latents: Tensor | None = None,
    lower: float = 0.0,
    restart: bool = False,
    trace: bool = False,
    block: int = 5000,
    generator: torch.Generator | None = None,
) -> ImplicitChains:
    """Chains with kernel (imh-kernel), (16)-(17): from y to x with probability min{1, d(x, y) / d(y, x)}.

    Args:
        discriminator: of `bnnlib.sampling`, in evaluation mode; or a function d(x, y) with values (n,) in [lower, 1].
        proposal: see `LatentProposal` and `PointProposal`.
        start: where the chains start, rows of the data set in Algorithm 1, shape (chains, ...).
        num_steps: proposals for each chain.
        start_latents: of the start, (chains, k); needed where a Markov proposal moves latents.
        lower: b of a discriminator that is a function; others have their own.
        restart: let chains that refused every proposal run once more, from a proposal, so that no sample is a point of
            the data set. An addition to Algorithm 1, after the MH-GAN of Turner et al. (2019).
        trace: keep all states.
        block: independent proposals that are drawn and scored at once; the random numbers depend on it.
        generator: of proposals and acceptance, on the device of the start; by default PyTorch's own.

    Raises:
        ValueError: a count, the start, its latents, the proposal's shape, or a value of d(x, y) outside of [lower, 1].
        DivergedError: a score or a value of the discriminator is NaN.

    Example:
        >>> discriminator = IndependentDiscriminator(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0)))
        >>> proposal = PointProposal(draw=lambda count, generator: torch.randn(count, 2, generator=generator))
        >>> implicit_metropolis_hastings(discriminator, proposal, torch.randn(100, 2), num_steps=10).samples.shape
        torch.Size([100, 2])
    """
    check_count("num_steps", num_steps)
    check_count("block", block)
    check_rows("start", start)
    state = states_of(proposal, start, start_latents, "start")
    options = {"lower": lower, "trace": trace, "block": block, "generator": generator}
    run = _Run(discriminator, proposal, start, state, **options)
    run.go(num_steps)
    moves, never = run.moves, run.moves == 0
    rate = moves.double() / num_steps
    error = float(rate.std() / len(rate) ** 0.5) if len(rate) > 1 else 0.0
    unmoved = never.nonzero().squeeze(1) if restart else never.new_zeros(0, dtype=torch.long)
    if len(unmoved):
        fresh = proposal.draw(len(unmoved), generator)
        second = _Run(discriminator, proposal, proposal.decode(fresh), fresh, **options)
        second.go(num_steps)
        run.put(unmoved, second)
    restarted = torch.zeros_like(never).index_fill_(0, unmoved, True)
    states = run.state if run.state is not None and (state is not None or bool((never == restarted).all())) else None
    return ImplicitChains(
        run.points, states, run.moves, never, restarted, float(rate.mean()), error, run.traced() if trace else None
    )


class _Run:
    """A batch of chains under way: their points, the states of the proposal behind them, and their scores."""

    def __init__(self, discriminator, proposal, points, state, *, lower, trace, block, generator) -> None:
        self.discriminator, self.proposal, self.generator = discriminator, proposal, generator
        self.points, self.state, self.lower, self.block = points, state, lower, block
        self.worst = torch.zeros(3, device=points.device)  # NaN seen; most below the range, most above it
        self.scored = isinstance(discriminator, PairDiscriminator)
        self.scores = self._score(points) if self.scored else points.new_empty(0)
        self.moves = torch.zeros(len(points), dtype=torch.long, device=points.device)
        self.tracing, self.kept = trace, list[Tensor]()

    def go(self, steps: int) -> None:
        in_blocks = self.proposal.independent and self.scored
        size = max(1, self.block // len(self.points)) if in_blocks else 1
        done = looked = 0
        while done < steps:
            count = min(size, steps - done)
            self._independent(count) if in_blocks else self._step()
            done += count
            if done - looked >= _CHECK_EVERY or done == steps:
                self._check(done)
                looked = done

    def _independent(self, count: int) -> None:
        chains = len(self.points)
        states = self.proposal.draw(count * chains, self.generator)
        proposed = self.proposal.decode(states)
        check_same_rows(proposed[:chains], self.points)
        scores = self._score(proposed).view(count, chains)
        out = accept_scored(self.scores, scores, self.generator, self.discriminator.log_ratio_of_scores)
        proposed = proposed.view(count, *self.points.shape)
        points = self.points
        for step, taken in enumerate(out.accepted if self.tracing else ()):
            points = chosen(taken, proposed[step], points)
            self.kept.append(points)
        moved, column = out.last >= 0, torch.arange(chains, device=out.last.device)
        rows = out.last.clamp_min(0)
        self.points = chosen(moved, proposed[rows, column], self.points)
        taken = states.view(count, chains, *states.shape[1:])[rows, column]
        self.state = taken if self.state is None else chosen(moved, taken, self.state)
        self.scores, self.moves = out.scores, self.moves + out.accepted.sum(dim=0)

    def _step(self) -> None:
        state = self.proposal.move(self.points if self.state is None else self.state, self.generator)
        proposed = self.proposal.decode(state)
        check_same_rows(proposed, self.points)
        if self.scored:
            scores = self._score(proposed)
            log_ratio = self.discriminator.log_ratio_of_scores(scores, self.scores)
        else:
            log_ratio = self._value(proposed, self.points).log() - self._value(self.points, proposed).log()
        uniform = torch.rand(len(proposed), generator=self.generator, device=proposed.device, dtype=log_ratio.dtype)
        taken = uniform.log() < log_ratio
        self.points = chosen(taken, proposed, self.points)
        self.state = state if self.state is None else chosen(taken, state, self.state)
        if self.scored:
            self.scores = torch.where(taken, scores, self.scores)
        self.moves = self.moves + taken
        if self.tracing:
            self.kept.append(self.points)

    def _score(self, points: Tensor) -> Tensor:
        scores = torch.cat([self.discriminator.score(part) for part in points.split(1000)])
        self.worst[0] += scores.isnan().any()
        return scores

    def _value(self, x: Tensor, y: Tensor) -> Tensor:
        values = self.discriminator(x, y)
        if values.shape != x.shape[:1]:
            raise ValueError(
                f"the discriminator gives shape {tuple(values.shape)} for {len(x)} pairs, but it must be ({len(x)},)."
            )
        self.worst[0] += values.isnan().any()
        self.worst[1] = torch.maximum(self.worst[1], (self.lower - values).max())
        self.worst[2] = torch.maximum(self.worst[2], (values - 1.0).max())
        return values

    def _check(self, done: int) -> None:
        nan, below, above = self.worst.tolist()
        if nan:
            raise DivergedError(
                f"the discriminator gave NaN within the first {done} steps. Look for NaN in the start and in the "
                "proposals, or for a training of the discriminator that diverged.",
                f"step {done}",
            )
        if not self.scored and (below > 1e-6 or above > 1e-6):
            value = self.lower - below if below > 1e-6 else 1.0 + above
            raise ValueError(
                f"the discriminator gave {value:g} within the first {done} steps, but d(x, y) must be in "
                f"[{self.lower:g}, 1]. Squash it, or use IndependentDiscriminator or MarkovDiscriminator, which do."
            )

    def traced(self) -> Tensor:
        """All states, (steps, chains, ...)."""
        return torch.stack(self.kept)

    def put(self, rows: Tensor, other: _Run) -> None:
        """Take over other chains at these rows."""
        self.points = self.points.index_copy(0, rows, other.points)
        self.moves = self.moves.index_copy(0, rows, other.moves)
        if self.state is not None:
            self.state = self.state.index_copy(0, rows, other.state)
        if self.tracing:
            self.kept = list(self.traced().index_copy(1, rows, other.traced()))

"""Metropolis-Hastings on many chains at once: a kernel is a target with a way to move, a trace what its chains did."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib._terminal import progress_bar
from bnnlib.functional import acceptance_probability, log_acceptance_ratio
from bnnlib.sampling.proposals import Independent, Proposal

LogProb = Callable[[Tensor], Tensor]
_BLOCK = 2**15  # proposals that an independent kernel draws and weighs at once
_LOOK = 128  # steps between two looks at what the density returned: a look waits for the device


class State(NamedTuple):
    """Where the chains are.

    Attributes:
        position: (chains, ...).
        log_prob: (chains,), log density of the target there, in nats and up to a constant.
        cache: what the kernel does not want to compute again: log q of the position, or the density's gradient there.
    """

    position: Tensor
    log_prob: Tensor
    cache: Tensor


class Move(NamedTuple):
    """What one step did: the new state, min{1, xi} of each chain, and which chains took the proposed point."""

    state: State
    probability: Tensor
    accepted: Tensor


class Kernel:
    """A Markov kernel that leaves exp(log_prob) invariant. `start`, then `step`; or `sample` for a whole trace.

    Args:
        log_prob: maps points (chains, ...) to log densities (chains,), in nats, up to a constant; -inf outside of the
            support.

    Example:
        >>> isinstance(HamiltonianMonteCarlo(lambda x: -x.square().sum(dim=-1) / 2, step_size=0.5), Kernel)
        True
    """

    def __init__(self, log_prob: LogProb) -> None:
        self.log_prob = log_prob

    def start(self, position: Tensor) -> State:
        """The state of chains at `position`, shape (chains, ...).

        Raises:
            ValueError: there is no chain, the density has another shape than (chains,), or is not finite there.
        """
        if position.dim() < 1 or not len(position):
            raise ValueError(f"position has shape {tuple(position.shape)}, but it must be (chains, ...), chains >= 1.")
        log_prob = check_log_density("log_prob", self.log_prob(position), position).detach()
        if not log_prob.isfinite().all():
            bad = int((~log_prob.isfinite()).sum())
            raise ValueError(
                f"log_prob is not finite at the start of {bad} of {len(position)} chains. Start inside of the support; "
                "NaN or +inf there is a mistake in the density."
            )
        return State(position.detach(), log_prob, self._cache(position.detach()))

    def _cache(self, position: Tensor) -> Tensor:
        return position.new_empty(0)

    def step(self, state: State, generator: torch.Generator | None = None) -> Move:
        """One step of all chains; nothing waits for the device."""
        raise NotImplementedError

    def steps(self, state: State, count: int, generator: torch.Generator | None = None) -> Iterator[Move]:
        """`count` steps, one after the other."""
        for _ in range(count):
            move = self.step(state, generator)
            state = move.state
            yield move


class MetropolisHastings(Kernel):
    """See `metropolis_hastings`."""

    def __init__(self, log_prob: LogProb, proposal: Proposal) -> None:
        super().__init__(log_prob)
        self.proposal = proposal

    def _cache(self, position: Tensor) -> Tensor:
        given = self.proposal
        return given.log_prob(position).detach() if isinstance(given, Independent) else super()._cache(position)

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator | None = None) -> Move:
        if isinstance(self.proposal, Independent):
            return next(self._independent(self.proposal, state, 1, generator))
        proposed, log_p, log_ratio = weigh(self.log_prob, self.proposal, state.position, state.log_prob, generator)
        return decide(state, State(proposed, log_p, state.cache), log_ratio, generator)

    @torch.no_grad()
    def steps(self, state: State, count: int, generator: torch.Generator | None = None) -> Iterator[Move]:
        if not isinstance(self.proposal, Independent):
            yield from super().steps(state, count, generator)
            return
        block = max(1, _BLOCK // len(state.position))
        for done in range(0, count, block):
            for move in self._independent(self.proposal, state, min(block, count - done), generator):
                state = move.state
                yield move

    def _independent(
        self, proposal: Independent, state: State, count: int, generator: torch.Generator | None
    ) -> Iterator[Move]:
        """Points that do not depend on the chain are drawn, and their densities taken, for many steps at once."""
        chains = len(state.position)
        proposed, log_q = proposal.draw_with_log_prob(count * chains, generator)
        _check_proposed(proposed, (count * chains, *state.position.shape[1:]))
        check_log_density("the proposal's log density", log_q, proposed)
        log_p = check_log_density("log_prob", self.log_prob(proposed), proposed)
        points = zip(*(values.unflatten(0, (count, chains)) for values in (proposed, log_p, log_q)), strict=True)
        for point in points:
            offered = State(*point)
            log_ratio = log_acceptance_ratio(state.log_prob, offered.log_prob, offered.cache, state.cache)
            move = decide(state, offered, log_ratio, generator)
            state = move.state
            yield move


def metropolis_hastings(log_prob: LogProb, proposal: Proposal) -> Kernel:
    """The Metropolis-Hastings kernel, equation (mh-kernel): propose x' ~ q(. | x), take it with min{1, xi}.

    Args:
        log_prob: see `Kernel`.
        proposal: `RandomWalk`, `Markov`, or `Independent`; the last takes anything with ``rsample`` and ``log_prob``.

    Raises:
        TypeError: the proposal has no density, which `implicit_metropolis_hastings` does not need.

    Example:
        >>> kernel = metropolis_hastings(lambda x: -x.square().sum(dim=-1) / 2, RandomWalk(2.0))  # of N(0, 1)
        >>> trace = sample(kernel, torch.zeros(100, 1), 200, burn_in=50, generator=torch.Generator().manual_seed(0))
        >>> trace.draws.shape, 0.9 < trace.draws.std().item() < 1.1
        (torch.Size([100, 200, 1]), True)
    """
    if not isinstance(proposal, Proposal):
        raise TypeError(
            f"proposal is a {type(proposal).__name__}, but it must be a Proposal: RandomWalk, Markov or Independent. "
            "For what only draws, such as a GAN's generator, use implicit_metropolis_hastings with a discriminator."
        )
    return MetropolisHastings(log_prob, proposal)


def weigh(
    log_prob: LogProb, proposal: Proposal, given: Tensor, log_p: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Proposed points of the shape of `given`, their log densities and log xi, (chains,) both."""
    proposed = proposal.draw(given, generator)
    _check_proposed(proposed, tuple(given.shape))
    log_p_proposed = check_log_density("log_prob", log_prob(proposed), proposed)
    if proposal.symmetric:
        return proposed, log_p_proposed, log_p_proposed - log_p
    name = "the proposal's log density"
    forward = check_log_density(name, proposal.log_density(proposed, given), proposed)
    backward = check_log_density(name, proposal.log_density(given, proposed), proposed)
    return proposed, log_p_proposed, log_acceptance_ratio(log_p, log_p_proposed, forward, backward)


def check_log_density(name: str, value: Tensor, points: Tensor) -> Tensor:
    """Return `value` if it is one number for each of `points` (chains, ...)."""
    if value.shape != points.shape[:1]:
        raise ValueError(
            f"{name} returned shape {tuple(value.shape)} for points {tuple(points.shape)}, but it must be "
            f"({len(points)},): one log density a point. Sum over the coordinates."
        )
    return value


def _check_proposed(proposed: Tensor, shape: tuple[int, ...]) -> None:
    if proposed.shape != shape:
        raise ValueError(
            f"the proposal draws points {tuple(proposed.shape)}, but the chains need {shape}: the same space for both."
        )


def decide(state: State, offered: State, log_ratio: Tensor, generator: torch.Generator | None) -> Move:
    """Take the offered point of each chain with probability min{1, xi}; NaN refuses."""
    uniform = torch.rand(log_ratio.shape, generator=generator, device=log_ratio.device, dtype=log_ratio.dtype)
    accepted = uniform.log() < log_ratio
    kept = [chosen(accepted, new, old) if new.numel() else new for old, new in zip(state, offered, strict=True)]
    # where the density is NaN or +inf so is this, for `sample` to find
    probability = torch.where(offered.log_prob == torch.inf, torch.nan, acceptance_probability(log_ratio))
    return Move(State(*kept), probability, accepted)


def chosen(mask: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Of each chain the new value where the mask (chains,) says so, else the old one."""
    return torch.where(mask.view(-1, *[1] * (new.dim() - 1)), new, old)


@dataclass(frozen=True)
class Trace:
    """What the chains did after burn-in.

    Attributes:
        draws: (chains, draws, ...), positions, one in `thin` steps.
        log_prob: (chains, draws), in nats.
        acceptance: (chains,), mean of min{1, xi} over all steps after burn-in.
        moves: (chains,), number of steps that moved, after burn-in.
        state: of the last step; `sample` goes on from it.

    Example:
        >>> kernel = metropolis_hastings(lambda x: -x.square().sum(dim=-1) / 2, RandomWalk(1.0))
        >>> sample(kernel, torch.zeros(4, 2), num_draws=100).never_moved
        tensor([False, False, False, False])
    """

    draws: Tensor
    log_prob: Tensor
    acceptance: Tensor
    moves: Tensor
    state: State

    @property
    def never_moved(self) -> Tensor:
        """(chains,), the chains that stayed where they started."""
        return self.moves == 0


@torch.no_grad()
def sample(
    kernel: Kernel,
    start: Tensor | State,
    num_draws: int,
    *,
    burn_in: int = 0,
    thin: int = 1,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Trace:
    """Run the chains of `start` together.

    To go on from a trace, start from its state. With the same generator that makes the draws of one long run, but for
    an independent proposal, which draws many steps' points ahead: there the law alone is the same.

    Args:
        start: positions (chains, ...), or the state in which a trace, a warm-up or learning ended: its positions count,
            their densities are taken anew.
        num_draws: kept for each chain; thin * num_draws + burn_in steps are made.
        burn_in: steps that are not kept and do not count.
        thin: steps for a draw.
        generator: of all randomness, on the chains' device.
        progress: whether to show a bar.

    Raises:
        ValueError: a count or a shape does not fit, the density is not finite at the start, or NaN or +inf later.

    Warns:
        UserWarning: some chains never moved.

    Example:
        >>> kernel = metropolis_hastings(lambda x: -x.square().sum(dim=-1) / 2, RandomWalk(1.0))
        >>> trace = sample(kernel, torch.zeros(4, 2), num_draws=100, thin=2)
        >>> trace.draws.shape, sample(kernel, trace.state, num_draws=50).log_prob.shape
        (torch.Size([4, 100, 2]), torch.Size([4, 50]))
    """
    check_count("num_draws", num_draws)
    check_count("burn_in", burn_in, 0)
    check_count("thin", thin)
    # a cache belongs to the kernel, and to the proposal as it was, that computed it
    state = kernel.start(start.position if isinstance(start, State) else start)
    chains = len(state.position)
    draws = state.position.new_empty(num_draws, *state.position.shape)
    log_prob = state.log_prob.new_empty(num_draws, chains)
    total = state.log_prob.new_zeros(chains)
    moves = torch.zeros(chains, dtype=torch.long, device=total.device)
    last = burn_in + num_draws * thin
    with progress_bar(progress, last, "step") as bar:
        for step, move in enumerate(kernel.steps(state, last, generator), start=1):
            state = move.state
            bar.update(1)
            if step <= burn_in:
                total += move.probability * 0.0  # only to see a NaN
            else:
                total += move.probability
                moves += move.accepted
                if (step - burn_in) % thin == 0:
                    at = (step - burn_in) // thin - 1
                    draws[at], log_prob[at] = state.position, state.log_prob
            if (step % _LOOK == 0 or step == last) and total.isnan().any():
                raise ValueError(
                    f"log_prob, or the proposal's density, was NaN or +inf within the {_LOOK} steps up to step {step}, "
                    f"in {int(total.isnan().sum())} of {chains} chains. Outside of the support return -inf."
                )
    if still := int((moves == 0).sum()):
        warnings.warn(
            f"{still} of {chains} chains never moved in {last - burn_in} steps: their draws are copies of one point. "
            "Take smaller steps, a proposal with heavier tails, or another start; Trace.never_moved says which.",
            stacklevel=3,
        )
    return Trace(draws.transpose(0, 1), log_prob.T, total / (last - burn_in), moves, state)

"""Hamiltonian Monte Carlo, the reference: leapfrog steps, with step size and mass matrix learned in a warm-up."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bnnlib._checks import check_count, check_covariance, check_positive, check_probability
from bnnlib.sampling.kernels import Kernel, LogProb, Move, State, check_log_density, decide

# Windows of the warm-up: share of the steps, and what they learn beside the step size. A window's chains reach some
# tens of times as far as the step that the narrowest direction allows: each window widens what the next can see.
_METRIC, _LENGTH = "covariance", "number of leapfrog steps"
_WINDOWS = ((0.15, None), (0.1, _METRIC), (0.15, _METRIC), (0.3, _METRIC), (0.15, _LENGTH), (0.15, None))

_EXPLORING = 8  # leapfrog steps while the covariance is unknown
_START, _TARGET = 0.1, 0.8  # step size at first, acceptance rate to aim at
_TRAJECTORY = 1.5  # time that one step of the chain integrates, in standard deviations of the target


class HamiltonianMonteCarlo(Kernel):
    """HMC with the leapfrog integrator, equation (mh-hmc) (Neal, 2011), on points (chains, dim).

    A Metropolis-Hastings kernel on position and momentum whose proposal keeps volume: the ratio is exp(-change of
    energy). The step size of each step is drawn within +-`jitter` of `step_size`, so that no trajectory comes full
    circle in all steps. A trajectory that runs off to infinity is refused.

    Args:
        log_prob: see `Kernel`; differentiable.
        step_size: of the integrator, a number or a scalar tensor.
        num_leapfrog: integrator steps, a gradient each.
        covariance: of the target, or a guess of it: (dim,) for a diagonal, (dim, dim); by default the identity. The
            mass matrix is its inverse.
        jitter: relative, in [0, 1).

    Raises:
        ValueError: a number is out of its range, or the covariance is no positive (dim,) or positive definite
            (dim, dim).

    Example:
        >>> kernel = HamiltonianMonteCarlo(lambda x: -x.square().sum(dim=-1) / 2, step_size=0.3, num_leapfrog=5)
        >>> trace = sample(kernel, torch.zeros(100, 2), 50, burn_in=20, generator=torch.Generator().manual_seed(0))
        >>> trace.acceptance.mean().item() > 0.9
        True
    """

    def __init__(
        self,
        log_prob: LogProb,
        step_size: float | Tensor,
        num_leapfrog: int = 10,
        covariance: Tensor | None = None,
        jitter: float = 0.2,
    ) -> None:
        super().__init__(log_prob)
        self.step_size = check_positive("step_size", step_size)
        self.num_leapfrog = check_count("num_leapfrog", num_leapfrog)
        if check_probability("jitter", jitter) == 1.0:
            raise ValueError("jitter is 1, but it must be below: a step of size 0 moves nothing. Try 0.2.")
        self.jitter, self.covariance, self._factor = jitter, covariance, None
        if covariance is not None and covariance.dim() == 1:
            check_positive("covariance", covariance)
        elif covariance is not None:
            self._factor = torch.linalg.cholesky(check_covariance(covariance))

    def start(self, position: Tensor) -> State:
        """See `Kernel.start`; the positions are (chains, dim), of the covariance's dim."""
        if position.dim() != 2 or (self.covariance is not None and len(self.covariance) != position.shape[1]):
            dimensions = "dim" if self.covariance is None else len(self.covariance)
            raise ValueError(f"position has shape {tuple(position.shape)}, but it must be (chains, {dimensions}).")
        return super().start(position)

    def _gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            point = position.detach().requires_grad_()
            log_prob = check_log_density("log_prob", self.log_prob(point), point)
            found = torch.autograd.grad(log_prob.sum(), point, allow_unused=True) if log_prob.requires_grad else (None,)
        if (gradient := found[0]) is None:
            raise ValueError(
                "log_prob has no gradient in the points: it is constant, or computed under detach(), no_grad() or by "
                "NumPy. Compute it from the points with PyTorch's operations, or take metropolis_hastings."
            )
        return log_prob.detach(), gradient

    def _cache(self, position: Tensor) -> Tensor:
        return self._gradient(position)[1]

    def _velocity(self, momentum: Tensor) -> Tensor:
        if self.covariance is None:
            return momentum
        return momentum * self.covariance if self._factor is None else momentum @ self.covariance

    def _momentum(self, like: Tensor, generator: torch.Generator | None) -> Tensor:
        """N(0, mass): the noise divided by the covariance's root."""
        noise = torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)
        if self.covariance is None:
            return noise
        if self._factor is None:
            return noise / self.covariance.sqrt()
        return torch.linalg.solve_triangular(self._factor.T, noise.T, upper=True).T

    @torch.no_grad()
    def leapfrog(self, state: State, momentum: Tensor, step_size: float | Tensor) -> tuple[State, Tensor]:
        """`num_leapfrog` steps of Hamilton's equations: the state and momentum (chains, dim) where they end.

        Keeps volume, and the energy up to O(step_size^2); from the end with the momentum turned round it leads back.
        """
        position, log_prob, gradient = state
        for _ in range(self.num_leapfrog):
            momentum = momentum + 0.5 * step_size * gradient
            position = position + step_size * self._velocity(momentum)
            log_prob, gradient = self._gradient(position)
            momentum = momentum + 0.5 * step_size * gradient
        return State(position, log_prob, gradient), momentum

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator | None = None) -> Move:
        uniform = torch.rand((), generator=generator, device=state.position.device, dtype=state.position.dtype)
        size = self.step_size * (1.0 + self.jitter * (2.0 * uniform - 1.0))
        momentum = self._momentum(state.position, generator)
        energy = 0.5 * (momentum * self._velocity(momentum)).sum(dim=-1)
        (position, log_prob, gradient), momentum = self.leapfrog(state, momentum, size)
        log_ratio = log_prob - state.log_prob + energy - 0.5 * (momentum * self._velocity(momentum)).sum(dim=-1)
        # NaN and +inf are the density's own mistake only where nothing overflows: fourth powers are finite there
        near = position.abs().amax(dim=-1) < torch.finfo(position.dtype).max ** 0.25
        wrong = near & (log_prob.isnan() | (log_prob == torch.inf))
        log_ratio = torch.where(log_ratio.isfinite(), log_ratio, -torch.inf)
        log_prob = torch.where(wrong, torch.inf, torch.where(log_prob.isfinite(), log_prob, -torch.inf))
        return decide(state, State(position, log_prob, gradient), log_ratio, generator)


@dataclass(frozen=True)
class WarmUp:
    """What a warm-up found: a kernel with its step size and covariance, and the state in which it ended.

    Example:
        >>> warm_up(lambda x: -x.square().sum(dim=-1) / 2, torch.randn(50, 2), num_steps=100).kernel.covariance.shape
        torch.Size([2, 2])
    """

    kernel: HamiltonianMonteCarlo
    state: State


class _DualAveraging:
    """Nesterov's scheme as in Hoffman and Gelman (2014), (6), for the log of the step size; stays on the device."""

    def __init__(self, step_size: Tensor, target: float) -> None:
        self.center, self.target = (10.0 * step_size).log(), target
        self.error, self.average, self.count = torch.zeros_like(step_size), step_size.log(), 0

    def update(self, accepted: Tensor) -> Tensor:
        self.count += 1
        weight = 1.0 / (self.count + 10.0)
        self.error = (1.0 - weight) * self.error + weight * (self.target - accepted)
        log_step = self.center - math.sqrt(self.count) / 0.05 * self.error
        share = self.count**-0.75
        self.average = share * log_step + (1.0 - share) * self.average
        return log_step.exp()


def warm_up(
    log_prob: LogProb,
    start: Tensor,
    num_steps: int = 500,
    *,
    generator: torch.Generator | None = None,
) -> WarmUp:
    """Learn step size and mass matrix from all chains together; the draws made on the way are not samples.

    Six windows: the step size alone; three that also learn the covariance of all chains' positions, each the metric of
    the next; the step size again, from which the number of leapfrog steps follows; and the step size for that number.
    On a Gaussian target a trajectory of pi / 2 ends in a draw that does not depend on the start.

    Args:
        log_prob: see `Kernel`; differentiable.
        start: (chains, dim), at least 2 chains.
        num_steps: in all, at least 20.
        generator: of all randomness.

    Raises:
        ValueError: a count is too small, or the density is not finite at the start.

    Example:
        >>> found = warm_up(lambda x: -x.square().sum(dim=-1) / 2, torch.randn(50, 2), num_steps=100)
        >>> trace = sample(found.kernel, found.state, 20)
        >>> trace.draws.shape
        torch.Size([50, 20, 2])
    """
    check_count("num_steps", num_steps, 20)
    check_count("the number of chains", len(start), 2)
    covariance: Tensor | None = None
    size = torch.full((), _START, dtype=start.dtype, device=start.device)
    num_leapfrog = _EXPLORING
    state = HamiltonianMonteCarlo(log_prob, size, num_leapfrog).start(start)
    for share, learned in _WINDOWS:
        kernel = HamiltonianMonteCarlo(log_prob, size, num_leapfrog, covariance)
        averaging = _DualAveraging(size, _TARGET)
        positions: list[Tensor] = []
        for _ in range(max(2, round(share * num_steps))):
            move = kernel.step(state, generator)
            state = move.state
            # NaN is a trajectory that met a mistake of the density; the draws will say so
            kernel.step_size = averaging.update(move.probability.nan_to_num(0.0).mean())
            positions.append(state.position)
        size = averaging.average.exp()
        if learned == _METRIC:
            covariance = _covariance(torch.stack(positions[len(positions) // 4 :]).flatten(0, 1))
            size = torch.full_like(size, _START)
            # what follows begins with the step that a whitened target of this dimension would bear, about d^(-1/4)
            num_leapfrog = max(1, round(_TRAJECTORY * start.shape[1] ** 0.25))
        elif learned == _LENGTH:
            num_leapfrog = max(1, round(_TRAJECTORY / size.item()))
    return WarmUp(HamiltonianMonteCarlo(log_prob, size, num_leapfrog, covariance), state)


def _covariance(points: Tensor) -> Tensor:
    """Sample covariance, shrunk by 5 / (n + 5) to a small diagonal, as Stan does."""
    count = len(points)
    keep, small = count / (count + 5.0), 1e-3 * 5.0 / (count + 5.0)
    return keep * torch.cov(points.T).reshape(points.shape[1], -1) + small * torch.eye(points.shape[1]).to(points)

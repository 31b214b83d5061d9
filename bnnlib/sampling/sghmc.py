"""Stochastic-gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin, 2014) in two discretizations."""

import math
from collections.abc import Iterable

import torch

from bnnlib._checks import check_choice, check_non_negative
from bnnlib.functional.sgmcmc import baoab_coefficients, euler_noise_scale
from bnnlib.sampling.base import Sampler


class SGHMC(Sampler):
    """Underdamped Langevin dynamics, equation (aeb-sghmc-sde), (3) of Deng et al. (2019), with SGD's parameters.

    `scheme="baoab"` is equation (aeb-baoab): the distribution of the positions is exact for Gaussian targets at every
    stable step size; nearly so right after a change of lr or momentum, when velocities are rescaled. `scheme="euler"`
    is the discretization of Saatci and Wilson (2017), equation (aeb-sghmc-euler), which the paper takes. Its velocity
    is in units of a step, so that lr must change slowly against 1 / (1 - momentum) steps: after a sudden drop the chain
    is carried far out of its target. Both are `torch.optim.SGD(lr, momentum)` at temperature 0 and constant lr.

    Args:
        params: parameters or groups.
        lr: step size, for the energy in nats; positive. For a mean loss over n observations it is SGD's lr / n.
        momentum: what is kept of the velocity, 1 - friction; at least 0 and below 1.
        temperature: T = 1 / tau, not negative.
        scheme: "baoab" or "euler".
        gradient_variance: V of (aeb-sghmc-euler), the variance of the mini-batch gradient, whose noise needs not be
            added again; with "baoab" it must be 0.
        weight_decay: precision of a normal prior around 0, whose energy is added here instead of in the loss.
        generator, keyed: see `Sampler`.

    Raises:
        ValueError: a setting is out of its range.

    Example:
        >>> theta = torch.nn.Parameter(torch.zeros(1000))
        >>> sampler = SGHMC([theta], lr=0.1, momentum=0.5, generator=torch.Generator().manual_seed(0))
        >>> for _ in range(100):
        ...     theta.grad = theta.detach().clone()  # of the energy of N(0, 1)
        ...     sampler.step()
        >>> 0.9 < theta.std().item() < 1.1
        True
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        momentum: float = 0.9,
        temperature: float = 1.0,
        *,
        scheme: str = "baoab",
        gradient_variance: float = 0.0,
        weight_decay: float = 0.0,
        generator: torch.Generator | None = None,
        keyed: bool = False,
    ) -> None:
        check_choice("scheme", scheme, ("baoab", "euler"))
        if check_non_negative("gradient_variance", gradient_variance) and scheme == "baoab":
            raise ValueError(
                f"gradient_variance is {gradient_variance:g}, but scheme 'baoab' has no correction for it. "
                "Use scheme='euler', or larger mini-batches."
            )
        self.scheme, self.gradient_variance = scheme, gradient_variance
        defaults = {"lr": lr, "momentum": momentum, "temperature": temperature, "weight_decay": weight_decay}
        super().__init__(params, defaults, generator, keyed)

    def _update(self, group, parameters, gradients) -> None:
        if self.scheme == "baoab" and not group["lr"]:
            return  # no time passes
        lr, momentum, temperature, decay = (group[name] for name in ("lr", "momentum", "temperature", "weight_decay"))
        velocities = [self._velocity(parameter) for parameter in parameters]
        if self.scheme == "euler":
            scale = euler_noise_scale(lr, momentum, temperature, self.gradient_variance)
            constants = momentum, lr, decay, 1.0, scale, 1.0, scale
        else:
            kick, drift, scale = baoab_coefficients(lr, momentum, temperature)
            before = group.setdefault("velocity_of", kick)
            if kick != before:  # at equilibrium the variance of a velocity is kick * T
                every = [self._velocity(parameter) for parameter in group["params"] if parameter in self.state]
                torch._foreach_mul_(every, math.sqrt(kick / before))
                group["velocity_of"] = kick
                kick = 0.5 * (kick + math.sqrt(kick * before))  # the half that ends the last step, and this step's
            # both half drifts at once, from the velocity before and after the refreshment
            constants = 1.0, kick, decay, drift * (1.0 + momentum), drift * scale, momentum, scale
        groups = list(zip(parameters, velocities, gradients, strict=True))
        if temperature and self._move("hamiltonian", groups, constants):
            return
        noise = self._draw(parameters, temperature)
        if decay:
            gradients = self._decayed(gradients, parameters, decay)
        if self.scheme == "euler":
            torch._foreach_mul_(velocities, momentum)
            torch._foreach_add_(velocities, gradients, alpha=-lr)
            if noise is not None:
                torch._foreach_add_(velocities, noise, alpha=scale)
            torch._foreach_add_(parameters, velocities)
            return
        torch._foreach_add_(velocities, gradients, alpha=-kick)
        torch._foreach_add_(parameters, velocities, alpha=drift * (1.0 + momentum))
        torch._foreach_mul_(velocities, momentum)
        if noise is not None:
            torch._foreach_add_(velocities, noise, alpha=scale)
            torch._foreach_add_(parameters, noise, alpha=drift * scale)

    @property
    def kind(self) -> str:
        return f"{super().kind} with scheme={self.scheme!r}"

    def _velocity(self, parameter: torch.Tensor) -> torch.Tensor:
        state = self.state[parameter]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return state["velocity"]

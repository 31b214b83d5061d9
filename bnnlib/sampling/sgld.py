"""Stochastic-gradient Langevin dynamics (Welling and Teh, 2011)."""

import math
from collections.abc import Iterable

import torch

from bnnlib.sampling.base import Sampler


class SGLD(Sampler):
    """theta <- theta - lr grad U + sqrt(2 lr T) xi, equation (aeb-sgld), (2) of Deng et al. (2019).

    The stationary variance exceeds the target's by the factor 1 / (1 - lr lambda / 2) in a direction of curvature
    lambda, equation (fnd-step); the noise of mini-batches adds to it. `SGHMC` has no such bias on Gaussian targets.

    Args:
        params: parameters or groups.
        lr: step size, for the energy in nats; positive.
        temperature: T = 1 / tau, not negative; 1 samples the posterior, 0 is gradient descent.
        weight_decay: precision of a normal prior around 0, whose energy is added here instead of in the loss.
        generator, keyed: see `Sampler`.

    Raises:
        ValueError: lr is not positive or the temperature negative.

    Example:
        >>> theta = torch.nn.Parameter(torch.zeros(1000))
        >>> sampler = SGLD([theta], lr=0.1, generator=torch.Generator().manual_seed(0))
        >>> for _ in range(100):
        ...     theta.grad = theta.detach().clone()  # of the energy of N(0, 1)
        ...     sampler.step()
        >>> 0.9 < theta.std().item() < 1.2
        True
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        temperature: float = 1.0,
        *,
        weight_decay: float = 0.0,
        generator: torch.Generator | None = None,
        keyed: bool = False,
    ) -> None:
        defaults = {"lr": lr, "temperature": temperature, "weight_decay": weight_decay}
        super().__init__(params, defaults, generator, keyed)

    def _update(self, group, parameters, gradients) -> None:
        lr, temperature, decay = group["lr"], group["temperature"], group["weight_decay"]
        scale = math.sqrt(2.0 * lr * temperature)
        if scale and self._move("langevin", list(zip(parameters, gradients, strict=True)), (lr, decay, scale)):
            return
        noise = self._draw(parameters, temperature)
        if decay:
            gradients = self._decayed(gradients, parameters, decay)
        torch._foreach_add_(parameters, gradients, alpha=-lr)
        if noise is not None:
            torch._foreach_add_(parameters, noise, alpha=scale)

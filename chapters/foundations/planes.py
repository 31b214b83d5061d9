"""Small tanh networks in the plane as one stack, one for each data set (and start): shapes (stack, ...) throughout.

`bnnlib.replicates` stacks regressions; for these two-class networks a few lines are enough.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.functional import gaussian_draw, gaussian_kl, gaussian_kl_sum, softplus_inverse


def start(stack: int, sizes: Sequence[int], generator: torch.Generator) -> list[nn.Parameter]:
    """Weights (stack, in, out) and biases (stack, 1, out) by turns, drawn as PyTorch does, U(-1, 1) / sqrt(in)."""
    tensors = []
    for fan_in, fan_out in pairwise(sizes):
        for rows in (fan_in, 1):
            uniform = torch.rand(stack, rows, fan_out, generator=generator)
            tensors.append(nn.Parameter((2.0 * uniform - 1.0) / fan_in**0.5))
    return tensors


def logits(parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Outputs (stack, n, classes) at points x (stack, n, 2)."""
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    for weight, bias in pairs[:-1]:
        x = torch.tanh(torch.baddbmm(bias, x, weight))
    weight, bias = pairs[-1]
    return torch.baddbmm(bias, x, weight)


def misfit(parameters: Sequence[Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Negative log-likelihood in nats, summed over all rows and the whole stack; y (stack, n)."""
    return F.cross_entropy(logits(parameters, x).flatten(0, 1), y.flatten(), reduction="sum")


def prior_energy(parameters: Sequence[Tensor]) -> Tensor:
    """-log N(0, 1) of every weight and bias without its constant, summed over the stack, in nats."""
    return 0.5 * sum(parameter.square().sum() for parameter in parameters)


def misfits(parameters: Sequence[Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The same of each network, shape (stack,)."""
    each = F.cross_entropy(logits(parameters, x).flatten(0, 1), y.flatten(), reduction="none")
    return each.view(y.shape).sum(dim=1)


def descend(
    parameters: Sequence[nn.Parameter],
    x: Tensor,
    y: Tensor,
    *,
    steps: int,
    learning_rate: float,
    prior: bool,
    after: Callable[[int], None] = lambda step: None,
) -> None:
    """Minimize the misfit, with the prior or without, by Adam on all rows; `after` is called with steps from 1."""
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    for step in range(1, steps + 1):
        loss = misfit(parameters, x, y)
        optimizer.zero_grad()
        (loss + prior_energy(parameters) if prior else loss).backward()
        optimizer.step()
        after(step)


def descend_and_stop(
    parameters: Sequence[nn.Parameter], x: Tensor, y: Tensor, held_out: tuple[Tensor, Tensor], *, every: int, **settings
) -> None:
    """`descend`, after which each network is as it was where its misfit of held-out rows was least of the looks.

    Args:
        parameters, x, y: as for `descend`.
        held_out: points (stack, m, 2) and classes (stack, m).
        every: steps from look to look.
        settings: of `descend`.
    """
    least, best = torch.full((len(x),), torch.inf), [parameter.detach().clone() for parameter in parameters]

    @torch.no_grad()
    def look(step: int) -> None:
        if step % every == 0:
            found = misfits(parameters, *held_out)
            better = found < least
            least[better] = found[better]
            for kept, parameter in zip(best, parameters, strict=True):
                kept[better] = parameter[better]

    descend(parameters, x, y, **settings, after=look)
    with torch.no_grad():
        for parameter, kept in zip(parameters, best, strict=True):
            parameter.copy_(kept)


class MeanFieldPlane:
    """Independent Gaussians over all weights of the stack, prior N(0, 1), equation (svbnn-gaussian-kl).

    Args:
        means: from `start`.
        initial_scale: of every weight's posterior.
    """

    def __init__(self, means: Sequence[nn.Parameter], initial_scale: float) -> None:
        self.means = list(means)
        first = float(softplus_inverse(initial_scale))
        self.rhos = [nn.Parameter(torch.full_like(mean, first)) for mean in means]

    def draw(self, generator: torch.Generator) -> list[Tensor]:
        """One draw of all weights."""
        return [
            gaussian_draw(mean, rho, torch.randn(mean.shape, generator=generator), None)[0]
            for mean, rho in zip(self.means, self.rhos, strict=True)
        ]

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact KL to the prior over the whole stack, in nats."""
        return sum(gaussian_kl_sum(m, r, 1.0, with_value) for m, r in zip(self.means, self.rhos, strict=True))

    @torch.no_grad()
    def omega(self, x: Tensor, y: Tensor, draws: int, generator: torch.Generator) -> Tensor:
        """Minus the ELBO of each network in nats, shape (stack,), by a mean over draws; (fnd-elbo)."""
        price = sum(
            gaussian_kl(mean, F.softplus(rho), 1.0).flatten(1).sum(dim=1)
            for mean, rho in zip(self.means, self.rhos, strict=True)
        )
        return price + sum(misfits(self.draw(generator), x, y) for _ in range(draws)) / draws

    def fit(self, x: Tensor, y: Tensor, *, steps: int, learning_rate: float, generator: torch.Generator) -> None:
        """Maximize the ELBO by Adam, one draw a step; the step falls to 0 along a cosine."""
        optimizer = torch.optim.Adam([*self.means, *self.rhos], lr=learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            loss = misfit(self.draw(generator), x, y) + self.kl_divergence(with_value=False)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

"""IVON, the improved variational online Newton method: the natural form with what makes it train large networks."""

import math
from collections.abc import Iterable

import torch

from bnnlib._checks import check_positive
from bnnlib.optim.adaptive_variational import AdaptiveVariational


class IVON(AdaptiveVariational):
    """Gaussian variational inference at about the price of Adam, algorithm 1 of Shen et al. (2024).

        with optimizer.sampled_parameters():
            loss = F.mse_loss(model(x), y); optimizer.zero_grad(); loss.backward()
        optimizer.step()

    It is `AdaptiveVariational(form="natural", alpha=1, estimator="stein")`, whose precision N (h + wd) it shares, with
    another step of the mean: the momentum is an average of gradients without the decay, corrected for its start, the
    step is in units of the first precision, and each weight moves at most by `clip_radius` times that.

    The curvature goes by the one draw at which the gradients were taken: one draw a step, and no accumulation.

    Args:
        params: parameters or groups.
        lr: step size; 0.1 to 0.5 for networks from scratch. The first step is that of SGD.
        num_data: N, the effective sample size: less than the number of observations is a warm posterior.
        betas: of the momentum, and of the average of curvatures, which forgets in 1 / (1 - beta) steps.
        weight_decay: wd = delta / N of the prior N(0, 1 / delta); positive, since curvatures may be 0.
        hess_init: h at the start, of the order of the loss's curvature. Less is more noise at the start.
        clip_radius: of a step, before `lr`; infinity does not clip.
        generator: see `bnnlib.sampling.Sampler`.

    Raises:
        ValueError: a setting is out of its range; a step has no draw to go by.

    Example:
        >>> model, x, y = torch.nn.Linear(3, 1), torch.randn(16, 3), torch.randn(16, 1)
        >>> optimizer = IVON(model.parameters(), lr=0.1, num_data=16)
        >>> with optimizer.sampled_parameters():
        ...     torch.nn.functional.mse_loss(model(x), y).backward()
        >>> optimizer.step()
        >>> optimizer.scale(model.weight).shape  # standard deviations are this over the root of num_data
        torch.Size([1, 3])
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        num_data: int,
        *,
        betas: tuple[float, float] = (0.9, 0.99999),
        weight_decay: float = 1e-4,
        hess_init: float = 1.0,
        clip_radius: float = math.inf,
        generator: torch.Generator | None = None,
    ) -> None:
        check_positive("weight_decay", weight_decay)
        check_positive("hess_init", hess_init)
        if not clip_radius > 0.0:
            raise ValueError(f"clip_radius is {clip_radius}, but it must be positive; math.inf does not clip.")
        self.clip_radius = float(clip_radius)
        super().__init__(
            params,
            lr,
            num_data,
            form="natural",
            alpha=1.0,
            estimator="stein",
            weight_decay=weight_decay,
            momentum=betas[0],
            scale_lr=1.0 - betas[1],
            initial_scale=(hess_init + weight_decay) ** -0.5,
            generator=generator,
        )

    def _move_means(self, group, parameters, gradients, weighted, momenta, precisions) -> None:
        beta, first = group["momentum"], self.initial_scale**-2
        torch._foreach_lerp_(momenta, gradients, 1.0 - beta)
        moved = torch._foreach_div(momenta, 1.0 - beta ** (self.steps + 1))
        torch._foreach_add_(moved, weighted)
        torch._foreach_div_(moved, precisions)
        if self.clip_radius < math.inf:
            torch._foreach_clamp_min_(moved, -self.clip_radius)
            torch._foreach_clamp_max_(moved, self.clip_radius)
        torch._foreach_add_(parameters, moved, alpha=-group["lr"] * first)

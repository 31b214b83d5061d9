"""The adaptive variational optimizer of Ke and Fan (2023): preconditioned SGHMC, and the natural form beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bnnlib._checks import check_choice, check_count, check_non_negative, check_scale
from bnnlib.functional.adaptive_variational import ALPHAS, ESTIMATORS, injected_scale, positive_precision_step
from bnnlib.sampling.base import Sampler

if TYPE_CHECKING:
    from bnnlib.optim.group_spike_slab import GroupSpikeSlab


class AdaptiveVariational(Sampler):
    """Variational inference in the shape of an adaptive optimizer, section 2 of Ke and Fan (2023).

    The loss is a mean over the mini-batch, and `lr` is that of `torch.optim.SGD(lr, momentum)`, which this is at
    temperature 0 and a scale of 1. `weight_decay` is the prior precision delta / N.

    `form="sghmc"` is the published code: the weights carry the noise themselves. A step is (avo-scale-gradient) and
    (avo-mirror-step) for tau, (avo-momentum-step) for m, and w <- w + tau^(2 alpha) m. tau stays in (0, 1) and starts
    at 1/2.

    `form="natural"` is the text: it holds the mean mu and the precision 1 / s^2, from (avo-precision-step), and moves
    mu by lr (s^2)^alpha m, (avo-mean-step). Gradients are taken at a draw, whose standard deviation is T s:

        with optimizer.sampled_parameters():
            loss = F.mse_loss(model(x), y); optimizer.zero_grad(); loss.backward()
        optimizer.step()

    Every tensor may carry leading dimensions for a stack of networks: the update is elementwise. `lr`, `temperature`
    and `scale_lr` in `param_groups` may be changed between steps.

    Args:
        params: parameters or groups.
        lr: l, step size for the mean loss; the code's C is its square root.
        num_data: N, number of observations.
        form: "sghmc" or "natural".
        alpha: power of the variance that preconditions the step: 0.5 or 1.
        estimator: of the curvature in the natural form, "squared" or "stein", equation (avo-curvature).
        weight_decay: wd = delta / N of the prior N(0, 1 / delta).
        momentum: beta, at least 0 and below 1.
        scale_lr: eta, step size of the mirror descent; in the natural form gamma of the precision, below 1. 0 keeps
            the scale as it is.
        temperature: T multiplies the noise's standard deviation; None is N^(-1/2), the posterior's. 0 is no noise.
        initial_scale: tau, or s of the natural form, at the start. Default 0.5 and 1.
        prior: a `GroupSpikeSlab` whose weight decays and masks take the place of `weight_decay` on its weights.
        generator: see `Sampler`.

    Raises:
        ValueError: a setting is out of its range, or one of the natural form is given to the other.

    Example:
        >>> model, x, y = torch.nn.Linear(3, 1), torch.randn(16, 3), torch.randn(16, 1)
        >>> optimizer = AdaptiveVariational(model.parameters(), lr=0.01, num_data=16, weight_decay=5e-4)
        >>> torch.nn.functional.mse_loss(model(x), y).backward()
        >>> optimizer.step()
        >>> optimizer.scale(model.weight).shape
        torch.Size([1, 3])
    """

    takes_energy = False  # but those of the mean loss

    def __init__(
        self,
        params: Iterable,
        lr: float,
        num_data: int,
        *,
        form: str = "sghmc",
        alpha: float = 0.5,
        estimator: str = "squared",
        weight_decay: float = 0.0,
        momentum: float = 0.1,
        scale_lr: float = 0.1,
        temperature: float | None = None,
        initial_scale: float | None = None,
        prior: GroupSpikeSlab | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        check_choice("form", form, ("sghmc", "natural"))
        check_choice("estimator", estimator, ESTIMATORS)
        if alpha not in ALPHAS:
            raise ValueError(
                f"alpha is {alpha!r}, but the family has 0.5, the square root of an adaptive optimizer such as Adam, "
                "and 1, the natural gradient."
            )
        if estimator != "squared" and form != "natural":
            raise ValueError("estimator is of form='natural'; the other form follows the noise that it has injected.")
        self.num_data = check_count("num_data", num_data)
        self.form, self.alpha, self.estimator, self.prior = form, float(alpha), estimator, prior
        if initial_scale is None:
            initial_scale = 0.5 if form == "sghmc" else 1.0
        self.initial_scale = float(check_scale("initial_scale", initial_scale))
        if form == "sghmc" and self.initial_scale > 1.0:
            raise ValueError(f"initial_scale is {initial_scale:g}, but tau of form='sghmc' is at most 1.")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "scale_lr": scale_lr,
            "temperature": self.num_data**-0.5 if temperature is None else temperature,
        }
        super().__init__(params, defaults, generator)

    def _check_group(self, group) -> None:
        super()._check_group(group)
        check_non_negative("scale_lr", group["scale_lr"])
        if self.form == "natural" and not group["scale_lr"] < 1.0:
            raise ValueError(
                f"scale_lr is {group['scale_lr']:g}, but in the natural form it is gamma, the share of the precision "
                "that a step replaces, and must be below 1."
            )
        if self.form == "sghmc" and self.initial_scale == 1.0 and group["scale_lr"]:
            raise ValueError("initial_scale is 1, from where tau = sigmoid(rho) cannot move: give less, or scale_lr=0.")

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:  # type: ignore[override]  # a tensor, not a number
        """Move every parameter that has a gradient, and hold what the prior has pruned at 0.

        In the natural form a closure, which recomputes the loss and its gradients, runs at a draw of the weights.

        Raises:
            ValueError: lr or temperature have become negative or NaN, or "stein" has no draw to go by.
            DivergedError: parameters are NaN or infinite; looked at every `check_every` steps.
        """
        loss = None
        if closure is not None and self.form == "natural":
            with torch.enable_grad(), self.sampled_parameters():
                loss = closure()
            super().step()
        else:
            loss = super().step(closure)
        if self.prior is not None:
            self.prior.hold_()
        return loss

    @contextmanager
    def sampled_parameters(self) -> Iterator[None]:
        """Inside, the parameters are a draw mu + T s eps; behind it they are the means again, also after an error.

        Frozen parameters, which do not require a gradient, stay what they are.

        Raises:
            ValueError: the form is "sghmc", whose weights are draws already.
        """
        if self.form != "natural":
            raise ValueError("sampled_parameters is of form='natural': with 'sghmc' the weights are draws already.")
        means: list[tuple[Tensor, Tensor]] = []
        try:
            with torch.no_grad():
                for group in self.param_groups:
                    if not (parameters := [p for p in group["params"] if p.requires_grad]):
                        continue  # what is frozen has no posterior
                    noise = self._draw(parameters, group["temperature"])
                    for parameter, own in zip(parameters, noise, strict=True) if noise is not None else ():
                        state = self._natural_state(parameter)
                        means.append((parameter, parameter.clone()))
                        state["noise"] = own.clone()
                        parameter.addcdiv_(state["noise"], state["precision"].sqrt(), value=group["temperature"])
            if self.prior is not None:
                self.prior.hold_()
            yield
        except BaseException:
            for parameter, _ in means:
                self.state[parameter].pop("noise", None)
            raise
        finally:
            with torch.no_grad():
                for parameter, mean in means:
                    parameter.copy_(mean)

    def scale(self, parameter: Tensor) -> Tensor:
        """tau of a parameter, or s = 1 / sqrt(precision) in the natural form: the square root of its preconditioner."""
        if self.form == "sghmc":
            return self._sghmc_state(parameter)["tau"].clone()
        return self._natural_state(parameter)["precision"].rsqrt()

    def _update(self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor]) -> None:
        weighted = _decayed(parameters, decays := [self._decay(parameter, group) for parameter in parameters])
        if self.form == "sghmc":
            self._step_sghmc(group, parameters, gradients, decays, weighted)
        else:
            self._step_natural(group, parameters, gradients, decays, weighted)

    def _decay(self, parameter: Tensor, group: dict[str, Any]) -> float | Tensor:
        decay = None if self.prior is None else self.prior.decay_of(parameter)
        return group["weight_decay"] if decay is None else decay

    def _step_sghmc(self, group, parameters, gradients, decays, weighted) -> None:
        lr, momentum, temperature = group["lr"], group["momentum"], group["temperature"]
        states = [self._sghmc_state(parameter) for parameter in parameters]
        taus, momenta, noises = ([state[key] for state in states] for key in ("tau", "momentum", "noise"))
        if group["scale_lr"]:
            duals, spread = [state["rho"] for state in states], temperature * lr**0.75
            change = torch._foreach_reciprocal(taus)
            torch._foreach_mul_(change, -1.0 / self.num_data)
            if spread:
                torch._foreach_addcmul_(change, noises, gradients, value=spread)
                torch._foreach_add_(change, _decayed(taus, decays), alpha=spread**2)
            torch._foreach_add_(duals, change, alpha=-group["scale_lr"])
            for tau, dual in zip(taus, duals, strict=True):
                torch.sigmoid(dual, out=tau)
        torch._foreach_mul_(momenta, momentum)
        torch._foreach_add_(momenta, gradients, alpha=-lr)
        torch._foreach_add_(momenta, weighted, alpha=-lr)
        fresh = self._draw(parameters, temperature)
        if fresh is not None:
            torch._foreach_copy_(noises, fresh)
            # what moves the weight is proportional to tau at either power
            added = fresh if self.alpha == 0.5 else torch._foreach_div(fresh, taus)
            torch._foreach_add_(momenta, added, alpha=injected_scale(lr, momentum, temperature))
        moved = torch._foreach_mul(momenta, taus)
        if self.alpha == 1.0:
            torch._foreach_mul_(moved, taus)
        torch._foreach_add_(parameters, moved)

    def _step_natural(self, group, parameters, gradients, decays, weighted) -> None:
        states = [self._natural_state(parameter) for parameter in parameters]
        precisions, momenta = ([state[key] for state in states] for key in ("precision", "momentum"))
        if rate := group["scale_lr"]:
            for state, gradient, decay in zip(states, gradients, decays, strict=True):
                self._refresh(state, gradient, decay, rate, group["temperature"])
        for state in states:
            state.pop("noise", None)
        self._move_means(group, parameters, gradients, weighted, momenta, precisions)

    def _move_means(self, group, parameters, gradients, weighted, momenta, precisions) -> None:
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, gradients)
        torch._foreach_add_(momenta, weighted)
        scales = precisions if self.alpha == 1.0 else torch._foreach_sqrt(precisions)
        torch._foreach_addcdiv_(parameters, momenta, scales, value=-group["lr"])

    def _refresh(self, state, gradient: Tensor, decay: float | Tensor, rate: float, temperature: float) -> None:
        """The precision's step with lambda = 1; decay is delta / N."""
        precision = state["precision"]
        if self.estimator == "squared":
            precision.mul_(1.0 - rate).addcmul_(gradient, gradient, value=rate).add_(decay * rate)
            return
        if "noise" not in state:
            raise ValueError(
                "estimator 'stein' needs the draw at which the gradients were taken: compute them inside "
                "sampled_parameters(), or in a closure, at a temperature above 0."
            )
        curvature = gradient * state["noise"] * precision.sqrt() / temperature
        precision.copy_(positive_precision_step(precision, curvature, decay, 1.0, rate))

    def _sghmc_state(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if "tau" not in state:
            start = self.initial_scale
            rho = math.log(start) - math.log1p(-start) if start < 1.0 else math.inf
            state["rho"], state["tau"] = _full(parameter, rho), _full(parameter, start)
            # no noise has been added yet
            state["momentum"], state["noise"] = _full(parameter, 0.0), _full(parameter, 0.0)
        return state

    def _natural_state(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if "precision" not in state:
            state["precision"] = _full(parameter, self.initial_scale**-2)
            state["momentum"] = _full(parameter, 0.0)
        return state

    def _advice(self, group: dict[str, Any]) -> str:
        return (
            "The loss must be a mean over the batch. Lower lr (stability needs lr times the scale to be "
            f"below {self.stability_limit(group):g} / largest curvature) or the temperature, or start smaller."
        )


def _full(parameter: Tensor, value: float) -> Tensor:
    return torch.full_like(parameter, value, requires_grad=False, memory_format=torch.preserve_format)


def _decayed(tensors: list[Tensor], decays: list[float | Tensor]) -> list[Tensor]:
    """Every tensor times its weight decay, in one call where the decays are one number."""
    if not any(isinstance(decay, Tensor) for decay in decays):
        return list(torch._foreach_mul(tensors, decays[0]))
    return [tensor * decay for tensor, decay in zip(tensors, decays, strict=True)]

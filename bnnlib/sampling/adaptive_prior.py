"""The adaptive empirical prior of Deng, Zhang, Liang and Lin (2019): its energy and its stochastic approximation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib import _native
from bnnlib._checks import check_non_negative, check_positive, check_probability, check_scale, matching
from bnnlib._native import has_kernels
from bnnlib._noise import dense
from bnnlib.functional.ssgl import expected_precisions, optimal_inclusion, optimal_sigma, slab_log_odds_coefficients

LATENT = ("rho", "kappa", "sigma", "inclusion")
_OF_WEIGHTS = ("rho", "kappa0", "kappa1", "inclusion")  # latent variables by the name of a weight
StepSize = float | Tensor | Callable[[int], float | Tensor]


class SpikeSlabGaussianLaplacePrior:
    """Spike-and-slab Gaussian-Laplace prior on some weights, learned by stochastic approximation, Algorithm 1.

    Each call of `update` moves every latent variable by the fraction w_k towards its optimum for the current weights,
    equation (aeb-sa): rho towards (aeb-slab-probability), kappa towards (aeb-precisions) of the new rho, sigma towards
    (aeb-scale), each layer's inclusion probability towards (aeb-inclusion). w_k = 1 is EM ("SGLD-EM" of the paper),
    w_k = 0 leaves the prior as it was ("SGLD", "SGHMC"). With a = 1 an inclusion probability of 0 is a fixed point.

    Args:
        parameters: a module, or a mapping of names to the sparse weights.
        sparse: with a module: names or patterns (``"layer*.conv?.weight"``) of the parameters that get this prior.
        spike_scale, slab_variance: v0, Laplace scale in units of sigma, and v1, Gaussian variance in units of sigma^2;
            a number or one for each replicate, as the next two.
        sigma, inclusion: initial scale of the hierarchy, and initial delta of every layer.
        rho, kappa: initial probability of the Gaussian component, for every weight, and (kappa0, kappa1); None computes
            them from rho.
        a, b: of the Beta prior of delta; "p" stands for the layer's number of weights.
        nu, lam: of the inverse gamma prior IG(nu / 2, nu lam / 2) of sigma^2.
        step_size: w_k, a number, or a function of k = 1, 2, ... that returns a number or one for each replicate.
        likelihood: "regression" updates sigma with the residuals, "classification" without.
        num_data: number of observations N, needed for regression.
        update: the latent variables that are learned; the others keep their initial values.
        scaled_densities: False leaves sigma out of the densities of the E-step, as in the published code for networks.
        weight_decay: coefficient c of the ridge c / 2 ||w||^2 on the module's other parameters, in nats.
        batch_dims: 1 for weights of shape (replicates, ...), each replicate with latent variables of its own.
        fused: gradient and update each in one pass over float32 weights on a CPU, in C++; the same to rounding.

    Raises:
        ValueError: no weight is selected, a name is unknown, or a setting is out of its range.

    Example:
        >>> model, settings = torch.nn.Linear(10, 1), {"spike_scale": 0.1, "slab_variance": 1.0}
        >>> prior = SpikeSlabGaussianLaplacePrior(model, sparse=["weight"], step_size=polynomial(1, 9, 1), **settings)
        >>> sampler = SGHMC(model.parameters(), lr=1e-4)
        >>> model(torch.randn(8, 10)).square().sum().backward()  # the energy of the data
        >>> prior.add_gradient_()
        >>> sampler.step()
        >>> prior.update()
        >>> prior.energy().shape
        torch.Size([])
    """

    def __init__(
        self,
        parameters: nn.Module | Mapping[str, Tensor],
        *,
        sparse: Sequence[str] | None = None,
        spike_scale: float | Tensor,
        slab_variance: float | Tensor,
        sigma: float | Tensor = 1.0,
        inclusion: float | Tensor = 0.5,
        rho: float = 0.5,
        kappa: tuple[float, float] | None = None,
        a: float | str = "p",
        b: float | str = "p",
        nu: float = 1000.0,
        lam: float = 1000.0,
        step_size: StepSize = 0.0,
        likelihood: str = "classification",
        num_data: int | None = None,
        update: Iterable[str] = LATENT,
        scaled_densities: bool = True,
        weight_decay: float = 0.0,
        batch_dims: int = 0,
        fused: bool = False,
    ) -> None:
        self.weights, self.others = _select(parameters, sparse)
        check_scale("spike_scale", spike_scale)
        check_positive("slab_variance", slab_variance)
        check_scale("sigma", sigma)
        check_probability("inclusion", inclusion, open_interval=True)
        check_probability("rho", rho)
        check_positive("nu", nu)
        check_positive("lam", lam)
        self.weight_decay = check_non_negative("weight_decay", weight_decay)
        if likelihood not in ("classification", "regression") or (likelihood == "regression") != (num_data is not None):
            raise ValueError(
                f"likelihood is {likelihood!r} with num_data = {num_data}, but it must be 'classification' without "
                "num_data or 'regression' with it: only there the residuals say something about sigma."
            )
        self.learned = tuple(update)
        if unknown := set(self.learned) - set(LATENT):
            raise ValueError(f"update names {sorted(unknown)}, but it may only name {', '.join(LATENT)}.")
        if not callable(step_size):
            check_probability("step_size", step_size)
        self.step_size, self.likelihood, self.num_data = step_size, likelihood, num_data
        self.scaled_densities, self.batch_dims, self.nu, self.lam = scaled_densities, batch_dims, nu, lam
        self.steps, self.fused = 0, fused
        self._counts = {n: w[(0,) * batch_dims].numel() for n, w in self.weights.items()}
        self._beta = {
            n: tuple(c if v == "p" else check_positive("a, b", float(v)) for v in (a, b))
            for n, c in self._counts.items()
        }
        first = next(iter(self.weights.values()))
        self._batch = first.shape[:batch_dims]
        self.spike_scale, self.slab_variance, self.sigma = (
            self._per_replicate(value, first) for value in (spike_scale, slab_variance, sigma)
        )
        self.inclusion = {name: self._per_replicate(inclusion, first) for name in self.weights}
        self.rho = {name: torch.full_like(w, rho, requires_grad=False) for name, w in self.weights.items()}
        self.kappa0, self.kappa1 = {}, {}
        for name, weight in self.weights.items():
            pair = [torch.full_like(weight, check_non_negative("kappa", k), requires_grad=False) for k in kappa or ()]
            self.kappa0[name], self.kappa1[name] = pair or self._precisions(name)

    def _per_replicate(self, value: float | Tensor, like: Tensor) -> Tensor:
        return torch.as_tensor(value, dtype=like.dtype, device=like.device).expand(self._batch).clone()

    def _spread(self, value: Any, weight: Tensor) -> Any:
        """A value per replicate, shaped to broadcast against the weight."""
        if not isinstance(value, Tensor) or value.dim() == 0:
            return value
        return value.reshape(*value.shape, *(1,) * (weight.dim() - self.batch_dims))

    def _precisions(self, name: str) -> tuple[Tensor, Tensor]:
        """What kappa0 and kappa1 move towards, of rho."""
        spike, slab = (self._spread(v, self.weights[name]) for v in (self.spike_scale, self.slab_variance))
        return expected_precisions(self.rho[name], spike, slab)

    def _sum(self, values: Tensor) -> Tensor:
        return values.flatten(self.batch_dims).sum(dim=-1)

    def _in_one_pass(self, name: str, *tensors: Tensor) -> bool:
        """Whether a kernel takes a weight with its latent variables and `tensors`."""
        group = [self.weights[name], self.rho[name], self.kappa0[name], self.kappa1[name], *tensors]
        return self.fused and not self.batch_dims and group[0].is_cpu and dense(group) and has_kernels(group[0])

    def energy(self) -> Tensor:
        """The prior's terms of -Q1 that depend on the weights, equation (aeb-q1), in nats; differentiable.

        A scalar, or one value for each replicate. `add_gradient_` gives its gradient at a fraction of the cost.
        """
        total = torch.zeros(self._batch, device=self.sigma.device, dtype=self.sigma.dtype)
        for name, weight in self.weights.items():
            total = total + self._sum(self.kappa0[name] * weight.abs()) / self.sigma
            total = total + self._sum(self.kappa1[name] * weight.square()) / (2.0 * self.sigma.square())
        for parameter in self.others.values() if self.weight_decay else ():
            total = total + 0.5 * self.weight_decay * self._sum(parameter.square())
        return total

    @torch.no_grad()
    def add_gradient_(self) -> None:
        """Add the gradient of `energy` to `.grad` of the weights, in closed form.

        Raises:
            ValueError: a weight has no gradient yet, or another type than when the prior was made.
        """
        inverse = 1.0 / self.sigma
        single = not self.batch_dims and self.sigma.is_cpu
        for name, weight in self.weights.items():
            if weight.grad is None:
                raise ValueError(f"{name!r} has no gradient to add to. Call energy.backward() first.")
            if weight.dtype != self.rho[name].dtype:
                raise ValueError(
                    f"{name!r} is {weight.dtype} now, but the prior was made for {self.rho[name].dtype}. Make it after "
                    "model.double() or its like."
                )
            if self._in_one_pass(name, weight.grad):
                given = weight, self.kappa0[name], self.kappa1[name]
                _native.run("prior_grad", (0,), given, (weight.grad,), (inverse.item(), inverse.item() ** 2))
                torch.autograd.graph.increment_version(weight.grad)
            elif single:
                number = inverse.item()
                weight.grad.addcmul_(self.kappa0[name], torch.sign(weight), value=number)
                weight.grad.addcmul_(self.kappa1[name], weight, value=number * number)
            else:
                absolute, square = self.kappa0[name] * torch.sign(weight), self.kappa1[name] * weight
                factor = self._spread(inverse, weight)
                weight.grad.addcmul_(absolute, factor).addcmul_(square, factor * factor)
        gradients = {p: p.grad for p in self.others.values() if p.grad is not None}
        if self.weight_decay and gradients:
            values = [parameter.detach() for parameter in gradients]
            torch._foreach_add_(list(gradients.values()), values, alpha=self.weight_decay)

    @torch.no_grad()
    def update(self, squared_error: Tensor | float | None = None) -> None:
        """One step of the stochastic approximation of all learned latent variables, equation (aeb-sa).

        Args:
            squared_error: in regression I of (aeb-scale), the sum of squared residuals over all N observations (of n in
                a mini-batch, N / n times their sum), a number or one for each replicate.

        Raises:
            ValueError: the residuals are missing in regression.
        """
        self.steps += 1
        step = self.step_size(self.steps) if callable(self.step_size) else self.step_size
        if not isinstance(step, Tensor) and step == 0.0:
            return
        if self.likelihood == "regression" and "sigma" in self.learned and squared_error is None:
            raise ValueError("update() needs squared_error in regression: the sum of squared residuals over all data.")
        linear, quadratic = torch.zeros_like(self.sigma), torch.zeros_like(self.sigma)
        single, rhos = not self.batch_dims and self.sigma.is_cpu, {}
        for name, weight in self.weights.items():
            if self._in_one_pass(name):
                sums = self._move(name, weight, float(step))
                linear, quadratic, rhos[name] = linear + sums[0], quadratic + sums[1], sums[2]
                continue
            absolute, square, buffer = weight.abs(), weight.square(), torch.empty_like(weight)
            if single:
                self._update_in(buffer, name, absolute, square, float(step))
            else:
                self._update_layer(name, weight, absolute, square, self._spread(step, weight))
            if "sigma" in self.learned:
                linear = linear + self._sum(torch.mul(self.kappa0[name], absolute, out=buffer))
                quadratic = quadratic + self._sum(torch.mul(self.kappa1[name], square, out=buffer))
        if "sigma" in self.learned:
            count = sum(self._counts.values()) + self.nu
            quadratic = quadratic + self.nu * self.lam
            if self.num_data is not None and squared_error is not None:  # in regression
                count, quadratic = count + self.num_data, quadratic + squared_error
            else:
                count = count + 2.0
            self.sigma.lerp_(optimal_sigma(linear, quadratic, count), step)
        if "inclusion" in self.learned:
            for name in self.weights:
                a, b = self._beta[name]
                rho = rhos[name] if name in rhos else self._sum(self.rho[name])
                best = optimal_inclusion(rho, self._counts[name], a, b)
                # no floor: with all weights in the spike EM reaches 0 geometrically, and is to stay there
                self.inclusion[name].lerp_(best, step)

    def _coefficients(self, name: str) -> Any:
        given = self.inclusion[name], self.sigma, self.spike_scale, self.slab_variance
        return slab_log_odds_coefficients(*given, scaled=self.scaled_densities)

    def _move(self, name: str, weight: Tensor, step: float) -> Tensor:
        """`_update_layer` in one pass; returns the sums of kappa0 |w|, kappa1 w^2 and rho, the new ones."""
        coefficients = (c.item() for c in self._coefficients(name))
        precisions = 1.0 / self.spike_scale.item(), 1.0 / self.slab_variance.item()
        steps = (step * (part in self.learned) for part in ("rho", "kappa"))
        sums = weight.new_empty(-(-weight.numel() // 1024), 3)
        moved = self.rho[name], self.kappa0[name], self.kappa1[name]
        _native.run("prior_move", (0,), (weight,), (*moved, sums), (*coefficients, *precisions, *steps))
        torch.autograd.graph.increment_version(moved)
        return sums.sum(0, dtype=torch.float64).to(weight.dtype)

    def _update_in(self, buffer: Tensor, name: str, absolute: Tensor, square: Tensor, step: float) -> None:
        """`_update_layer` for one chain on a CPU: with numbers, which are read there for nothing, in one buffer."""
        rho = self.rho[name]
        if "rho" in self.learned:
            constant, linear, quadratic = (c.item() for c in self._coefficients(name))
            odds = torch.mul(absolute, linear, out=buffer).add_(constant).add_(square, alpha=quadratic)
            rho.lerp_(odds.sigmoid_(), step)
        if "kappa" in self.learned:
            self.kappa1[name].lerp_(torch.div(rho, self.slab_variance, out=buffer), step)
            closed = torch.sub(torch.ones_like(self.sigma), rho, out=buffer)
            self.kappa0[name].lerp_(closed.div_(self.spike_scale), step)

    def _update_layer(self, name: str, weight: Tensor, absolute: Tensor, square: Tensor, step) -> None:
        if "rho" in self.learned:
            constant, linear, quadratic = (self._spread(c, weight) for c in self._coefficients(name))
            odds = torch.addcmul(constant, absolute, linear).addcmul_(square, quadratic)
            self.rho[name].lerp_(odds.sigmoid_(), step)
        if "kappa" in self.learned:
            for kappa, best in zip((self.kappa0[name], self.kappa1[name]), self._precisions(name), strict=True):
                kappa.lerp_(best, step)

    def state_dict(self) -> dict[str, Any]:
        """All latent variables and the step count: tensors, numbers and dicts of them."""
        return {"steps": self.steps, "sigma": self.sigma, **{name: dict(getattr(self, name)) for name in _OF_WEIGHTS}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it belongs to other weights.
        """
        shapes = {name: tuple(value.shape) for name, value in self.rho.items()}
        given = {name: tuple(value.shape) for name, value in state["rho"].items()}
        if given != shapes:
            raise ValueError(f"this state is for weights {given}, but the prior has {shapes}.")
        self.steps = state["steps"]
        self.sigma.copy_(state["sigma"])
        for group in _OF_WEIGHTS:
            for name, value in getattr(self, group).items():
                value.copy_(state[group][name])


def _select(
    parameters: nn.Module | Mapping[str, Tensor], sparse: Sequence[str] | None
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The sparse weights and the module's other parameters, by name."""
    if isinstance(parameters, nn.Module):
        named: dict[str, Tensor] = dict(parameters.named_parameters())
        chosen = {name: named[name] for name in matching("sparse", sparse or (), named)}
    elif sparse is not None:
        raise ValueError("sparse chooses among a module's parameters, but a mapping already names the sparse weights.")
    else:
        named = chosen = dict(parameters)
    if not chosen or not any(weight.numel() for weight in chosen.values()):
        raise ValueError(
            "the set of sparse weights is empty, so there is no prior to learn. Name at least one parameter, for "
            "example sparse=['fc1.weight'], or give the module's names: dict(model.named_parameters())."
        )
    return chosen, {name: p for name, p in named.items() if name not in chosen}

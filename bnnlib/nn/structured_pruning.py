"""Structured Bayesian Pruning: multiplicative noise on whole units whose posterior says which of them carry signal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bnnlib._checks import check_count, check_non_negative
from bnnlib._noise import Source, draw_uniform
from bnnlib._overrides import overriding
from bnnlib.functional._autograd import closed_form_sum, double_backward, transformed
from bnnlib.functional.truncated_log_normal import (
    LOWER,
    UPPER,
    Moment,
    PlainSample,
    _checked,
    _interval,
    _kl,
    _kl_grad,
    _snr,
    sample_forward,
    sample_grad,
)
from bnnlib.nn.base import StochasticLayer
from bnnlib.posteriors.kl_tokens import remember
from bnnlib.posteriors.settings import setting

BOUND = 5.0  # the published code keeps location and log scale in [-20, 5]


def _inside(location: Tensor, log_scale: Tensor, lower: float) -> tuple[Tensor, Tensor]:
    return location.double().clamp(lower, BOUND), log_scale.double().clamp(-20.0, BOUND).exp()


def _masked(gradient: Tensor, parameter: Tensor, low: float) -> Tensor:
    """What clamping lets through, in the parameter's type."""
    return gradient.to(parameter.dtype).mul_((parameter >= low) & (parameter <= BOUND))


class _UnitNoiseDraw(torch.autograd.Function):
    """theta of all units of some layers at once, and a token with the gradient of their KL: see `posteriors.kl_tokens`.

    The arithmetic is small: nearly all of its time goes into starting operations, so that many layers
    cost what one does.
    """

    @staticmethod
    def forward(ctx, uniform, interval, kl_weights, sizes, *parameters):
        ctx.set_materialize_grads(False)
        half = len(sizes)
        location, log_scale = torch.cat(parameters[:half]), torch.cat(parameters[half:])
        mean, scale = _inside(location, log_scale, interval[0])
        theta, saved = sample_forward(mean, scale, uniform, *interval)
        ctx.save_for_backward(*parameters, location, log_scale, mean, theta, *saved)
        ctx.constants = interval, kl_weights, sizes
        return *theta.to(location.dtype).split(sizes), *location.new_zeros(half).unbind()

    @staticmethod
    def backward(ctx, *grads):
        interval, kl_weights, sizes = ctx.constants
        half = len(sizes)
        tensors = ctx.saved_tensors  # once: a checkpoint gives them out once
        parameters, (location, log_scale, mean, theta, *saved) = tensors[: 2 * half], tensors[2 * half :]
        if torch.is_grad_enabled():  # create_graph=True
            levels = saved[-1].split(sizes)

            def plain(*parameters: Tensor) -> list[Tensor]:
                groups = list(zip(parameters[:half], parameters[half:], levels, kl_weights, strict=True))
                draws = [_plain_draw(mean, log_scale, level, interval) for mean, log_scale, level, _ in groups]
                tokens = [
                    weight * _kl(*_inside(mean, log_scale, interval[0]), *interval).sum()
                    for mean, log_scale, _, weight in groups
                ]
                return draws + [token.to(like.dtype) for token, like in zip(tokens, parameters, strict=False)]

            return None, None, None, None, *double_backward(plain, parameters, grads)
        d_mean = d_scale = None
        if any(grad is not None for grad in grads[:half]):
            d_mean, d_scale = sample_grad(_joined(grads[:half], sizes, theta) * theta, *saved)
        if any(token is not None for token in grads[half:]):
            tokens = [None if token is None else token.expand(n) for token, n in zip(grads[half:], sizes, strict=True)]
            factor = _joined(tokens, sizes, theta)
            if any(weight != 1.0 for weight in kl_weights):
                factor = factor * torch.cat([theta.new_full((n,), w) for n, w in zip(sizes, kl_weights, strict=True)])
            kl_mean, kl_scale = _kl_grad(mean, saved[0], *interval)
            kl_mean, kl_scale = kl_mean.mul_(factor), kl_scale.mul_(factor)
            d_mean, d_scale = (kl_mean, kl_scale) if d_mean is None else (d_mean.add_(kl_mean), d_scale.add_(kl_scale))
        if d_mean is None:
            return (None,) * (4 + 2 * half)
        first = _masked(d_mean, location, interval[0]).split(sizes)
        return None, None, None, None, *first, *_masked(d_scale, log_scale, -20.0).split(sizes)


def _plain_draw(location: Tensor, log_scale: Tensor, uniform: Tensor, interval: tuple[float, float]) -> Tensor:
    return PlainSample.apply(*_inside(location, log_scale, interval[0]), uniform, *interval).to(location.dtype)


def _joined(parts: Sequence[Tensor | None], sizes: list[int], like: Tensor) -> Tensor:
    return torch.cat([like.new_zeros(n) if part is None else part for n, part in zip(sizes, parts, strict=True)])


def _levels(like: Tensor, generator: Source) -> Tensor:
    return draw_uniform(like, generator).clamp(1e-12, 1.0 - 1e-12)


def _draw_noise(layers: list[StructuredBayesianPruning], sources: Sequence[Source]) -> list[Tensor]:
    """One theta per unit for each of some layers on one interval, in one operation; a source for each."""
    if transformed():
        return [layer._plain_draw(source) for layer, source in zip(layers, sources, strict=True)]
    sizes = [layer.num_units for layer in layers]
    like = layers[0].location.new_empty(sum(sizes), dtype=torch.float64)
    if len(set(sources)) == 1:
        uniform = _levels(like, sources[0])
    else:
        uniform = torch.cat([_levels(part, origin) for part, origin in zip(like.split(sizes), sources, strict=True)])
    constants = uniform, (layers[0].lower, layers[0].upper), [layer.kl_weight for layer in layers], sizes
    parameters = [(layer.location, layer.log_scale) for layer in layers]
    results = _UnitNoiseDraw.apply(*constants, *(p for kind in zip(*parameters, strict=True) for p in kind))
    for layer, token, own in zip(layers, results[len(layers) :], parameters, strict=True):
        remember(layer, [token], own)
    return list(results[: len(layers)])


@contextmanager
def drawn_together(model: nn.Module) -> Iterator[nn.Module]:
    """Context of one forward pass in which all `StructuredBayesianPruning` layers draw their noise at once.

    It gives what drawing layer by layer gives, in distribution, and is much faster where layers are many and small.
    `bnnlib.train.fit` uses it. Layers that run more than once inside the block use the same noise each time.

    Args:
        model: any module; layers that do not sample, or hold a draw already, are left alone.

    Example:
        >>> model = insert_unit_noise(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)), after=["0"])
        >>> with drawn_together(model):
        ...     output = model(torch.randn(8, 3))
        >>> output.shape
        torch.Size([8, 1])
    """
    groups: dict[tuple, list[StructuredBayesianPruning]] = {}
    for layer in model.modules():
        if isinstance(layer, StructuredBayesianPruning) and layer._held is None and layer.weight_mode == "sample":
            key = (layer.lower, layer.upper, layer.location.device, layer.location.dtype)
            groups.setdefault(key, []).append(layer)
    drawn: dict[nn.Module, dict[str, Tensor]] = {
        layer: {"held": theta}
        for group in groups.values()
        for layer, theta in zip(group, _draw_noise(group, [layer._noise(None) for layer in group]), strict=True)
    }
    with overriding(drawn):
        yield model


_BOUNDS = ("lower", "upper")


def _bound(name: str, value: float) -> float:
    return value  # `_interval` looks at both bounds together


class StructuredBayesianPruning(StochasticLayer, nn.Module):
    """Multiply every unit by noise theta with a truncated log-normal posterior, equations (sbp-noise) and (sbp-model).

    The prior is log-uniform on the same interval (Neklyudov, Molchanov, Ashukha and Vetrov, 2017). All rows and all
    positions of a mini-batch share one theta per unit, so that a unit without signal can be taken out of the network.

    As every layer of `bnnlib.nn`, it draws in `train()` and in `eval()`. Under `mean_weights` it multiplies by E theta,
    under `selected_weights` by E theta where the signal-to-noise ratio exceeds `threshold` and by 0 elsewhere: the
    network of the paper after training. `bnnlib.pruning.compress` makes that network physically small.

    Args:
        num_units: units along `dim`, for example the channels of a convolution.
        dim: dimension of the units in the input.
        kl_weight: factor of this layer's divergence, equation (sbp-scaling); above 1 it prunes more units (SBPa).
        initial_location, initial_scale: of log theta; the published start is almost no noise at all.
        threshold: of the signal-to-noise ratio.
        lower, upper: bounds of log theta.
        learn_location: False keeps the location where it starts, the paper's ablation.
        device, dtype: of the parameters.

    Attributes:
        location, log_scale: mu and log sigma of log theta, shape (num_units,); used clamped to [lower, 5] and [-20, 5].

    Shapes:
        input (..., num_units at dim, ...), output likewise.

    Raises:
        ValueError: a setting is out of range.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), StructuredBayesianPruning(4), torch.nn.Linear(4, 1))
        >>> model(torch.randn(8, 3)).shape, unit_counts(model)
        (torch.Size([8, 1]), {'1': (4, 4)})
    """

    training_pass = staticmethod(drawn_together)
    kl_weight = setting("kl_weight", check_non_negative)
    threshold = setting("threshold", check_non_negative)
    lower = setting("lower", _bound)
    upper = setting("upper", _bound)

    def __init__(
        self,
        num_units: int,
        dim: int = 1,
        *,
        kl_weight: float = 1.0,
        initial_location: float = 0.0,
        initial_scale: float = math.exp(-5.0),
        threshold: float = 1.0,
        lower: float = LOWER,
        upper: float = UPPER,
        learn_location: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.num_units, self.dim = check_count("num_units", num_units), int(dim)
        self.kl_weight, self.threshold = kl_weight, threshold
        self.lower, self.upper = lower, upper
        if not lower <= initial_location <= BOUND:
            raise ValueError(
                f"initial_location is {initial_location}, but log theta's location lies in [{lower:g}, {BOUND:g}]. "
                "The published start is 0."
            )
        self.initial_location = float(initial_location)
        if not math.exp(-20.0) <= initial_scale <= math.exp(BOUND):
            raise ValueError(
                f"initial_scale is {initial_scale}, but the log of log theta's scale lies in [-20, {BOUND:g}]. The "
                "published start is exp(-5)."
            )
        self.initial_scale = float(initial_scale)
        self.location = nn.Parameter(torch.empty(num_units, device=device, dtype=dtype), requires_grad=learn_location)
        self.log_scale = nn.Parameter(torch.empty(num_units, device=device, dtype=dtype))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set location and scale to their initial values."""
        self.location.fill_(self.initial_location)
        self.log_scale.fill_(math.log(self.initial_scale))

    def _check_setting(self, name: str, value: float) -> None:
        given = {key: self.__dict__[f"_{key}"] for key in _BOUNDS if f"_{key}" in self.__dict__} | {name: value}
        if name in _BOUNDS and len(given) == len(_BOUNDS):
            _interval(**given)

    def _posterior(self) -> tuple[Tensor, Tensor, float, float]:
        posterior = (*_inside(self.location, self.log_scale, self.lower), self.lower, self.upper)
        if self.location.is_cpu and not transformed():  # a look for NaN, which would wait for a GPU
            _checked(*posterior)
        return posterior

    def draw(self, generator: Source = None) -> Tensor:
        """One theta per unit, shape (num_units,), equation (sbp-sample)."""
        return _draw_noise([self], [generator])[0]

    def _plain_draw(self, generator: Source) -> Tensor:
        uniform = _levels(self.location.double(), generator)
        return _plain_draw(self.location, self.log_scale, uniform, (self.lower, self.upper))

    def mean(self) -> Tensor:
        """E theta of every unit, shape (num_units,), equation (sbp-mean)."""
        location, scale, *interval = self._posterior()
        return Moment.apply(location, scale, 1, *interval).to(self.location.dtype)

    @torch.no_grad()
    def signal_to_noise(self) -> Tensor:
        """E theta / sqrt(Var theta) of every unit, shape (num_units,), equation (sbp-snr)."""
        return _snr(*self._posterior()).to(self.location.dtype)

    def active(self) -> Tensor:
        """Mask of the units whose signal-to-noise ratio exceeds the threshold, shape (num_units,)."""
        return self.signal_to_noise() > self.threshold

    def selected(self) -> Tensor:
        """E theta of the active units and 0 elsewhere, shape (num_units,)."""
        return self.mean() * self.active()

    def num_active(self) -> int:
        """Number of active units."""
        return int(self.active().sum())

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """`kl_weight` times the exact divergence to the log-uniform prior, summed over units, in nats; (sbp-kl).

        Args:
            with_value: with False the value is 0 and only the gradient is that of the divergence.
        """
        interval = self.lower, self.upper

        def value(location: Tensor, log_scale: Tensor) -> Tensor:
            return _kl(*_inside(location, log_scale, interval[0]), *interval)

        def gradient(grad: Tensor, location: Tensor, log_scale: Tensor) -> tuple[Tensor, Tensor]:
            d_mean, d_scale = _kl_grad(*_inside(location, log_scale, interval[0]), *interval)
            return _masked(d_mean * grad, location, interval[0]), _masked(d_scale * grad, log_scale, -20.0)

        total = closed_form_sum(value, gradient, self.location, self.log_scale, with_value=with_value)
        return total if self.kl_weight == 1.0 else total * self.kl_weight

    def forward(self, input: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """`input` with every unit multiplied by its noise, or by what `weight_mode` says.

        Raises:
            ValueError: the input has another number of units along `dim`, or whole numbers, or the generator is on
                another device.
        """
        if not (input.is_floating_point() or input.is_complex()):
            raise ValueError(
                f"input has type {input.dtype}, in which noise of 0.99 would be 0, but it must be floating. Give "
                "input.float()."
            )
        dim = self.dim + input.dim() if self.dim < 0 else self.dim
        if not 0 <= dim < input.dim() or input.shape[dim] != self.num_units:
            raise ValueError(
                f"input has shape {tuple(input.shape)}, but dimension {self.dim} must have {self.num_units} units. "
                "Give StructuredBayesianPruning the width of what it multiplies, and its dimension."
            )
        theta, mode = self._held, self.weight_mode
        if theta is None and mode == "sample":
            theta = self.draw(self._noise(generator))
        elif theta is None:
            theta = self.mean() if mode == "mean" else self.selected()
        return input * theta.to(input.dtype).view(-1, *[1] * (input.dim() - dim - 1))

    def extra_repr(self) -> str:
        scaled = "" if self.kl_weight == 1.0 else f", kl_weight={self.kl_weight:g}"
        return f"{self.num_units}, dim={self.dim}, threshold={self.threshold:g}{scaled}"

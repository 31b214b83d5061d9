"""Structured Bayesian Pruning: multiplicative noise on whole units whose posterior says which of them carry signal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bnnlib._checks import check_count, check_non_negative
from bnnlib._noise import Source
from bnnlib._overrides import overriding
from bnnlib.functional._autograd import transformed
from bnnlib.functional.truncated_log_normal import LOWER, UPPER, Moment, _checked, _interval, _snr
from bnnlib.nn.base import StochasticLayer
from bnnlib.posteriors import unit_noise
from bnnlib.posteriors.settings import setting
from bnnlib.posteriors.unit_noise import BOUND


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
        for layer, theta in zip(group, unit_noise.draw(group, [layer._noise(None) for layer in group]), strict=True)
    }
    with overriding(drawn):
        yield model


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
    lower, upper = (setting(name, lambda _, value: value) for name in ("lower", "upper"))
    _together = ("lower", "upper")
    _check_together = staticmethod(_interval)

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

    def _posterior(self) -> tuple[Tensor, Tensor, float, float]:
        posterior = (*unit_noise.inside(self.location, self.log_scale, self.lower), self.lower, self.upper)
        if self.location.is_cpu and not transformed():  # a look for NaN, which would wait for a GPU
            _checked(*posterior)
        return posterior

    def draw(self, generator: Source = None) -> Tensor:
        """One theta per unit, shape (num_units,), equation (sbp-sample)."""
        return unit_noise.draw([self], [generator])[0]

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
        total = unit_noise.divergence(self.location, self.log_scale, (self.lower, self.upper), with_value)
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

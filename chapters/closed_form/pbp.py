"""Probabilistic backpropagation (Hernández-Lobato and Adams, 2015), one network a data set, all trained together.

The posterior is a Gaussian for each weight, and a Gamma for each of two precisions: of the noise and of the prior.
A row's log evidence log Z is found by passing means and variances forward through the network, its derivatives by
passing them back, and assumed-density filtering turns these into the new moments,

    m <- m + v dlogZ/dm,    v <- v - v^2 ((dlogZ/dm)^2 - 2 dlogZ/dv).

After each pass over the data one sweep of expectation propagation revises what the prior contributed.
The method visits one row at a time, and a step of one small network is bound by the overhead of its calls: R networks,
one for each split of a data set, cost hardly more than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_count

SHAPE = RATE = 6.0  # of both Gamma hyperpriors, as published
TINY, HUGE = 1e-100, 1e100  # variances outside are refused, the lower bound as published
MAX_CAVITY = 1e6  # as published: a weight that the data say nothing about keeps its prior's factor
FAR = 38.5  # standard deviations where the normal density is about to underflow in float64


class RectifiedMoments(NamedTuple):
    """Moments of max(0, X) for X ~ N(mean, variance), and their derivatives, each of the shape of the arguments."""

    mean: Tensor
    variance: Tensor
    mean_by_mean: Tensor
    mean_by_variance: Tensor
    variance_by_mean: Tensor
    variance_by_variance: Tensor


def rectified_moments(mean: Tensor, variance: Tensor) -> RectifiedMoments:
    """Mean and variance of a rectified Gaussian variable, with derivatives, by scaled complementary error functions.

    With s = sqrt(variance), a = mean / s, the normal density phi and distribution function Phi the mean is
    s (a Phi(a) + phi(a)). Its textbook form subtracts nearly equal numbers for very negative a; here everything is
    written in the tail beyond |a|, so that in float64 the relative error stays below 1e-9 until phi underflows.

    Args:
        mean, variance: float64, one shape; variance >= 0.
    """
    scale = variance.sqrt().clamp_min(1e-150)
    positive = mean > 0
    t = (mean.abs() / scale).clamp_max(FAR)
    density = torch.exp(-0.5 * t * t) * (2.0 * math.pi) ** -0.5
    tail = density * torch.special.erfcx(t * 0.5**0.5) * (0.5 * math.pi) ** 0.5
    first = density - t * tail  # E max(0, X) of X ~ N(-t, 1)
    second = tail - t * first  # E max(0, X)^2 of the same
    below = torch.where(positive, 1.0 - tail, tail)  # Phi(a)
    above = torch.where(positive, tail, 1.0 - tail)
    square = first * first
    spread = torch.where(positive, 1.0 - second - 2.0 * t * first - square, second - square)
    out = torch.where(positive, mean, 0.0) + scale * first
    by_variance, variance_by_variance = density / (2.0 * scale), below - density * out / scale
    return RectifiedMoments(out, variance * spread, below, by_variance, 2.0 * out * above, variance_by_variance)


def gamma_update(shape: Tensor, rate: Tensor, variance: Tensor, square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gamma posterior of a precision, and Z's variance, after a residual ~ N(0, variance + 1/precision).

    Z(shape, rate), a Student's t, is replaced by a Gaussian of the same variance, variance + rate / (shape - 1), as
    published; the new Gamma has the first two moments that Z, Z1 = Z(shape + 1, rate) and Z2 = Z(shape + 2, rate) give.

    Args:
        shape, rate: of the Gamma, one shape, shape > 1.
        variance: of what the residual has besides, >= 0.
        square: the residual, squared.

    Returns:
        New shape and rate, the old ones where the new ones would give no finite 1 / precision, and Z's variance.
    """
    total = torch.stack([shape - 1.0, shape, shape + 1.0]).reciprocal_().mul_(rate).add_(variance)
    z, z1, z2 = (total.log() + square / total).mul_(-0.5).unbind()
    # E g^2 / (E g)^2 = Z Z2 / Z1^2 (shape + 1) / shape is close to 1 when the shape is large: hence expm1
    new_shape = torch.expm1(z + z2 - 2.0 * z1 + torch.log1p(1.0 / shape)).reciprocal()
    new_rate = new_shape * rate / shape * torch.exp(z - z1)
    ok = (new_shape > 1.0) & (new_shape < HUGE) & (new_rate > 0.0) & (new_rate < HUGE)
    return torch.where(ok, new_shape, shape), torch.where(ok, new_rate, rate), total[0]


class StackedPBP(nn.Module):
    """R fully connected ReLU networks for regression with one output, trained by probabilistic backpropagation.

    Weights have the prior N(0, 1/lambda), lambda ~ Gamma(6, 6); noise has the precision gamma ~ Gamma(6, 6): targets
    are to be standardized. What enters a layer, bias unit included, is divided by sqrt(fan_in + 1). Everything is in
    float64: new variances are differences of nearly equal numbers. All that learns is in `state_dict()`.

    Args:
        sizes: layer widths, inputs first; the last is 1.
        replicates: R.
        generator: of the initial means, N(0, 1 / (fan_in + 1)), on its device; the initial variances are the prior's,
            6 / 5.

    Raises:
        ValueError: fewer than two sizes, one below 1, more than one output, or no replicate.
    """

    site: Tensor
    noise_shape: Tensor
    noise_rate: Tensor
    prior_shape: Tensor
    prior_rate: Tensor

    def __init__(self, sizes: Sequence[int], replicates: int, generator: torch.Generator | None = None):
        super().__init__()
        if len(sizes) < 2 or sizes[-1] != 1:
            raise ValueError(
                f"sizes is {list(sizes)}, but it must give the inputs, the hidden layers if any, and then 1: "
                "probabilistic backpropagation has one output. For more targets train one stack for each."
            )
        self.sizes = tuple(check_count("a layer width", size) for size in sizes)
        self.replicates = check_count("replicates", replicates)
        device = None if generator is None else generator.device
        for k, (fan_in, fan_out) in enumerate(pairwise(self.sizes)):
            mean = torch.empty(self.replicates, fan_out, fan_in + 1, dtype=torch.float64, device=device)
            mean.normal_(generator=generator).mul_((fan_in + 1) ** -0.5)
            self.register_buffer(f"mean_{k}", mean)  # the bias is the last input of each unit
            self.register_buffer(f"variance_{k}", torch.full_like(mean, RATE / (SHAPE - 1.0)))
        # the prior's factor of each weight: precision of its Gaussian in w, shape and rate of what it adds to lambda's
        weights = sum((a + 1) * b for a, b in pairwise(self.sizes))
        self.register_buffer("site", mean.new_zeros(3, weights, self.replicates))
        self.site[0] = (SHAPE - 1.0) / RATE
        for name in ("noise", "prior"):
            self.register_buffer(f"{name}_shape", mean.new_full((self.replicates,), SHAPE))
            self.register_buffer(f"{name}_rate", mean.new_full((self.replicates,), RATE))

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Means and variances of each layer's weights, each (R, fan_out, fan_in + 1); the last input is the bias."""
        return [(getattr(self, f"mean_{k}"), getattr(self, f"variance_{k}")) for k in range(len(self.sizes) - 1)]

    def noise_variance(self) -> Tensor:
        """Expected variance of the noise, in squared units of the target, shape (R,)."""
        return self.noise_rate / (self.noise_shape - 1.0)

    @torch.no_grad()
    def fit(
        self,
        x: Tensor,
        y: Tensor,
        *,
        epochs: int = 40,
        generator: torch.Generator | None = None,
        first_epoch: int = 0,
        after_epoch: Callable[[StackedPBP, int], None] | None = None,
    ) -> StackedPBP:
        """Pass over the rows `epochs` times, one row of every data set at a time, and revise the prior after each pass.

        Args:
            x: standardized inputs, shape (n, R, inputs).
            y: standardized targets, shape (n, R, 1).
            epochs: passes in all; 40 as published.
            generator: of the order of the rows, one order an epoch, shared by the replicates.
            first_epoch: to go on from a checkpoint, whose generator state the caller restores.
            after_epoch: called as after_epoch(model, epoch) once an epoch; checkpoints and curves hang here.

        Returns:
            The stack itself.

        Raises:
            ValueError: shapes do not fit, a value is not finite, or a count is too small.
        """
        check_count("epochs", epochs)
        check_count("first_epoch", first_epoch, 0)
        shapes = (len(x), self.replicates, self.sizes[0]), (len(x), self.replicates, 1)
        if (tuple(x.shape), tuple(y.shape)) != shapes or not len(x):
            raise ValueError(
                f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}, but they must be {shapes[0]} and "
                f"{shapes[1]}, with at least one row: stack your data sets along the second dimension."
            )
        for name, value in (("x", x), ("y", y)):
            bad = (~value.isfinite()).any(dim=2).any(dim=0).nonzero().flatten().tolist()
            if bad:
                raise ValueError(
                    f"{name} has NaN or infinite values in replicates {bad}, but every value must be finite: remove "
                    "or fill these rows; a constant column divided by its standard deviation of 0 also gives NaN."
                )
        rows = self._with_bias(x.to(self.site).transpose(0, 1), None)[0].transpose(0, 1).unsqueeze(2).contiguous()
        targets, layers = y.to(self.site), self.layers()
        for epoch in range(first_epoch, epochs):
            order = torch.randperm(len(x), generator=generator, device=rows.device).tolist()
            with torch.inference_mode():  # about a sixth faster than no_grad: the step is bound by its calls
                for row in order:
                    self._observe(layers, rows[row], targets[row])
            self.refine_prior()
            if after_epoch:
                after_epoch(self, epoch)
        return self

    @torch.no_grad()
    def predict(self, x: Tensor, chunk_size: int = 2048) -> tuple[Tensor, Tensor]:
        """Moments of new targets, approximated as Gaussian.

        Args:
            x: inputs, shape (R, m, inputs), or (m, inputs) for all replicates.
            chunk_size: rows at a time, which bounds the memory.

        Returns:
            Mean and variance, noise included, each float64 of shape (R, m, 1).

        Raises:
            ValueError: the shape does not fit.
        """
        x = x.expand(self.replicates, *x.shape) if x.dim() == 2 else x
        if x.dim() != 3 or x.shape[0] != self.replicates or x.shape[2] != self.sizes[0]:
            allowed = f"({self.replicates}, m, {self.sizes[0]}): the rows of replicate r are x[r]"
            raise ValueError(f"x has shape {tuple(x.shape)}, but must have {allowed}.")
        layers, chunks = self.layers(), x.to(self.site).split(chunk_size, dim=1)
        parts = [self._forward(layers, self._with_bias(chunk, None)[0])[0] for chunk in chunks]
        mean, variance = (torch.cat(moment, dim=1) for moment in zip(*parts, strict=True))
        return mean, variance + self.noise_variance()[:, None, None]

    @staticmethod
    def _with_bias(mean: Tensor, variance: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What enters a layer: the units' moments and those of the constant 1, scaled by 1 / sqrt(fan_in + 1)."""
        factor = (mean.shape[-1] + 1) ** -0.5
        if variance is not None:
            variance = F.pad(variance * factor**2, (0, 1))
        return F.pad(mean * factor, (0, 1), value=factor), variance

    def _forward(self, layers, z: Tensor) -> tuple[tuple[Tensor, Tensor], list]:
        """Moments (R, m, 1) of the output for scaled inputs (R, m, inputs + 1), and what the way back needs."""
        tape: list[tuple] = []
        spread: Tensor | None = None
        for k, (mean, variance) in enumerate(layers):
            power = z.square() if spread is None else z.square().add_(spread)
            a_mean, a_variance = z @ mean.mT, power @ variance.mT
            if spread is not None:
                a_variance += spread @ mean.square().mT
            unit = rectified_moments(a_mean, a_variance) if k < len(layers) - 1 else None
            tape.append((z, spread, power, unit))
            if unit:
                z, spread = self._with_bias(unit.mean, unit.variance)
        return (a_mean, a_variance), tape

    def _observe(self, layers, x: Tensor, y: Tensor) -> None:
        """Take in one row of every data set: x (R, 1, inputs + 1) with bias and scaled, y (R, 1)."""
        (mean, variance), tape = self._forward(layers, x)
        residual = y - mean[:, :, 0]
        shape, rate, total = gamma_update(self.noise_shape, self.noise_rate, variance[:, 0, 0], residual[:, 0].square())
        to_mean = (residual / total[:, None]).unsqueeze(2)  # dlogZ by the mean and the variance of the activation
        to_variance = 0.5 * (to_mean.square() - total.reciprocal()[:, None, None])
        for k in range(len(layers) - 1, -1, -1):
            (z, spread, power, _), (mean, variance) = tape[k], layers[k]
            if k:  # before this layer's weights change
                by_mean = (to_mean @ mean).addcmul_(z, to_variance @ variance, value=2.0)
                by_variance = to_variance @ (mean.square() + variance)
            by_weight = to_mean.mT * z
            if spread is None:
                curvature = (to_mean.square() - 2.0 * to_variance).mT * power
            else:
                by_weight.addcmul_(mean, to_variance.mT * spread, value=2.0)
                curvature = by_weight.square().sub_(to_variance.mT * power, alpha=2.0)
            new_variance = torch.addcmul(variance, variance, curvature.mul_(variance), value=-1.0)
            ok = (new_variance > TINY).logical_and_(new_variance < HUGE)
            mean.copy_(torch.where(ok, torch.addcmul(mean, variance, by_weight), mean))
            variance.copy_(torch.where(ok, new_variance, variance))
            if k:
                unit, width = tape[k - 1][3], self.sizes[k]
                by_mean = by_mean[..., :width] * (width + 1) ** -0.5
                by_variance = by_variance[..., :width] / (width + 1)
                to_mean = by_mean * unit.mean_by_mean + by_variance * unit.variance_by_mean
                to_variance = by_mean * unit.mean_by_variance + by_variance * unit.variance_by_variance
        self.noise_shape.copy_(shape)
        self.noise_rate.copy_(rate)

    @torch.no_grad()
    def refine_prior(self) -> None:
        """One sweep of expectation propagation over the prior's factors, weight after weight as published.

        Each factor N(w; 0, 1/lambda) is taken out of the posterior and put back: the weights share lambda, so they
        cannot be revised at once. For a weight the factor stays a Gaussian of mean 0, whose variance is the expected
        1/lambda without this weight's say; a factor that cannot be taken out is left alone.
        """
        layers = self.layers()
        mean, variance = (torch.cat([t.flatten(1) for t in part], dim=1).T for part in zip(*layers, strict=True))
        cavity_precision = variance.reciprocal() - self.site[0]
        cavity_variance = cavity_precision.reciprocal()
        squares = (mean / variance * cavity_variance).square()
        usable = (cavity_variance > 0.0) & (cavity_variance < MAX_CAVITY)
        shape, rate, columns = self.prior_shape, self.prior_rate, []
        for own_shape, own_rate, v, square, use in zip(*self.site[1:], cavity_variance, squares, usable, strict=True):
            cavity_shape, cavity_rate = shape - own_shape, rate - own_rate
            use = use & (cavity_shape > 1.0) & (cavity_rate > 0.0)
            new_shape, new_rate, _ = gamma_update(cavity_shape, cavity_rate, v, square)
            shape, rate = torch.where(use, new_shape, shape), torch.where(use, new_rate, rate)
            columns.append((cavity_shape, cavity_rate, new_shape, new_rate, use))
        cavity_shape, cavity_rate, new_shape, new_rate, usable = (torch.stack(c) for c in zip(*columns, strict=True))
        site = torch.stack([(cavity_shape - 1.0) / cavity_rate, new_shape - cavity_shape, new_rate - cavity_rate])
        new_variance = (cavity_precision + site[0]).reciprocal()
        usable &= (new_variance > TINY) & (new_variance < HUGE)
        self.site.copy_(torch.where(usable, site, self.site))
        self.prior_shape.copy_(shape)
        self.prior_rate.copy_(rate)
        ratio = torch.where(usable, new_variance / variance, 1.0).T.split([m[0].numel() for m, _ in layers], dim=1)
        for (m, v), factor in zip(layers, ratio, strict=True):  # precision * mean stays as it is
            m *= factor.reshape(m.shape)
            v *= factor.reshape(v.shape)

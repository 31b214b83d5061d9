"""Noise on units with a truncated log-normal posterior: draws of many layers at once, and the divergence."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bnnlib._noise import Source, draw_uniform
from bnnlib.functional._autograd import closed_form_sum, double_backward, transformed
from bnnlib.functional.truncated_log_normal import PlainSample, _kl, _kl_grad, sample_forward, sample_grad
from bnnlib.posteriors.kl_tokens import remember

BOUND = 5.0  # the published code keeps location and log scale in [-20, 5]


def inside(location: Tensor, log_scale: Tensor, lower: float) -> tuple[Tensor, Tensor]:
    """Location and scale of log theta in float64, as a draw takes them."""
    return location.double().clamp(lower, BOUND), log_scale.double().clamp(-20.0, BOUND).exp()


def _masked(gradient: Tensor, parameter: Tensor, low: float) -> Tensor:
    """What clamping lets through, in the parameter's type."""
    return gradient.to(parameter.dtype).mul_((parameter >= low) & (parameter <= BOUND))


class _UnitNoiseDraw(torch.autograd.Function):
    """theta of all units of some layers at once, and a token with the gradient of their KL: see `kl_tokens`.

    The arithmetic is small: nearly all of its time goes into starting operations, so that many layers
    cost what one does.
    """

    @staticmethod
    def forward(ctx, uniform, interval, kl_weights, sizes, *parameters):
        ctx.set_materialize_grads(False)
        half = len(sizes)
        location, log_scale = torch.cat(parameters[:half]), torch.cat(parameters[half:])
        mean, scale = inside(location, log_scale, interval[0])
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
                    weight * _kl(*inside(mean, log_scale, interval[0]), *interval).sum()
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
    return PlainSample.apply(*inside(location, log_scale, interval[0]), uniform, *interval).to(location.dtype)


def _joined(parts: Sequence[Tensor | None], sizes: list[int], like: Tensor) -> Tensor:
    return torch.cat([like.new_zeros(n) if part is None else part for n, part in zip(sizes, parts, strict=True)])


def _levels(like: Tensor, generator: Source) -> Tensor:
    return draw_uniform(like, generator).clamp(1e-12, 1.0 - 1e-12)


def draw(layers: Sequence[Any], sources: Sequence[Source]) -> list[Tensor]:
    """One theta per unit for each of some layers on one interval, in one operation; a source for each."""
    if transformed():
        return [
            _plain_draw(one.location, one.log_scale, _levels(one.location.double(), source), (one.lower, one.upper))
            for one, source in zip(layers, sources, strict=True)
        ]
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


def divergence(location: Tensor, log_scale: Tensor, interval: tuple[float, float], with_value: bool) -> Tensor:
    """Exact divergence to the log-uniform prior, summed over units, in nats; equation (sbp-kl)."""

    def value(location: Tensor, log_scale: Tensor) -> Tensor:
        return _kl(*inside(location, log_scale, interval[0]), *interval)

    def gradient(grad: Tensor, location: Tensor, log_scale: Tensor) -> tuple[Tensor, Tensor]:
        d_mean, d_scale = _kl_grad(*inside(location, log_scale, interval[0]), *interval)
        return _masked(d_mean * grad, location, interval[0]), _masked(d_scale * grad, log_scale, -20.0)

    return closed_form_sum(value, gradient, location, log_scale, with_value=with_value)

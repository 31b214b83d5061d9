"""Draws by key in one pass over the parameters, and their gradients in another, which makes the same noise again.

Between the two nothing is kept but the key. What the kernels do not know (other types and layouts, a divergence with a
number for each row, a backward pass that is itself differentiated) takes the formulas of `bnnlib.functional.draws`, on
noise that is made for it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from bnnlib import _native
from bnnlib._memory import keep_pages
from bnnlib._native import DeviceKey
from bnnlib._noise import Keys, Source, _in_order, dense, draw_normal
from bnnlib.functional._autograd import factor, transformed, zero_sum
from bnnlib.functional.draws import gaussian_backward, spike_slab_backward
from bnnlib.functional.gaussian import softplus_scale
from bnnlib.functional.gaussian_spike_slab import MixturePrior
from bnnlib.functional.spike_slab import gate_of
from bnnlib.functional.variational_dropout import variance_backward
from bnnlib.posteriors.kl_tokens import remember

Group = Sequence[Tensor]  # a mean and what stands beside it
Kernel = tuple[str, tuple[float, ...]]  # with its constants


class Family(NamedTuple):
    """What a kind of posterior has to say of its draws.

    `kernel` draws, and `noise` are the kinds of numbers of a weight. `gradient(share, *settings)` is the kernel of the
    gradients and its constants for a divergence that counts `share`, or None where none knows the settings.
    `formulas(group, noise, grad, token, *settings)` are the gradients without kernel.
    """

    kernel: str
    noise: tuple[str, ...]
    gradient: Callable[..., Kernel | None]
    formulas: Callable[..., tuple[Tensor | None, ...]]


def _gaussian_gradient(share: float, prior: Any, sampled: bool) -> Kernel | None:
    if isinstance(prior, float) or not share:
        return "gaussian_grad", (share, share / prior**2 if share else 0.0)
    if not (isinstance(prior, MixturePrior) and all(isinstance(number, float) for number in prior)):
        return None
    slab, spike, slab_cost, spike_cost = cast("tuple[float, ...]", prior)
    return "mixture_grad" if sampled else "profile_grad", (share, slab, spike - slab, spike_cost - slab_cost)


def _gaussian_formulas(group, noise, grad, token, prior, sampled, dim, output="weight"):
    mean, rho = group
    scale = softplus_scale(rho.detach())
    return gaussian_backward(mean, rho, scale, *noise, grad, token, prior, output, sampled, dim)


def _spike_slab_gradient(share: float, temperature: float, prior_logit: Any, prior_scale: Any) -> Kernel | None:
    if isinstance(prior_logit, Tensor) or isinstance(prior_scale, Tensor):
        return None
    return "spike_slab_grad", (share, prior_scale**-2, math.log(prior_scale) - 0.5 - prior_logit, 1.0 / temperature)


def _spike_slab_formulas(group, noise, grad, token, *settings):
    mean, rho, logit = group
    eta = logit.detach() + noise[1]
    saved = mean, rho, softplus_scale(rho.detach()), logit, noise[0], eta, gate_of(eta)
    return spike_slab_backward(*saved, grad, token, *settings)


GAUSSIAN = Family("gaussian", ("normal",), _gaussian_gradient, _gaussian_formulas)
SPIKE_SLAB = Family("spike_slab", ("normal", "logistic"), _spike_slab_gradient, _spike_slab_formulas)


def _softplus_formulas(mean, rho, grad, token, prior):
    return _gaussian_formulas((mean, rho), (None,), grad, token, prior, False, None, "variance")


def _power_formulas(mean, rho, grad, token):
    return variance_backward(mean, rho, torch.exp(rho.detach()), grad, token)


class Variances(NamedTuple):
    """What a kind of posterior has to say of weights whose outputs are drawn: the variances' kernel and formulas.

    `constants(share, *settings)` are those of the kernel of the gradients, of both moments and of the divergence.
    """

    kernel: str
    constants: Callable[..., tuple[float, ...]]
    formulas: Callable[..., tuple[Tensor | None, ...]]


SOFTPLUS = Variances("variance", lambda share, prior: (share, share / prior**2), _softplus_formulas)
POWER = Variances("power_variance", lambda share: (share,), _power_formulas)


def fits(source: Source, groups: Sequence[Group]) -> bool:
    """Whether the kernels can draw from groups of parameters by `source`; the first yes to all else compiles them."""
    if not isinstance(source, Keys) or transformed():
        return False
    return all(dense(group) for group in groups) and all(_native.has_kernels(group[0]) for group in groups)


def _made(like: Tensor, kind: str, key: int | DeviceKey) -> Tensor:
    noise = torch.empty_like(like, requires_grad=False)
    _native.fill(_in_order(noise).view(-1), kind, key)
    return noise


def _in_order_of(like: Tensor, grad: Tensor) -> Tensor | None:
    """A gradient in the order of memory of `like`; None for one that the kernels cannot read."""
    if grad.layout is not torch.strided or grad.dtype is not torch.float32 or type(grad) is not Tensor:
        return None
    return grad.contiguous(memory_format=torch.contiguous_format if like.is_contiguous() else torch.channels_last)


def _share(token: Tensor | None) -> tuple[float | None, Tensor | None]:
    """What the divergence counts in the objective: a number, 0 without a token and None where each row has its own.

    On a GPU, where to read a value is to wait, it is the second number's multiple.
    """
    if token is None:
        return 0.0, None
    token = factor(token)
    if token.dim():
        return None, None
    return (token.item(), None) if token.is_cpu else (1.0, token)


def _values(family: Family, keys: list[tuple[int | DeviceKey, ...]], groups: Sequence[Group]) -> list[Tensor]:
    keep_pages()
    values = [torch.empty_like(group[0], requires_grad=False) for group in groups]
    for key, group, value in zip(keys, groups, values, strict=True):
        _native.run(family.kernel, key, group, (value,))
    return values


class _ByKey(torch.autograd.Function):
    @staticmethod
    def forward(ctx, family, keys, settings, dim, *parameters):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters)
        ctx.about = family, keys, settings, dim
        return *_values(family, keys, _groups(parameters, len(keys))), zero_sum(parameters[0], dim)

    @staticmethod
    def backward(ctx, *grads):
        family, keys, settings, dim = ctx.about
        token, (share, there) = grads[-1], _share(grads[-1])
        kernel = None if share is None or torch.is_grad_enabled() else family.gradient(share, *settings)
        gradients: list[Tensor | None] = []
        for key, group, grad in zip(keys, _groups(ctx.saved_tensors, len(keys)), grads[:-1], strict=True):
            own = None if grad is None or kernel is None else _in_order_of(group[0], grad)
            if own is not None:
                assert kernel is not None
                outputs = [torch.empty_like(parameter) for parameter in group]
                _native.run(kernel[0], key, (*group, own), outputs, kernel[1], there)
                gradients += outputs
            elif grad is None and token is None:
                gradients += [None] * len(group)
            else:
                noise = [_made(group[0], kind, part) for kind, part in zip(family.noise, key, strict=True)]
                gradients += family.formulas(group, noise, grad, token, *settings, dim)
        return *(None,) * 4, *gradients


def _groups(parameters: Sequence[Tensor], number: int) -> list[Group]:
    size = len(parameters) // number
    return [parameters[start : start + size] for start in range(0, len(parameters), size)]


def draw(layer: nn.Module, family: Family, source: Keys, groups: Sequence[Group], *settings: Any) -> list[Tensor]:
    """Draws of all groups of a layer, which `fits` takes, with the next noise of `source`; the layer keeps the token.

    Args:
        settings: of the divergence, the last one the dimension of its sum.
    """
    *own, dim = settings
    device = groups[0][0].device
    keys = [tuple(source.next_key(device) for _ in family.noise) for _ in groups]
    parameters = [p for p in layer._parameters.values() if p is not None]
    if not torch.is_grad_enabled():
        remember(layer, [], parameters)
        return _values(family, keys, groups)
    *values, token = _ByKey.apply(family, keys, own, dim, *(parameter for group in groups for parameter in group))
    remember(layer, [token], parameters)
    return values


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, family, settings, *parameters):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*parameters)
        ctx.about = family, settings
        variances = [torch.empty_like(rho, requires_grad=False) for rho in parameters[1::2]]
        for rho, variance in zip(parameters[1::2], variances, strict=True):
            _native.run(family.kernel, (0,), (rho,), (variance,))
        return *parameters[::2], *variances, zero_sum(parameters[0], None)

    @staticmethod
    def backward(ctx, *grads):
        family, settings = ctx.about
        groups, (share, _), gradients = _groups(ctx.saved_tensors, len(grads) // 2), _share(grads[-1]), []
        for group, *both in zip(groups, grads, grads[len(groups) :], strict=False):
            plain = torch.is_grad_enabled() or None in both
            given = [None if plain else _in_order_of(group[0], grad) for grad in both]
            if None not in given:
                outputs = [torch.empty_like(parameter) for parameter in group]
                constants = family.constants(share, *settings)
                _native.run(f"{family.kernel}_grad", (0,), (*group, *given), outputs, constants)
            else:
                own, other = family.formulas(*group, both[1], grads[-1], *settings)
                outputs = [own if both[0] is None else both[0] if own is None else both[0] + own, other]
            gradients += outputs
        return None, None, *gradients


def moments(layer: nn.Module, family: Variances, groups: Sequence[Group], *settings: Any) -> tuple[list, list]:
    """(means, variances) of all groups on a CPU, which `fits` takes; the layer keeps the token."""
    keep_pages()
    *outputs, token = _Moments.apply(family, settings, *(parameter for group in groups for parameter in group))
    remember(layer, [token], [p for p in layer._parameters.values() if p is not None])
    return outputs[: len(groups)], outputs[len(groups) :]


class _Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx, key, floor, mean, variance):
        ctx.save_for_backward(variance)
        ctx.about = key, floor
        output = torch.empty_like(mean, requires_grad=False)
        _native.run("local", (key,), (mean, variance), (output,), floor)
        return output

    @staticmethod
    def backward(ctx, grad):
        (variance,), (key, floor) = ctx.saved_tensors, ctx.about
        own = None if torch.is_grad_enabled() else _in_order_of(variance, grad)
        if own is None:
            slope = _root(variance, floor).reciprocal() * (0.5 * (variance + floor[0] >= floor[1]))
            return None, None, grad, grad * _made(variance, "normal", key) * slope
        gradient = torch.empty_like(variance)
        _native.run("local_grad", (key,), (variance, own), (gradient,), floor)
        return None, None, grad, gradient


def _root(variance: Tensor, floor: tuple[float, float]) -> Tensor:
    return (variance + floor[0]).clamp_min(floor[1]).sqrt()


def local(mean: Tensor, variance: Tensor, source: Source, add: float, least: float) -> Tensor:
    """Outputs with their own mean and variance; the root is that of max(variance + add, least)."""
    if fits(source, [(mean, variance)]) and mean.is_cpu:
        assert isinstance(source, Keys)
        return _Local.apply(source.next_key(mean.device), (add, least), mean, variance)
    spread = variance.add(add).sqrt() if add else variance.clamp_min(least).sqrt()
    return torch.addcmul(mean, spread, draw_normal(mean, source))

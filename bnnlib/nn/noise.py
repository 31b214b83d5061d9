"""Where the noise of Bayesian layers comes from: explicit generators, and draws outside compiled regions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from bnnlib._memory import keep_pages

_GENERATOR: ContextVar[torch.Generator | None] = ContextVar("bnnlib_generator", default=None)


@contextmanager
def use_generator(generator: torch.Generator | None) -> Iterator[torch.Generator | None]:
    """Let every Bayesian layer that runs inside the block draw its noise from `generator`.

    This is how layers inside `nn.Sequential`, which passes on nothing but the input, get explicit randomness. A
    generator given to a layer's `forward` wins over the context; None means PyTorch's global generator.

    Example:
        >>> layer, x, outputs = GaussianLinear(3, 2, initial_scale=0.1), torch.ones(1, 3), []
        >>> for _ in range(2):
        ...     with use_generator(torch.Generator().manual_seed(0)):
        ...         outputs.append(layer(x))
        >>> torch.equal(*outputs)
        True
    """
    token = _GENERATOR.set(generator)
    try:
        yield generator
    finally:
        _GENERATOR.reset(token)


def _source(like: Tensor, generator: torch.Generator | None) -> torch.Generator | None:
    generator = generator if generator is not None else _GENERATOR.get()
    if generator is not None and generator.device.type != like.device.type:
        raise ValueError(
            f"generator lives on {generator.device}, but the weights are on {like.device}: noise is drawn where "
            f"the weights are. Make the generator with torch.Generator(device={str(like.device)!r})."
        )
    return generator


def _in_order(values: Tensor) -> Tensor:
    """A view in the order of memory: without it PyTorch fills channels_last one by one, 25 ns each in place of 3."""
    if values.dim() == 4 and not values.is_contiguous():
        moved = values.permute(0, 2, 3, 1)  # channels_last
        return moved if moved.is_contiguous() else values
    return values


def _fill(values: Tensor, kind: str, generator: torch.Generator | None) -> Tensor:
    keep_pages()
    if kind == "normal":
        _in_order(values).normal_(generator=generator)
        return values
    if kind == "uniform":
        return values.uniform_(generator=generator)
    return values.random_(0, 2, generator=generator).mul_(2.0).sub_(1.0)


# An operator that the compiler does not look into: inductor's own random kernels are about eleven times slower on a
# CPU, know no generator, and a graph with the noise inside may replay the same draw.
_LIBRARY = torch.library.Library("bnnlib", "DEF")
_LIBRARY.define("noise(Tensor like, SymInt[]? shape, str kind) -> Tensor", tags=[torch.Tag.nondeterministic_seeded])


def _empty(like: Tensor, shape: tuple[int, ...] | None) -> Tensor:
    return torch.empty_like(like, requires_grad=False) if shape is None else like.new_empty(shape)


_LIBRARY.impl("noise", lambda *a: _fill(_empty(*a[:2]), a[2], _source(a[0], None)), "CompositeExplicitAutograd")
torch.library.register_fake("bnnlib::noise", lambda like, shape, kind: _empty(like, shape), lib=_LIBRARY)


def _draw(like: Tensor, shape: tuple[int, ...] | None, kind: str, generator: torch.Generator | None) -> Tensor:
    if torch.compiler.is_compiling():
        if generator is not None:  # which no graph takes: it is left here
            with use_generator(generator):
                return torch.ops.bnnlib.noise(like.detach(), shape, kind)
        return torch.ops.bnnlib.noise(like.detach(), shape, kind)
    if torch._C._are_functorch_transforms_active():  # which ask for new tensors: vmap may draw each entry its own
        shape = like.shape if shape is None else shape
        place: dict[str, Any] = {"dtype": like.dtype, "device": like.device, "generator": _source(like, generator)}
        if kind == "signs":
            return torch.randint(0, 2, tuple(shape), **place).mul(2.0).sub(1.0)
        return (torch.randn if kind == "normal" else torch.rand)(tuple(shape), **place)
    return _fill(_empty(like, shape), kind, _source(like, generator))


def draw_normal(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Standard normal noise in the shape, dtype and device of `like`, drawn outside compiled regions."""
    return _draw(like, None, "normal", generator)


def draw_uniform(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """U(0, 1) noise in the shape, dtype and device of `like`, drawn outside compiled regions."""
    return _draw(like, None, "uniform", generator)


def draw_signs(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Independent signs -1 or +1 with probability 1/2 each, in `shape`, drawn outside compiled regions."""
    return _draw(like, shape, "signs", generator)

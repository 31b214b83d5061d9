"""Where the noise of Bayesian layers comes from: explicit generators, and draws outside compiled regions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_GENERATOR: ContextVar[torch.Generator | None] = ContextVar("bnnlib_generator", default=None)


@contextmanager
def use_generator(generator: torch.Generator | None) -> Iterator[torch.Generator | None]:
    """Let every Bayesian layer that runs inside the block draw its noise from `generator`.

    This is how layers inside `nn.Sequential`, which passes on nothing but the input, get explicit randomness. A
    generator given to a layer's `forward` wins over the context; None means PyTorch's global generator.
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


# Disabled for the compiler: inductor's own random kernels are about eleven times slower on a CPU, know no generator,
# and a graph with the noise inside may replay the same draw.
@torch.compiler.disable
def draw_normal(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Standard normal noise in the shape, dtype and device of `like`, drawn outside compiled regions."""
    return torch.empty_like(like, requires_grad=False).normal_(generator=_source(like, generator))


@torch.compiler.disable
def draw_uniform(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """U(0, 1) noise in the shape, dtype and device of `like`, drawn outside compiled regions."""
    return torch.empty_like(like, requires_grad=False).uniform_(generator=_source(like, generator))


@torch.compiler.disable
def draw_signs(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Independent signs -1 or +1 with probability 1/2 each, in `shape`, drawn outside compiled regions."""
    bits = torch.empty(shape, dtype=like.dtype, device=like.device).random_(0, 2, generator=_source(like, generator))
    return bits.mul_(2.0).sub_(1.0)

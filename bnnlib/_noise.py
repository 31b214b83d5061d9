"""Where the noise of Bayesian layers comes from: keys, explicit generators, and draws outside compiled regions.

A pass may be computed twice: by gradient checkpointing, or by a compiler with a memory budget, in the middle of the
backward pass. The second time it must draw the same numbers, or the gradients are wrong. After `redraw` a layer's noise
is a function of its key, so that it does. A generator is a sequence that has moved on by then, and is refused there.

By key, number i of a draw is a function of the key and i, the same in `kernels.cpp`, in Triton and in plain PyTorch. A
GPU without Triton draws from PyTorch's generator at the key: one kernel, where plain PyTorch would start a hundred.
"""

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch._functorch.config
from torch import Tensor, nn

from bnnlib import _native
from bnnlib._checks import check_generator
from bnnlib._memory import keep_pages
from bnnlib._native.keys import DeviceKey, fold, of_draw, whole

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


class Keys:
    """The noise of one forward pass of one layer: the number of a draw within the pass and the key decide it."""

    def __init__(self, key: Tensor) -> None:
        self.key, self.drawn = key, 0

    def next(self) -> int:
        """The number of the draw at hand."""
        self.drawn += 1
        return self.drawn - 1

    def next_key(self, device: torch.device) -> int | DeviceKey:
        """The key of the draw at hand, of 64 bits; where it lies, for a draw on the same GPU."""
        return of_draw(self.key, self.next(), device)


Source = torch.Generator | Keys | None


class Keyed:
    """Mixin of modules with noise: `redraw` gives them a key."""

    # a plain attribute: buffers follow the module to a GPU, where each look at a key would wait for the device, and are
    # sent by rank 0 to the others
    _noise_key: Tensor | None = None

    def _noise(self, generator: Source) -> Source:
        """Where a forward pass draws: from a generator given to it, else by the key; None leaves it to the context."""
        if generator is not None or self._noise_key is None:
            return generator
        return Keys(self._noise_key)


def new_seed(generator: torch.Generator | None = None) -> int:
    """A seed for `redraw` from a generator, by default PyTorch's global one."""
    return int(torch.randint(2**62, (), generator=generator, device=None if generator is None else generator.device))


_OWN = threading.local()


def _keyed(device: torch.device, key: Tensor, number: int) -> torch.Generator:
    """A generator at the start of the draw `number` of a key; PyTorch's for a CPU takes the lower 32 bits of a seed."""
    generators = _OWN.__dict__.setdefault("generators", {})
    if device not in generators:
        generators[device] = torch.Generator(device)
    return generators[device].manual_seed(fold(whole(key), number))


def _source(like: Tensor, generator: torch.Generator | None) -> torch.Generator | None:
    generator = generator if generator is not None else _GENERATOR.get()
    if generator is None:
        return None
    check_generator("generator", generator)
    if generator.device.type != like.device.type:
        raise ValueError(
            f"generator lives on {generator.device}, but the weights are on {like.device}: noise is drawn where "
            f"the weights are. Make the generator with torch.Generator(device={str(like.device)!r})."
        )
    if torch._C._current_graph_task_id() != -1:
        raise _repeated("a generator")
    return generator


def _repeated(source: str) -> RuntimeError:
    return RuntimeError(
        f"a forward pass is computed again for its backward (torch.utils.checkpoint, an activation memory budget), "
        f"but the numbers that {source} gave it are gone: its gradients would be wrong. Call "
        "bnnlib.nn.redraw(model, seed, step) before each step, or leave fit's keyed=True: then the noise is a function "
        "of the step."
    )


def _in_order(values: Tensor) -> Tensor:
    """A view in the order of memory: without it PyTorch fills channels_last one by one, 25 ns each in place of 3."""
    if values.dim() == 4 and not values.is_contiguous():
        moved = values.permute(0, 2, 3, 1)  # channels_last
        return moved if moved.is_contiguous() else values
    return values


def dense(group: Sequence[Tensor]) -> bool:
    """Whether tensors are what kernels take: float32, and alike in memory, without gaps, in the first one's order."""
    first = group[0]
    shape, contiguous = first.shape, first.is_contiguous()
    if first.numel() > _native.LARGEST:
        return False
    for tensor in group:
        if type(tensor) not in (nn.Parameter, Tensor) or tensor.dtype is not torch.float32 or tensor.shape != shape:
            return False
        if tensor.device != first.device:
            return False
        if tensor.is_contiguous() != contiguous or not (contiguous or _in_order(tensor).is_contiguous()):
            return False
    return True


def _fill(values: Tensor, kind: str, generator: torch.Generator | None) -> Tensor:
    keep_pages()
    if kind == "normal":
        _in_order(values).normal_(generator=generator)
        return values
    if kind != "signs":
        values.uniform_(generator=generator)
        return values if kind == "uniform" else values.logit_(torch.finfo(values.dtype).eps / 2)
    return values.random_(0, 2, generator=generator).mul_(2.0).sub_(1.0)


# Operators that the compiler does not look into: inductor's own random kernels are about eleven times slower on a
# CPU, know no generator, and a graph with the noise inside may replay the same draw.
_LIBRARY = torch.library.Library("bnnlib", "DEF")
_LIBRARY.define(
    "noise(Tensor like, SymInt[]? shape, str kind, int number) -> Tensor", tags=[torch.Tag.nondeterministic_seeded]
)
_LIBRARY.define("keyed_noise(Tensor like, SymInt[]? shape, str kind, Tensor key, int number) -> Tensor")


def _empty(like: Tensor, shape: tuple[int, ...] | None, dtype: torch.dtype | None = None) -> Tensor:
    if shape is None:
        return torch.empty_like(like, dtype=dtype, requires_grad=False)
    return like.new_empty(shape, dtype=dtype)


def _fresh_noise(like: Tensor, shape: tuple[int, ...] | None, kind: str, number: int) -> Tensor:
    if torch._C._current_graph_task_id() != -1 and torch._functorch.config.activation_memory_budget < 1.0:
        raise _repeated("PyTorch's generator")
    return _fill(_empty(like, shape), kind, _source(like, None))


def _keyed_noise(like: Tensor, shape: tuple[int, ...] | None, kind: str, key: Tensor, number: int) -> Tensor:
    # in float32 whatever is asked for: a generator has other numbers in each precision, a key is one draw in all
    values = _empty(like, shape, torch.float32)
    if values.numel() > _native.LARGEST or not _native.serves(values):
        return _fill(values, kind, _keyed(like.device, key, number)).to(like.dtype)
    keep_pages()
    ordered, key_of_draw = _in_order(values), of_draw(key, number, values.device)
    if ordered.is_contiguous():
        _native.fill(ordered.view(-1), kind, key_of_draw)
    else:
        values.copy_(_native.fill(values.new_empty(values.numel()), kind, key_of_draw).view(values.shape))
    return values.to(like.dtype)


for _name, _function in (("noise", _fresh_noise), ("keyed_noise", _keyed_noise)):
    _LIBRARY.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"bnnlib::{_name}", lambda like, shape, *_: _empty(like, shape), lib=_LIBRARY)


_NUMBERS = itertools.count()


def _new_number() -> int:
    """A number of its own for each draw that is traced: equal calls of an operator become one in the graph."""
    return next(_NUMBERS)


# torch.compiler.assume_constant_result without the import of the compiler, which takes as long as that of PyTorch
_new_number._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _draw(like: Tensor, shape: tuple[int, ...] | None, kind: str, generator: Source) -> Tensor:
    source: torch.Generator | None
    if isinstance(generator, Keys):
        if torch.compiler.is_compiling():
            return torch.ops.bnnlib.keyed_noise(like.detach(), shape, kind, generator.key, generator.next())
        if not torch._C._are_functorch_transforms_active():
            return _keyed_noise(like, shape, kind, generator.key, generator.next())
        if _native.serves(like) and _one_draw_for_all():
            with torch._C._DisableFuncTorch():
                plain = torch.empty((), dtype=like.dtype, device=like.device)
                shape = tuple(like.shape if shape is None else shape)
                return _keyed_noise(plain, shape, kind, generator.key, generator.next())
        source = _keyed(like.device, generator.key, generator.next())
    elif torch.compiler.is_compiling():
        if generator is None:
            return torch.ops.bnnlib.noise(like.detach(), shape, kind, _new_number())
        with use_generator(generator):  # which no graph takes: it is left here
            return torch.ops.bnnlib.noise(like.detach(), shape, kind, _new_number())
    else:
        source = _source(like, generator)
    if torch._C._are_functorch_transforms_active():  # which ask for new tensors: vmap may draw each entry its own
        shape = like.shape if shape is None else shape
        dtype = torch.float32 if isinstance(generator, Keys) else like.dtype
        place: dict[str, Any] = {"dtype": dtype, "device": like.device, "generator": source}
        if kind == "signs":
            values = torch.randint(0, 2, tuple(shape), **place).mul(2.0).sub(1.0)
        else:
            values = (torch.randn if kind == "normal" else torch.rand)(tuple(shape), **place)
            values = torch.logit(values, torch.finfo(dtype).eps / 2) if kind == "logistic" else values
        return values.to(like.dtype)
    return _fill(_empty(like, shape), kind, source)


def _one_draw_for_all() -> bool:
    """Whether no `torch.func.vmap` at work wants a draw for each entry, or refuses draws."""
    stack = torch._C._functorch.get_interpreter_stack() or []
    own = torch._C._functorch
    vmaps = [own.CVmapInterpreterPtr(level) for level in stack if level.key() == own.TransformType.Vmap]
    return all(level.randomness() == own.RandomnessType.Same for level in vmaps)


def draw_normal(like: Tensor, generator: Source = None) -> Tensor:
    """Standard normal noise in the shape, dtype and device of `like`, drawn outside compiled regions."""
    return _draw(like, None, "normal", generator)


def draw_uniform(like: Tensor, generator: Source = None) -> Tensor:
    """U(0, 1) noise in the shape, dtype and device of `like`, drawn outside compiled regions."""
    return _draw(like, None, "uniform", generator)


def draw_logistic(like: Tensor, generator: Source = None) -> Tensor:
    """Logistic noise, the log-odds of U(0, 1), in the shape, dtype and device of `like`."""
    return _draw(like, None, "logistic", generator)


def draw_signs(shape: tuple[int, ...], like: Tensor, generator: Source = None) -> Tensor:
    """Independent signs -1 or +1 with probability 1/2 each, in `shape`, drawn outside compiled regions."""
    return _draw(like, shape, "signs", generator)

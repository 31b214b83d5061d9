"""Keys for the noise of a whole model: fixed until the next call, or step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bnnlib._native.counter import signed
from bnnlib._native.keys import fold, of_layers
from bnnlib._noise import Keyed, new_seed


class redraw:
    """Fix the noise of every layer of a model until the next `redraw`: one draw, whatever is computed again.

    Call it before each training step where a pass may be repeated: with `torch.utils.checkpoint`, with
    `torch.compile` under an activation memory budget, or where ranks, a resumed run and a second look must see the same
    draw. A layer that runs twice in a pass uses one draw of its weights, as in `predict`, and one of its masks.
    Without it a forward pass draws anew, from `use_generator` or PyTorch's global generator, at each call.
    On a CPU the noise comes from C++ that the system's compiler translates at the first draw, once a user, in about
    three seconds. Without one, or with BNNLIB_NATIVE=0 set, PyTorch makes the same numbers, slower. On a GPU it comes
    from Triton, the same numbers again; without Triton from PyTorch's generator at the key, which has others.

    As a context manager it gives back at its end the keys from before; the backward pass belongs inside.

    Args:
        model: any module; layers without noise are left alone.
        seed: with `step` it names the draw; None takes one from PyTorch's global generator.
        step: of the run. A tensor (int64, one number) on a GPU stays there, with kernels of Triton: a step that is
            recorded as a CUDA graph has new noise in every replay if it also counts the tensor up.
        rank: of the process, where each of several shall have draws of its own.

    Example:
        >>> layer, x = GaussianLinear(3, 2, initial_scale=0.1), torch.ones(1, 3)
        >>> with redraw(layer, seed=0, step=7):
        ...     first, again = layer(x), layer(x)
        >>> torch.equal(first, again), torch.equal(first, layer(x))
        (True, False)
    """

    def __init__(self, model: nn.Module, seed: int | None = None, step: int | Tensor = 0, *, rank: int = 0) -> None:
        self._before = _keys(model)
        keys = _of_step(new_seed() if seed is None else seed, step, rank, len(self._before))
        for layer, key in zip(self._before, keys, strict=True):
            layer._noise_key = key if isinstance(key, Tensor) else torch.tensor(key, device="cpu")

    def __enter__(self) -> redraw:
        return self

    def __exit__(self, *_: object) -> None:
        _give_back(self._before)


def _keys(model: nn.Module) -> dict[Keyed, Tensor | None]:
    return {module: module._noise_key for module in model.modules() if isinstance(module, Keyed)}


def _of_step(seed: int, step: int | Tensor, rank: int, count: int) -> Sequence[Tensor | int]:
    """The key of each of `count` layers: tensors on a GPU if the step is one there, else numbers."""
    key = fold(0, seed)
    if isinstance(step, Tensor) and (there := of_layers(key, step, rank, count)) is not None:
        return there.unbind()
    key = fold(fold(key, int(step)), rank)
    return [signed(fold(key, number), 64) for number in range(count)]


def _give_back(keys: dict[Keyed, Tensor | None]) -> None:
    for layer, key in keys.items():
        layer._noise_key = key


@contextmanager
def keeping_keys(model: nn.Module) -> Iterator[None]:
    """Context that gives back at its end the keys from its start."""
    before = _keys(model)
    try:
        yield
    finally:
        _give_back(before)


class StepKeys:
    """The keys of `redraw(model, seed, step)` for one step after the other; between steps the layers have none.

    What looks at the model between two steps draws anew at each call, and so does a copy that is made there.
    """

    def __init__(self, model: nn.Module) -> None:
        # one tensor a layer that is filled: to make one, and to assign it as an attribute of a module, takes as long
        # as the rest of a small layer's draw
        self._keys = [(layer, torch.zeros((), dtype=torch.int64, device="cpu")) for layer in _keys(model)]

    def give(self, seed: int, step: int | Tensor) -> None:
        """Fix the noise of a step."""
        for (layer, own), key in zip(self._keys, _of_step(seed, step, 0, len(self._keys)), strict=True):
            layer.__dict__["_noise_key"] = key if isinstance(key, Tensor) else own.fill_(key)

    def take(self) -> None:
        """Let the layers draw anew at each call."""
        for layer, _ in self._keys:
            layer.__dict__["_noise_key"] = None

"""What a loss does with rows, by asking a copy of it about other numbers: no generator moves on, nothing is kept."""

import copy
import functools
import inspect
import math
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bnnlib._noise import use_generator

Loss = Callable[[Tensor, Tensor], Tensor]


def _copied(value: Any, memo: dict[int, Any], home: str | None = None) -> Any:
    """A deep copy, of a function too: with what its closure and defaults hold, and what it names in its own module."""
    # to compile again for more rows could change the run
    value = getattr(value, "_torchdynamo_orig_callable", getattr(value, "_orig_mod", value))
    if id(value) in memo or inspect.ismodule(value):
        return memo.get(id(value), value)
    if isinstance(value, functools.partial):
        given, keywords = copy.deepcopy((value.args, value.keywords), memo)
        return functools.partial(_copied(value.func, memo), *given, **keywords)
    if not inspect.isfunction(value) or home not in (None, value.__module__):
        return copy.deepcopy(value, memo)
    held, cells = dict(value.__globals__), tuple(types.CellType() for _ in value.__closure__ or ())
    made = memo[id(value)] = types.FunctionType(value.__code__, held, value.__name__, None, cells)
    named = [name for name in value.__code__.co_names if name in held]
    held |= {name: _copied(held[name], memo, value.__module__) for name in named}
    for cell, own in zip(cells, value.__closure__ or (), strict=True):
        cell.cell_contents = _copied(own.cell_contents, memo)
    made.__defaults__, made.__kwdefaults__ = copy.deepcopy((value.__defaults__, value.__kwdefaults__), memo)
    return made


@torch.no_grad()
def _asked(loss: Loss, outputs: Tensor, y: Tensor) -> float:
    fork = torch.random.fork_rng([y.device] if y.is_cuda else [])
    with fork, use_generator(None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(_copied(loss, {})(outputs.clone(), y.clone()))  # it may change what it is given


def _probe(shape: torch.Size, device: torch.device) -> Tensor:
    """Outputs between -1 and 1 of which no two rows or columns are alike."""
    return torch.arange(math.prod(shape), dtype=torch.float64, device=device).sin().view(shape)


def _widened(y: Tensor) -> Tensor:
    return y.double() if y.is_floating_point() else y


def pairs_all(loss: Loss, outputs: Tensor, y: Tensor) -> bool:
    """Whether a loss depends on targets, but for no outputs on which belong to which row."""
    try:
        up = _widened(y).sort(dim=0).values
        same_number = outputs.numel() == y.numel()
        if same_number:
            ramp = torch.linspace(-1, 1, len(y), dtype=torch.float64, device=y.device)
            ramp = ramp.view(-1, *[1] * (y.dim() - 1)).expand_as(up)
        else:
            ramp = _probe(outputs.shape, y.device)
        looks = False
        # The targets themselves are outputs which differ enough on any scale. A link squeezes or explodes them, but not
        # numbers around 0; what takes the logarithm needs positive ones, and the model's own ones fit any loss.
        for probe in (*[up] * same_number, ramp, 1.5 + 0.5 * ramp, outputs):
            probe = probe.double().reshape(outputs.shape)
            one, same = _asked(loss, probe, up), _asked(loss, probe, up[:1].expand_as(up))
            # whichever has more dimensions has the rows along its first alone
            turned = (probe.flip(0), up) if outputs.dim() > y.dim() else (probe, up.flip(0))
            if math.isfinite(one):
                if not math.isclose(one, _asked(loss, *turned), rel_tol=1e-9):
                    return False
                looks |= one != same
    except Exception:  # no copy, or no loss for such numbers: then nothing is known against it
        return False
    return looks


def adds_up(loss: Loss, outputs: Tensor, y: Tensor) -> bool:
    """Whether a loss is twice as large for all rows twice."""
    try:
        once, twice = _asked(loss, outputs, y), _asked(loss, torch.cat([outputs, outputs]), torch.cat([y, y]))
    except Exception:  # no copy, or no loss for so many rows
        return False
    return once != 0.0 and math.isfinite(once) and math.isclose(twice, 2.0 * once, rel_tol=1e-4)  # sums of float32

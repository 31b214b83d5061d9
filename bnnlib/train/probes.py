"""What a loss does with rows, by asking a copy of it about other numbers: no generator moves on, nothing is kept."""

import copy
import dis
import inspect
import math
import warnings
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor, Tensor], Tensor]
_PLAIN = (type(None), bool, int, float, str, Tensor, torch.dtype, torch.device)
_WRITES = {"STORE_DEREF", "STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "print", "next", "setattr", "open"}
_MOST = 1_000_000  # numbers of a module that is copied for a question


@torch.no_grad()
def _asked(loss: Loss, outputs: Tensor, y: Tensor) -> float:
    with torch.random.fork_rng([y.device] if y.is_cuda else []), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(loss(outputs.clone(), y.clone()))  # it may change what it is given


def _probe(shape: torch.Size, device: torch.device) -> Tensor:
    """Outputs between -1 and 1 of which no two rows or columns are alike."""
    return torch.arange(math.prod(shape), dtype=torch.float64, device=device).sin().view(shape)


def _widened(y: Tensor) -> Tensor:
    return y.double() if y.is_floating_point() else y


def pairs_all(loss: Loss, outputs: Tensor, y: Tensor) -> bool:
    """Whether a loss depends on targets, but for no outputs on which belong to which row.

    A copy of it is asked where `deepcopy` makes one, as it does of a module.
    """
    try:
        loss = copy.deepcopy(loss)
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
        loss = copy.deepcopy(loss)
        once, twice = _asked(loss, outputs, y), _asked(loss, torch.cat([outputs, outputs]), torch.cat([y, y]))
    except Exception:  # such as that of weights for so many rows
        return False
    return once != 0.0 and math.isfinite(once) and math.isclose(twice, 2.0 * once, rel_tol=1e-4)  # sums of float32


def spreads(loss: Loss, outputs: Tensor, y: Tensor) -> bool:
    """Whether a loss treats all outputs of a row alike, or all targets, where the others are a single one."""
    try:
        loss = copy.deepcopy(loss)
        probe, up = 1.5 + 0.5 * _probe(outputs.shape, y.device), _widened(y)
        across = [d for d in range(1, y.dim()) if outputs.shape[d] != y.shape[d]]
        one, other = _asked(loss, probe, up), _asked(loss, probe.flip(across), up.flip(across))
    except Exception:
        return False
    return math.isfinite(one) and math.isclose(one, other, rel_tol=1e-9)


def leaves_nothing(loss: Any, depth: int = 3) -> bool:
    """Whether a call of a loss changes nothing, as far as its text shows: what that does not show counts as a change.

    Buffers and counters of a module are copied with it; those of what a function names are not.
    """
    if isinstance(loss, nn.Module):
        return sum(one.nelement() for one in (*loss.parameters(), *loss.buffers())) <= _MOST
    if not isinstance(loss, FunctionType) or depth == 0:
        return False
    try:
        code, found = loss.__code__, inspect.getclosurevars(loss)
    except ValueError:  # a name that stands for nothing yet
        return False
    written = any(step.opname in _WRITES for step in dis.get_instructions(code)) or _WRITES & set(found.builtins)
    in_place = any(name.endswith("_") and not name.endswith("__") for name in code.co_names)
    if written or in_place or any(isinstance(constant, CodeType) for constant in code.co_consts):
        return False
    given = (*(loss.__defaults__ or ()), *(loss.__kwdefaults__ or {}).values())
    return all(_harmless(one, depth - 1) for one in (*found.nonlocals.values(), *found.globals.values(), *given))


def _harmless(value: Any, depth: int) -> bool:
    """Whether a name within a loss stands for a number, or for what is of PyTorch and keeps nothing."""
    if isinstance(value, ModuleType):
        return value.__name__.split(".")[0] in ("torch", "math")
    if isinstance(value, BuiltinFunctionType):
        return isinstance(value.__self__, ModuleType | type)
    home = (value if isinstance(value, FunctionType | type) else type(value)).__module__ or ""
    if home in ("torch.nn.functional", "torch.nn.modules.loss") or home.startswith("torch.distributions"):
        return True
    return isinstance(value, _PLAIN) or (not isinstance(value, nn.Module) and leaves_nothing(value, depth))

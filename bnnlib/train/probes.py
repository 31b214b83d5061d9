"""What a loss does with rows, by asking a copy of it about other numbers: no generator moves on, nothing is kept."""

import copy
import dis
import functools
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor, Tensor], Tensor]


@torch.no_grad()
def _asked(loss: Loss, outputs: Tensor, y: Tensor) -> float:
    with torch.random.fork_rng([y.device] if y.is_cuda else []), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(loss(outputs.clone(), y.clone()))  # it may change what it is given


def pairs_all(loss: Loss, outputs: Tensor, y: Tensor) -> bool:
    """Whether a loss, or the copy that `deepcopy` makes, depends on targets, but not on which belong to which row."""
    try:
        loss = copy.deepcopy(loss)
        up = (y.double() if y.is_floating_point() else y).sort(dim=0).values
        same_number = outputs.numel() == y.numel()
        if same_number:
            ramp = torch.linspace(-1, 1, len(y), dtype=torch.float64, device=y.device)
            ramp = ramp.view(-1, *[1] * (y.dim() - 1)).expand_as(up)
        else:  # no two rows or columns are alike
            ramp = torch.arange(outputs.numel(), dtype=torch.float64, device=y.device).sin().view(outputs.shape)
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


def _keeps_nothing(value: Any) -> bool:
    """Whether a function can be called, with all that it names, without a trace."""
    if isinstance(value, functools.partial):
        return all(map(_keeps_nothing, (value.func, *value.args, *value.keywords.values())))
    home = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
    if not inspect.isfunction(value) or home.startswith("torch"):
        torchs = home.startswith("torch") and not isinstance(value, nn.Module | torch.Generator)
        return torchs or isinstance(value, nn.modules.loss._Loss | int | float | str | Tensor | None)
    code, held = value.__code__, value.__globals__
    written = any(one.opname.startswith("STORE_") and "FAST" not in one.opname for one in dis.get_instructions(code))
    if written or any(inspect.iscode(one) for one in code.co_consts) or any(one.endswith("_") for one in code.co_names):
        return False
    named = [held[name] for name in code.co_names if held.get(name, value) is not value]
    named += [cell.cell_contents for cell in value.__closure__ or ()]
    named += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return all(map(_keeps_nothing, named))


def adds_up(loss: Loss, outputs: Tensor, y: Tensor) -> bool:
    """Whether a loss is twice as large for all rows twice: modules as copies, and functions that keep nothing."""
    try:
        if not isinstance(loss, nn.Module) and not _keeps_nothing(loss):
            return False
        loss = copy.deepcopy(loss)
        once, twice = _asked(loss, outputs, y), _asked(loss, torch.cat([outputs, outputs]), torch.cat([y, y]))
    except Exception:  # such as that of weights for so many rows, or of functions that call each other
        return False
    return once != 0.0 and math.isfinite(once) and math.isclose(twice, 2.0 * once, rel_tol=1e-4)  # sums of float32

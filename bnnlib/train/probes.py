"""What a loss does with rows, by asking a copy of it about other numbers: no generator moves on, nothing is kept."""

import copy
import inspect
import math
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor, Tensor], Tensor]


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
    """Whether a loss is twice as large for all rows twice.

    Modules are asked as copies, and functions that name nothing but PyTorch's modules; others may keep something.
    """
    if inspect.isfunction(loss):
        named = [loss.__globals__[name] for name in loss.__code__.co_names if name in loss.__globals__]
        ours = [value for value in named if not getattr(value, "__name__", "").startswith("torch")]
        if ours or loss.__closure__ or loss.__defaults__:
            return False
    elif not isinstance(loss, nn.Module):
        return False
    try:
        loss = copy.deepcopy(loss)
        once, twice = _asked(loss, outputs, y), _asked(loss, torch.cat([outputs, outputs]), torch.cat([y, y]))
    except Exception:  # such as that of weights for so many rows
        return False
    return once != 0.0 and math.isfinite(once) and math.isclose(twice, 2.0 * once, rel_tol=1e-4)  # sums of float32

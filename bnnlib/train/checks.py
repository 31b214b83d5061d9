"""What both loops ask of what they are given: of the optimizer, the loss, the callbacks and the numbers of a batch."""

import copy
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._callbacks import Callback


def check_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer that would train nothing of the model."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "LBFGS computes the loss several times a step, on one batch, and the loop does so once. Use another "
            "optimizer, such as torch.optim.Adam."
        )
    ids = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    held = [parameter for parameter in model.parameters() if id(parameter) in ids]
    if not held:
        raise ValueError(
            "the optimizer holds no parameter of the model, so that nothing would be trained. to_bayesian and "
            "insert_unit_noise return copies: make the optimizer from the parameters of the model that is trained."
        )
    if not any(parameter.requires_grad for parameter in held):
        raise ValueError(
            "every parameter of the model that the optimizer holds is frozen, so that nothing would be trained. Call "
            "requires_grad_() on those that are."
        )


def check_callbacks(model: nn.Module, callbacks: Any) -> tuple[Callback, ...]:
    """The callbacks as a tuple."""
    found = tuple(callbacks) if isinstance(callbacks, Iterable) else (None,)
    if not all(hasattr(part, "on_step") and not isinstance(part, type) for part in found):
        raise ValueError(
            f"callbacks is {callbacks!r}, but it must be a list of objects such as bnnlib.train.Callback: give "
            "[callback], made beforehand; of a function make a Callback whose on_step or on_epoch calls it."
        )
    for part in found:
        if not isinstance(part, Callback):  # pruners and priors; what others keep as weights may be copies on purpose
            check_owner(model, part)
    return found


def check_owner(model: nn.Module, part: Any) -> None:
    """Refuse a pruner or a prior of another model."""
    weights = getattr(part, "weights", None)
    held = {id(one) for one in weights.values() if isinstance(one, nn.Parameter)} if isinstance(weights, dict) else None
    if held and held.isdisjoint(map(id, model.parameters())):
        raise ValueError(
            f"the {type(part).__name__} holds no parameter of the model, so that it would change nothing here. "
            "to_bayesian and deepcopy return copies: make it from the model that is trained."
        )


def _unwrapped(loss: Any) -> tuple[Any, dict[str, Any]]:
    """What is within partials, and the keywords that they give."""
    keywords: dict[str, Any] = {}
    while isinstance(loss, functools.partial):
        loss, keywords = loss.func, loss.keywords | keywords
    return loss, keywords


def kind_of(loss: Any) -> Any:
    """The function that a loss is, or the class of the module, within partials."""
    inner, _ = _unwrapped(loss)
    return type(inner) if isinstance(inner, nn.Module) else inner


def check_mean(loss: Any) -> None:
    """Refuse a loss that says of itself that it is a sum over the batch."""
    inner, keywords = _unwrapped(loss)
    # what others call so may say how they divide themselves
    own = inner.reduction if type(inner).__module__.startswith("torch.nn") and hasattr(inner, "reduction") else None
    if keywords.get("reduction", own) == "sum":
        raise ValueError(
            "the loss has reduction='sum', but it must be the mean over the rows of the batch, which is weighed "
            "against the prior by their number. Use reduction='mean'; for a sum over the outputs divide by len(y)."
        )


def check_pairing(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor) -> None:
    """Refuse a loss that compares the outputs of all rows with the targets of all rows, or those of a single class."""
    if kind_of(loss) in (F.cross_entropy, nn.CrossEntropyLoss) and outputs.shape[1:2] == (1,):
        raise ValueError(
            "the model has one output, and the cross-entropy over a single class is 0 whatever it says. Give "
            "loss=torch.nn.functional.mse_loss or another loss for numbers, or a model with one output a class."
        )
    more = outputs.shape == (*y.shape, 1)
    if (more or y.shape == (*outputs.shape, 1)) and len(y) > 1 and _pairs_all(loss, outputs.detach(), y):
        raise ValueError(
            f"the outputs have shape {tuple(outputs.shape)} and the targets {tuple(y.shape)}, which broadcast against "
            "each other: the loss does not look at which target belongs to which row. Give the targets as "
            f"{'y[..., None]' if more else 'y.squeeze(-1)'} or, if the loss squeezes the outputs itself, leave that "
            "out."
        )


@torch.no_grad()
def _pairs_all(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor) -> bool:
    """Whether a loss depends on targets, but for no outputs on their order.

    A copy of it is asked where `deepcopy` makes one, as it does of a module; no generator of PyTorch moves on.
    """

    def of(outputs: Tensor, targets: Tensor) -> float:
        with torch.random.fork_rng([y.device] if y.is_cuda else []), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(loss(outputs, targets))

    try:
        loss = copy.deepcopy(loss)
        up = (y.double() if y.is_floating_point() else y).sort(dim=0).values
        ramp = torch.linspace(-1, 1, len(y), dtype=torch.float64, device=y.device)
        ramp = ramp.view(-1, *[1] * (y.dim() - 1)).expand_as(up)
        looks = False
        # The targets themselves are outputs which differ enough on any scale. A link squeezes or explodes them, but not
        # numbers around 0; what takes the logarithm needs positive ones, and the model's own ones fit any loss.
        for probe in (up, ramp, 1.5 + 0.5 * ramp, outputs):
            probe = probe.double().reshape(outputs.shape)
            one, other, same = of(probe, up), of(probe, up.flip(0)), of(probe, up[:1].expand_as(up))
            if math.isfinite(one):
                if not math.isclose(one, other, rel_tol=1e-9):
                    return False
                looks |= one != same
    except Exception:  # no copy, or no loss for such numbers: then nothing is known against it
        return False
    return looks


@contextmanager
def naming_dtypes(x: Tensor, y: Tensor) -> Iterator[None]:
    """Context of a step, whose complaint of float64, or of labels out of range, says where that comes from."""
    try:
        yield
    except IndexError as error:
        if str(error).startswith("Target ") and "out of bounds" in str(error) and not y.is_floating_point():
            raise IndexError(
                f"{error} Labels run from {int(y.min())} to {int(y.max())}, but they must be from 0 to below the "
                "number of the model's outputs. Give the model one output a class, or the labels as 0, 1, 2 and so on."
            ) from error
        raise
    except RuntimeError as error:
        wide = [name for name, given in (("x", x), ("y", y)) if given.dtype == torch.float64]
        if wide and "double" in str(error).lower():
            advice = (
                "Class labels are integers: give y.long()."
                if "y" in wide and "Long" in str(error)
                else "Python's floats and NumPy's arrays become float64: give "
                f"{' and '.join(f'{name}.float()' for name in wide)}, or model.double()."
            )
            raise ValueError(
                f"the torch.float64 of {' and '.join(wide)} does not go with the model and the loss ({error}). {advice}"
            ) from error
        raise

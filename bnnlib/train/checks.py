"""What both loops ask of what they are given: of the optimizer, the loss, the callbacks and the numbers of a batch."""

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._callbacks import Callback
from bnnlib.nn.base import StochasticLayer
from bnnlib.optim.ivon import IVON
from bnnlib.train.probes import adds_up, pairs_all


def check_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer that would train nothing of the model."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("LBFGS computes the loss several times a step: use another optimizer, such as Adam.")
    ids = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    held = [parameter for parameter in model.parameters() if id(parameter) in ids]
    if not held:
        raise ValueError(
            "the optimizer holds no parameter of the model, so that nothing would be trained. to_bayesian and "
            "insert_unit_noise return copies: make the optimizer from the parameters of the model that is trained."
        )
    if not any(parameter.requires_grad for parameter in held):
        raise ValueError(
            "every parameter of the model that the optimizer holds is frozen. Call requires_grad_() on what is trained."
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
    """What is within partials and compiled modules, and the keywords that the former give."""
    keywords: dict[str, Any] = {}
    while isinstance(loss, functools.partial):
        loss, keywords = loss.func, loss.keywords | keywords
    return getattr(loss, "_orig_mod", loss), keywords


def kind_of(loss: Any) -> Any:
    """The function that a loss is, or the class of the module, within partials."""
    inner, _ = _unwrapped(loss)
    if not isinstance(inner, nn.Module):
        return inner
    return next(kind for kind in type(inner).__mro__ if "forward" in vars(kind))  # a subclass may add nothing to it


_CLASS_LOSSES = (F.cross_entropy, nn.CrossEntropyLoss, F.nll_loss, nn.NLLLoss)


def label_weights(loss: Any) -> Callable[[Tensor], float]:
    """By what a loss divides for a batch's targets: the weights of the labels that count, or else the rows."""
    if kind_of(loss) not in _CLASS_LOSSES:
        return len
    inner, keywords = _unwrapped(loss)
    ignored = keywords.get("ignore_index", getattr(inner, "ignore_index", -100))
    weight = keywords.get("weight", getattr(inner, "weight", None))

    def size(y: Tensor) -> float:
        if y.is_floating_point():  # probabilities, which PyTorch averages over the rows whatever the weights
            return len(y)
        counted = y.long()[y.long() != ignored]  # bytes would wrap, and choose as a mask
        return len(counted) if weight is None else float(weight.to(y.device, torch.float64)[counted].sum())

    return size


def of_no_label(loss: Any, y: Tensor) -> str:
    """A sentence on a loss that is NaN, where it is the mean over no label."""
    if label_weights(loss)(y):
        return ""
    return " No label of this batch counts: each is the loss's ignore_index or of weight 0. Leave such rows out."


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


def check_pairing(loss: Callable[[Any, Tensor], Tensor], outputs: Any, y: Tensor) -> None:
    """Refuse a loss that compares the outputs of all rows with the targets of all rows, or those of a single class.

    Outputs that are no tensor are the loss's own affair.
    """
    if not isinstance(outputs, Tensor):
        return
    if kind_of(loss) in (F.cross_entropy, nn.CrossEntropyLoss) and outputs.shape[1:2] == (1,):
        raise ValueError(
            "the model has one output, and the cross-entropy over a single class is 0 whatever it says. Give "
            "loss=torch.nn.functional.mse_loss or another loss for numbers, or a model with one output a class."
        )
    fits = all(a == b or 1 in (a, b) for a, b in zip(outputs.shape[::-1], y.shape[::-1], strict=False))
    if outputs.dim() in (0, y.dim()) or len(outputs) != len(y) or len(y) < 2 or not fits:
        return  # with as many dimensions row stands by row
    if pairs_all(loss, outputs.detach(), y):
        advice = "targets of the outputs' shape, or a model with one output for each target"
        if (more := outputs.shape == (*y.shape, 1)) or y.shape == (*outputs.shape, 1):
            given = "y[..., None]" if more else "y.squeeze(-1)"
            advice = f"the targets as {given} or, if the loss squeezes the outputs itself, leave that out"
        raise ValueError(
            f"the outputs have shape {tuple(outputs.shape)} and the targets {tuple(y.shape)}, which broadcast against "
            f"each other: the loss does not look at which target belongs to which row. Give {advice}."
        )


def warn_of_sums(loss: Callable[[Any, Tensor], Tensor], outputs: Any, y: Tensor, stacklevel: int) -> None:
    """Warn where a loss of one's own grows with the rows; it may be divided by a number that is known beforehand."""
    own = not (getattr(kind_of(loss), "__module__", None) or "").startswith("torch.nn")  # those say what they do
    # a stack has its networks first, and not its rows
    rows = isinstance(outputs, Tensor) and outputs.shape[:1] == y.shape[:1]
    if own and rows and adds_up(loss, outputs.detach(), y):
        warnings.warn(
            "the loss is twice as large for a batch that holds each row twice: it seems to be a sum over the rows, but "
            "must be their mean. Divide it by len(y), and not by a number that a smaller last batch does not have.",
            stacklevel=stacklevel,
        )


def check_no_posterior(model: nn.Module, sampler: torch.optim.Optimizer) -> None:
    """Refuse an optimizer that draws the parameters of layers which have a variational posterior already."""
    moved = {id(p) for group in sampler.param_groups for p in group["params"] if p.requires_grad}
    for name, layer in model.named_modules():
        # random statistics have no posterior: scale and shift of a batch norm are weights as others
        if isinstance(layer, StochasticLayer) and not isinstance(layer, nn.modules.batchnorm._BatchNorm):
            if not moved.isdisjoint(map(id, layer.parameters())):
                raise ValueError(
                    f"{name or 'the model'} is a {type(layer).__name__}, which has a variational posterior already: "
                    f"{type(sampler).__name__} would draw its parameters, for which its KL term is not meant. Give it "
                    "bnnlib.pruning.to_deterministic(model), or train by fit with torch.optim.Adam or its like."
                )


def check_observations(number: int, *parts: Any) -> None:
    """Warn where an optimizer or a prior was made for another number of observations than that of the run."""
    for part in parts:
        given = getattr(part, "num_data", None)
        if given is None or given == number or (isinstance(part, IVON) and given < number):  # a warm posterior
            continue
        warnings.warn(
            f"{type(part).__name__} has num_data={given}, but this run has {number} observations, so that the prior "
            "has another weight than it should. Give both the same; where rows are augmented on purpose, give it to "
            "the run as num_data too.",
            stacklevel=3,
        )


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

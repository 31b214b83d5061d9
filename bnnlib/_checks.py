"""Argument checks whose messages say what was given, what is allowed and what to do, and the error of a divergence."""

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import Tensor

Number = TypeVar("Number", bound=float | Tensor)


class DivergedError(ArithmeticError):
    """Training, or a chain, left the finite numbers.

    Attributes:
        where: "epoch 3, step 17" or "step 1700"; empty where no single place is meant.
        value: what was found there, NaN or infinite.

    Example:
        >>> try:
        ...     raise DivergedError("the loss is nan", where="loss")
        ... except DivergedError as error:
        ...     print(error.where)
        loss
    """

    def __init__(self, message: str, where: str = "", value: float = math.nan) -> None:
        super().__init__(message)
        self.where, self.value = where, value


def _holds(value: float | Tensor, test) -> bool:
    if isinstance(value, Tensor):
        return bool(test(value).all())
    return not isinstance(value, str) and bool(test(float(value)))


def _finite(value: float | Tensor) -> bool | Tensor:
    return torch.isfinite(value) if isinstance(value, Tensor) else math.isfinite(value)


def _shown(value: float | Tensor) -> str:
    if isinstance(value, Tensor) and value.numel() > 1:
        return f"a tensor with values from {value.min().item():g} to {value.max().item():g}"
    return repr(value) if isinstance(value, str) else f"{float(value):g}"


def check_probability(name: str, value: Number, *, open_interval: bool = False) -> Number:
    """Return `value` if it is a probability; refuse it by its `name`, and with `open_interval` 0 and 1 too."""
    if open_interval:
        ok, allowed = _holds(value, lambda v: (v > 0) & (v < 1)), "strictly between 0 and 1"
    else:
        ok, allowed = _holds(value, lambda v: (v >= 0) & (v <= 1)), "between 0 and 1"
    if not ok:
        hint = "If you have log-odds, pass torch.sigmoid(logit); if you have percents, divide by 100."
        if open_interval and _holds(value, lambda v: v <= 1):
            hint = "Very small probabilities need a Python float or a float64 tensor: 1e-200 is 0 in float32."
        raise ValueError(f"{name} is {_shown(value)}, but it must lie {allowed}. {hint}")
    return value


def check_positive(name: str, value: Number, *, hint: str = "") -> Number:
    """Return `value` if every entry is finite and above zero; `hint` ends the message."""
    if not _holds(value, lambda v: (v > 0) & _finite(v)):
        raise ValueError(f"{name} is {_shown(value)}, but it must be finite and above 0. {hint}".rstrip())
    return value


def check_scale(name: str, value: Number) -> Number:
    """`check_positive` for a scale."""
    hint = "Scales are standard deviations, not variances or logarithms: apply softplus or exp first."
    return check_positive(name, value, hint=hint)


def check_non_negative(name: str, value: Number) -> Number:
    """Return `value` if every entry is finite and not negative."""
    if not _holds(value, lambda v: (v >= 0) & _finite(v)):
        raise ValueError(f"{name} is {_shown(value)}, but it must be finite and not negative. Pass 0 to switch it off.")
    return value


def check_count(name: str, value: int, minimum: int = 1) -> int:
    """Return `value` if it is an integer of at least `minimum`."""
    try:
        good = not isinstance(value, bool) and int(value) == value and value >= minimum
    except (TypeError, ValueError, OverflowError, RuntimeError):  # no number, NaN, infinite, a tensor of several
        good = False
    if not good:
        raise ValueError(f"{name} is {value!r}, but it must be an integer of at least {minimum}.")
    return int(value)


def check_choice(name: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}, but it must be one of {', '.join(map(repr, allowed))}.")
    return value


def matching(argument: str, patterns: str | Iterable[str], names: Iterable[str]) -> list[str]:
    """The names that fit one of the patterns, each of which must fit some; `argument` is where they were given."""
    names, patterns = list(names), [patterns] if isinstance(patterns, str) else list(patterns)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"{argument} has {pattern!r}, which no parameter fits. There are {', '.join(names)}.")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def check_generator(name: str, value: torch.Generator | None) -> None:
    """Refuse what is neither a generator nor None."""
    if not isinstance(value, torch.Generator | None):
        raise ValueError(
            f"{name} is {value!r}, but it must be a torch.Generator or None. Of a seed make one: "
            "torch.Generator().manual_seed(seed), on the model's device."
        )


def check_covariance(value: Tensor, name: str = "covariance") -> Tensor:
    """Return `value` (dim, dim) if it is a symmetric and positive definite matrix."""
    if value.dim() != 2 or value.shape[0] != value.shape[1]:
        raise ValueError(f"{name} has shape {tuple(value.shape)}, but it must be (dim, dim).")
    scale = value.diagonal().abs().sqrt()
    rounding = 1e3 * torch.finfo(value.dtype).eps * scale[:, None] * scale
    # torch.linalg.cholesky reads the lower triangle alone
    if not ((value - value.T).abs() <= rounding).all() or torch.linalg.cholesky_ex(value).info.item():
        raise ValueError(
            f"{name} is not a symmetric, positive definite matrix. Take 0.5 * (value + value.T), and add a small "
            "number to the diagonal if it is singular."
        )
    return value

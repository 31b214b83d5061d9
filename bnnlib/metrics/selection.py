"""Measures of selection: which inputs were found. Every share is in percent."""

import torch
from torch import Tensor

from bnnlib.metrics._arguments import Dims, check_same_shape, of_arrays


def _rate(wrong: Tensor, group: Tensor, dim: Dims, none: str = "") -> Tensor:
    among, whole = (mask.sum(dim=dim) for mask in torch.broadcast_tensors(wrong & group, group))
    if none and not whole.all():
        raise ValueError(f"{none} Pass the teacher's inputs.")
    return 100.0 * among.double() / whole.clamp_min(1)


def _check_selection(selected: Tensor, relevant: Tensor, dim: Dims) -> None:
    if dim is None:
        check_same_shape("selected", selected, "relevant", relevant)
    for name, value in (("selected", selected), ("relevant", relevant)):
        if value.dtype != torch.bool:
            raise ValueError(
                f"{name} has type {value.dtype}, but it must be a Boolean mask over the inputs: (phi > 0.5).any(dim=0)."
            )


@of_arrays
def false_positive_rate(selected: Tensor, relevant: Tensor, dim: Dims = None) -> Tensor:
    """Share of the irrelevant inputs that were selected, in percent.

    Args:
        selected, relevant: Boolean masks of one shape; with `dim` they may broadcast.
        dim: one or several dimensions to take the share over, 1 for each network of masks (networks, inputs); None
            for all.

    Returns:
        Tensor of the dimensions that are left, float64.

    Raises:
        ValueError: shapes or types do not fit, or every input is relevant, so that the rate does not exist.

    Example:
        >>> false_positive_rate(torch.tensor([True, False, True]), torch.tensor([True, True, False])).item()
        100.0
    """
    _check_selection(selected, relevant, dim)
    return _rate(selected, ~relevant, dim, "every input is relevant, so there is no false positive to count.")


@of_arrays
def false_negative_rate(selected: Tensor, relevant: Tensor, dim: Dims = None) -> Tensor:
    """Share of the relevant inputs that were not selected, in percent; otherwise as `false_positive_rate`.

    Raises:
        ValueError: shapes or types do not fit, or no input is relevant, so that the rate does not exist.

    Example:
        >>> false_negative_rate(torch.tensor([True, False, True]), torch.tensor([True, True, False])).item()
        50.0
    """
    _check_selection(selected, relevant, dim)
    return _rate(~selected, relevant, dim, "no input is relevant, so there is no false negative to count.")


@of_arrays
def false_discovery_rate(selected: Tensor, relevant: Tensor, dim: Dims = None) -> Tensor:
    """Share of the selected inputs that are irrelevant, in percent, 0 where nothing is selected.

    Arguments, result and errors as for `false_positive_rate`, but for a rate that does not exist.

    Example:
        >>> false_discovery_rate(torch.tensor([True, False, True]), torch.tensor([True, True, False])).item()
        50.0
    """
    _check_selection(selected, relevant, dim)
    return _rate(~relevant, selected, dim)

"""Inputs that are in or out together: the dummies of one column, or what a user groups."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_UNNAMED = 3  # columns at least that make a category where no name says so: two are each other's mirror image


def group_numbers(groups: Any, x: np.ndarray, names: np.ndarray | None) -> np.ndarray:
    """The number of each input's group, (p,), from 0 in order of appearance; an input without others has its own.

    `groups` is as for `SparseRegressor`, x are inputs (n, p) in their own units.
    """
    inputs = x.shape[1]
    if groups is None:
        return np.arange(inputs)
    if isinstance(groups, str) or not np.iterable(groups):
        if groups != "auto":
            raise ValueError(f"groups is {groups!r}, but it must be 'auto', None, or a label for each input.")
        labels: Sequence[Any] = _dummies(x, names)
    else:
        labels = list(groups)
        if len(labels) != inputs:
            raise ValueError(
                f"groups has {len(labels)} labels, but X has {inputs} columns. Give one label a column, the same for "
                "columns that are in or out together, and None for a column of its own."
            )
    numbers: dict[Any, int] = {}
    return np.array(
        [
            numbers.setdefault(("own", j) if label is None else ("group", label), len(numbers))
            for j, label in enumerate(labels)
        ]
    )


def _dummies(x: np.ndarray, names: np.ndarray | None) -> list[Any]:
    """A label for the 0-1 columns of one category: of one prefix in their names, or together 1 in every row."""
    binary = ((x == 0) | (x == 1)).all(axis=0) & (x.max(axis=0) > x.min(axis=0))
    labels: list[Any] = [None] * x.shape[1]
    if names is not None:
        prefixes: dict[str, list[int]] = {}
        for j in np.flatnonzero(binary):
            prefix, mark, _ = str(names[j]).rpartition("_")
            if mark and prefix:
                prefixes.setdefault(prefix, []).append(int(j))
        for prefix, some in prefixes.items():
            if len(some) > 1 and (x[:, some].sum(axis=1) <= 1).all():
                labels = [prefix if j in some else label for j, label in enumerate(labels)]
        return labels
    start = 0
    while start < x.shape[1]:
        total, stop = np.zeros(len(x)), start
        while stop < x.shape[1] and binary[stop] and (total + x[:, stop] <= 1).all():
            total, stop = total + x[:, stop], stop + 1
        if stop - start >= _UNNAMED and (total == 1).all():
            labels[start:stop] = [start] * (stop - start)
            start = stop
        else:
            start += 1
    return labels


def members(groups: np.ndarray) -> list[np.ndarray]:
    """The columns of each group, in order of the groups' numbers."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)

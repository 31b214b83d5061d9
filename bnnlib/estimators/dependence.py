"""Partial dependence, one curve a posterior draw: what `plot_dependence` draws."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bnnlib._checks import check_count
from bnnlib.estimators.base import SparseEstimator
from bnnlib.estimators.rows import quantile_levels

_MOST = 6  # selected inputs that are drawn unasked
_FEW = 10  # different values up to which a number gets points
_ENDS = (0.05, 0.95)  # quantiles between which a line goes, as scikit-learn has it


class Dependence(NamedTuple):
    """Curves of one input."""

    name: str
    values: np.ndarray  # of the input (V,)
    points: bool  # rather than a line
    draws: np.ndarray  # (S, V)
    mean: np.ndarray  # (V,)
    bounds: np.ndarray  # (2, V)
    deciles: np.ndarray | None  # of a number (9,)
    target: Any  # the label, None for numbers


def check_model(model: Any, caller: str, pipeline: bool = False) -> Any:
    """The model if it is an estimator of this package, or a pipeline that ends in one where that is allowed."""
    inner = model[-1] if pipeline and isinstance(model, Pipeline) else model
    if not isinstance(inner, SparseEstimator):
        raise TypeError(
            f"{caller} needs a SparseRegressor or SparseClassifier{', or a Pipeline that ends in one' * pipeline}, "
            f"not a {type(inner).__name__}. Give the one inside: model.regressor_ of a TransformedTargetRegressor, "
            "model[-1] of a Pipeline, best_estimator_ of a search."
        )
    return model


def class_number(classes: np.ndarray, target: Any) -> int:
    """The number of a label, by default of the second of two."""
    labels = classes.tolist()
    if target is None and len(labels) == 2:
        return 1
    if target not in labels:
        raise ValueError(f"target is {target!r}, but it must be one of the labels {labels}.")
    return labels.index(target)


def drawn_features(model: Any, X: Any, features: Any) -> tuple[list[Any], int]:
    """Numbers of the columns that are drawn, and how many of those selected are not."""
    columns = list(X.columns) if hasattr(X, "columns") else None
    width = np.shape(X)[1]
    if features is None:
        if isinstance(model, Pipeline):
            raise ValueError("features is None, but of a Pipeline they must be named: columns of X.")
        chosen = np.flatnonzero(model.support_)
        if not len(chosen):
            raise ValueError("no input is selected. Name those to draw: features=[...].")
        chosen = chosen[np.argsort(-model.feature_importances_[chosen], kind="stable")]
        return chosen[:_MOST].tolist(), max(0, len(chosen) - _MOST)
    requested = [features] if isinstance(features, str | int | np.integer) else list(features)
    if not requested:
        raise ValueError("features is empty. Name columns of X, or leave it out for those selected.")
    return [_column(feature, columns, width) for feature in requested], 0


def _column(feature: Any, columns: list[Any] | None, width: int) -> int:
    if columns is not None and feature in columns:
        return columns.index(feature)
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and -width <= feature < width:
        return int(feature) % width
    names = f"0 to {width - 1}" if columns is None else ", ".join(map(repr, columns[:20])) + ", ..." * (width > 20)
    raise ValueError(f"features has {feature!r}, but the columns of X are {names}. Pairs of inputs are not drawn.")


def dependence(
    model: Any,
    X: Any,
    column: int,
    categorical_features: Sequence[Any],
    *,
    target: Any,
    level: float,
    rows: int,
    grid_resolution: int,
) -> Dependence:
    """The curves of one column; see `plot_dependence`."""
    check_count("rows", rows)
    check_count("grid_resolution", grid_resolution, minimum=2)
    low, high = quantile_levels(level)
    framed = hasattr(X, "iloc")
    inner = model[-1] if isinstance(model, Pipeline) else model
    check_is_fitted(inner, "network_")
    columns = list(X.columns) if framed else None
    coded = {_column(feature, columns, np.shape(X)[1]) for feature in categorical_features}
    whole = X.iloc[:, column].to_numpy() if framed else np.asarray(X)[:, column]
    known = whole[[value == value and value is not None for value in whole]]  # the others are missing
    names = columns if columns is not None else getattr(inner, "feature_names_in_", None)
    name = str(names[column]) if names is not None and len(names) == np.shape(X)[1] else f"input {column}"
    if not len(known):
        raise ValueError(f"features has {name!r}, of which every value is missing. Leave it out, or fill it in.")
    objects, deciles = known.dtype.kind == "O", None
    values = np.array(sorted(set(known.tolist()), key=str), dtype=object) if objects else np.unique(known)
    points = column in coded or known.dtype.kind not in "iuf" or len(values) <= _FEW
    if not points:
        deciles = np.quantile(known, np.arange(1, 10) / 10.0)
        values = np.linspace(np.quantile(known, _ENDS[0]), np.quantile(known, _ENDS[1]), grid_resolution)
    some = np.linspace(0, len(whole) - 1, min(rows, len(whole))).round().astype(int)
    label = class_number(inner.classes_, target) if hasattr(inner, "classes_") else None
    # in one call: the posterior draws the same functions for all values
    inside = _with(X, column, some, values, points)
    inside = model[:-1].transform(inside) if isinstance(model, Pipeline) and len(model) > 1 else inside
    drawn = inner.sample_posterior(inside, inner._count("n_draws"))
    if drawn.ndim == 3:
        label = class_number(np.arange(drawn.shape[2]), target) if label is None else label
        drawn = drawn[:, :, label]
    every = drawn.reshape(len(drawn), len(values), len(some)).mean(axis=2)
    bounds = np.quantile(every, (low, high), axis=0)
    shown = inner.classes_[label].item() if hasattr(inner, "classes_") else None
    return Dependence(name, values, points, every, every.mean(axis=0), bounds, deciles, shown)


def _with(X: Any, column: int, rows: np.ndarray, values: np.ndarray, kept: bool) -> Any:
    """Some rows of X for one value of a column after another: in its own dtype, or as floats where a line is drawn."""
    every, filled = np.tile(rows, len(values)), np.repeat(values, len(rows))
    if not hasattr(X, "iloc"):
        whole = np.asarray(X)[every]
        whole = whole if kept or whole.dtype.kind == "O" else whole.astype(float)
        whole[:, column] = filled
        return whole
    whole = X.iloc[every].reset_index(drop=True)
    own = whole.iloc[:, column]
    whole.isetitem(column, type(own)(filled, dtype=own.dtype if kept else float))
    return whole

"""Promised and found shares of rows: what `plot_calibration` draws."""

from typing import Any

import numpy as np

from bnnlib.estimators.dependence import class_number
from bnnlib.estimators.drawing import shortened
from bnnlib.estimators.intervals import predict_interval

_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_APART = 0.04  # mean probabilities of two bins, or they are one: their points would hide each other
_LEAST = 5  # rows of a bin, where there are as many


def reliability(model: Any, X: Any, y: np.ndarray, target: Any, bins: int) -> tuple[Any, Any, Any, tuple[str, str]]:
    """Mean probability, hits and rows of every bin that is not empty; labels of the axes."""
    classes, probabilities = model.classes_, model.predict_proba(X)
    if strange := sorted(set(y.tolist()) - set(classes.tolist())):
        raise ValueError(f"y has the label {strange[0]!r}, but the classes are {classes.tolist()}.")
    if target is None and len(classes) > 2:
        p, hit = probabilities.max(axis=1), classes[probabilities.argmax(axis=1)] == y
        labels = "probability of the likeliest label", "share of rows where it is right (rows below)"
    else:
        number = class_number(classes, target)
        p, hit = probabilities[:, number], y == classes[number]
        name = shortened(repr(classes[number].item()))
        labels = f"probability of {name}", f"share of rows with {name} (rows below)"
    count = max(1, min(bins, len(p) // _LEAST))
    edges = np.quantile(p, np.linspace(0.0, 1.0, count + 1)[1:-1])
    pools: list[np.ndarray] = []  # of each bin: sum of probabilities, hits, rows
    for number in np.unique(where := np.searchsorted(edges, p, side="left")):
        new = np.array([p[where == number].sum(), hit[where == number].sum(), (where == number).sum()])
        if pools and new[0] / new[2] - pools[-1][0] / pools[-1][2] < _APART:
            pools[-1] = pools[-1] + new
        else:
            pools.append(new)
    promised, hits, rows = np.stack(pools, axis=1)
    return promised / rows, hits, rows.astype(int), labels


def coverage(model: Any, X: Any, y: np.ndarray) -> tuple[Any, Any, Any, tuple[str, str]]:
    """Levels, rows inside their intervals and all rows; labels of the axes."""
    inner, levels = getattr(model, "regressor_", model), np.asarray(_LEVELS)
    inner = getattr(inner, "_final_estimator", inner)
    scores = getattr(inner, "conformity_scores_", None)
    if scores is not None and getattr(inner, "interval", None) == "conformal":
        levels = levels[levels <= 1.0 - 1.0 / (len(scores) + 1)]  # that so many held-out rows can promise
    hits = []
    for level in levels:
        low, high = predict_interval(model, X, level=level).T
        hits.append(((low <= y) & (y <= high)).sum())
    return levels, np.asarray(hits), np.full(len(levels), len(y)), ("promised by the interval", "share of rows inside")

"""Promised and found shares of rows: how far a fit is to be trusted."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array

from bnnlib._checks import check_count
from bnnlib.estimators.dependence import class_number
from bnnlib.estimators.drawing import COLORS, ink, note, one_axes, shortened, unit_axis, wilson
from bnnlib.estimators.intervals import predict_interval
from bnnlib.estimators.rows import check_targets, quantile_levels

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


def plot_calibration(
    model: Any, X: Any, y: Any, *, target: Any = None, bins: int = 10, level: float = 0.95, ax: Any = None
) -> Any:
    """How far probabilities, or intervals, keep what they promise on rows that the fit has not seen.

    A classifier: rows are put into bins of equally many by their probability; each bin's share of rows with the label
    stands over its mean probability, with its number of rows; bins closer than 0.04 are joined.
    A regressor: the share of rows within the central interval over what it promises; intervals of all levels use the
    same rows, so that neighbouring points hang together. On the diagonal the promise is kept. The bars are Wilson's
    intervals, by the number of rows.

    Args:
        model: a fitted estimator; for intervals also a `Pipeline` or `TransformedTargetRegressor`, as for
            `predict_interval`, and for probabilities any classifier with `predict_proba`.
        X, y: rows that were not trained on.
        target: the label whose probability is meant; by default the second of two. Of more labels without `target`
            each row's likeliest one is taken, and whether it is right.
        bins: of probabilities; fewer where they would hold less than five rows.
        level: of the bars.
        ax: matplotlib axes; None for those of a new figure.

    Returns:
        The axes.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: `target` is none of the labels, a value of y is missing or infinite, X and y have different numbers
            of rows, or `level` is out of range.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 3))
        >>> y = X[:, 0] + 0.5 * rng.normal(size=200)
        >>> model = SparseRegressor(random_state=0, hidden=(4,), epochs=100).fit(X[:100], y[:100])
        >>> plot_calibration(model, X[100:], y[100:]).get_ylabel()
        'share of rows inside'
    """
    check_count("bins", bins)
    quantile_levels(level)
    y = check_array(check_targets(y, not is_classifier(model)), ensure_2d=False, dtype=None, input_name="y")
    if y.ndim > 1 and y.shape[1] > 1:
        raise ValueError(f"y has {y.shape[1]} outputs, but calibration is drawn of one. Fit and draw them one by one.")
    if np.shape(X)[0] != len(y):
        raise ValueError(f"X has {np.shape(X)[0]} rows and y has {len(y)}, but both need as many.")
    y = y.ravel()
    if is_classifier(model):
        promised, hits, counts, labels = reliability(model, X, y, target, bins)
    else:
        promised, hits, counts, labels = coverage(model, X, y)
    ax = one_axes(ax, (4.6, 4.4))
    share, bounds = hits / counts, wilson(hits, counts, level)
    ax.plot([0, 1], [0, 1], "--", marker="none", color=ink(), linewidth=1.0, label="as promised", zorder=0)
    error = np.abs(bounds.T - share)  # rounding may leave a bound a hair beyond the share
    words = f"found, with {100 * level:g} % interval"
    ax.errorbar(promised, share, error, color=COLORS[0], fmt="o-", linewidth=1.4, capsize=3, label=words)
    if is_classifier(model):
        for x, low, number in zip(promised, bounds[:, 0], counts, strict=True):
            ax.annotate(f"{number:,}", (x, low), (0, -3), textcoords="offset points", ha="center", va="top", size=8)
    else:
        note(ax, f"{counts[0]:,} rows")
    unit_axis(ax.xaxis, labels[0])
    unit_axis(ax.yaxis, labels[1])
    ax.set_aspect("equal")
    ax.legend(loc="upper left", frameon=False, fontsize="small")
    return ax

"""Pictures of a fit: who enters when, which inputs matter, how the answer depends on them."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bnnlib._checks import check_count
from bnnlib.estimators.classifier import SparseClassifier
from bnnlib.estimators.dependence import check_model, dependence, drawn_features
from bnnlib.estimators.drawing import (
    COLORS,
    GRAY,
    PLAIN,
    counted,
    ink,
    look,
    names_of,
    note,
    one_axes,
    several_axes,
    shortened,
    unit_axis,
)
from bnnlib.estimators.path import path
from bnnlib.estimators.regressor import SparseRegressor

_SHOWN_DRAWS = 12


def plot_path(
    X: Any, y: Any, estimator: Any = None, *, probabilities: Sequence[float] | None = None, top: int = 8, ax: Any = None
) -> Any:
    """Inclusion probability of each input along the prior's lambda: who enters when.

    A model is fitted for every lambda. The linear one is what a fit begins with: coordinate ascent, averaged over prior
    scales and starts by evidence (Carbonetto and Stephens, 2012, section 4); a dashed line marks the lambda of the
    largest evidence. Networks are trained as one stack from the same first weights, 3,000 steps each or `epochs`
    epochs, and show path probabilities.

    Args:
        X, y: the training data, as for `fit`.
        estimator: a `SparseRegressor` or `SparseClassifier`. Its `hidden`, and that of its fit where there was one,
            says which model is meant: "auto" is the linear one. None is `SparseRegressor()` for numbers, and
            `SparseClassifier()` for texts and Booleans.
        probabilities: the lambdas, each strictly between 0 and 1; by default from 1e-8 to a half, for networks
            to a tenth, without what comes before the first input enters.
        top: inputs that get a line of their own, in the order in which they enter; the others are gray.
        ax: matplotlib axes; None for those of a new figure.

    Returns:
        The axes.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: a lambda is out of range, the data are not what they must be, or `method` has no lambda.

    Warns:
        ConvergenceWarning: the networks still move; raise `epochs`.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 10))
        >>> ax = plot_path(X, X[:, 3] - X[:, 5] + rng.normal(size=100))
        >>> sorted(text.get_text() for text in ax.get_legend().get_texts()[:2])
        ['input 3', 'input 5']
    """
    check_count("top", top)
    if estimator is None:
        estimator = SparseClassifier() if np.asarray(y).dtype.kind in "OUSb" else SparseRegressor()
    drawn = path(check_model(estimator, "plot_path"), X, y, probabilities)
    lambdas, inclusion = drawn.probabilities, drawn.inclusion
    # by the first lambda with an even chance, then by the whole path
    enters = np.where((inclusion > 0.5).any(axis=0), (inclusion > 0.5).argmax(axis=0), len(lambdas))
    order = np.lexsort((-inclusion.sum(axis=0), enters))
    names = names_of(drawn.model, inclusion.shape[1])
    ax = one_axes(ax, (7.2, 4.0))
    for j in order[top:]:
        ax.plot(lambdas, inclusion[:, j], color=GRAY, linewidth=0.8, alpha=0.5, zorder=1, **PLAIN)
    for number, j in enumerate(order[:top]):
        every = (max(1, len(lambdas) // 6), len(lambdas) // 6)
        style = look(number) | {"markevery": (number % every[0], every[0]), "markersize": 5, "clip_on": False}
        ax.plot(lambdas, inclusion[:, j], label=names[j], zorder=2 + top - number, **style)
    if drawn.evidence is not None and len(lambdas) > 1:
        best = lambdas[drawn.evidence.argmax()]
        ax.axvline(best, color=ink(), linestyle=(0, (6, 3)), linewidth=1.0, zorder=0)
        ax.annotate("most evidence", (best, 1.02), xycoords=("data", "axes fraction"), ha="center", fontsize="small")
    ax.axhline(0.5, color=GRAY, linestyle=":", linewidth=1.0, zorder=0)
    ax.set(xscale="log", xlabel="prior inclusion probability λ")
    unit_axis(ax.yaxis, "inclusion probability")
    widths = ", ".join(map(str, drawn.hidden))
    note(ax, f"networks of {widths} hidden units" if drawn.hidden else "linear model")
    left = order[top:]
    title = "in the order of entry" + (f"; gray: {_others(left, inclusion.max(axis=0))}" if len(left) else "")
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize="small")
    ax.get_legend().set_title(textwrap.fill(title, 24), prop={"size": "small"})
    ax.get_legend().set_alignment("left")
    return ax


def plot_inclusion(model: Any, *, top: int = 20, ax: Any = None) -> Any:
    """Inclusion probability of each input, with its range over starts, and which ones are selected.

    A filled mark is a selected input, a hollow one is not. The bar goes from the smallest to the largest probability
    of a start, as `inclusion_range_` has them: a long one says that inputs stand in for each other.

    Args:
        model: a fitted estimator.
        top: inputs that are drawn, the selected and the likeliest ones; the picture says what is left out.
        ax: matplotlib axes; None for those of a new figure.

    Returns:
        The axes.

    Raises:
        ImportError: matplotlib is not installed.
        NotFittedError: before `fit`.
        ValueError: the method has no inclusion probabilities.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 10))
        >>> model = SparseRegressor(hidden=(4,), epochs=200, random_state=0).fit(X, 3 * X[:, 3])
        >>> ax = plot_inclusion(model, top=5)
        >>> ax.get_yticklabels()[0].get_text()
        'input 3'
    """
    check_count("top", top)
    check_is_fitted(check_model(model, "plot_inclusion"), "network_")
    if model.method == "gaussian":
        raise ValueError(
            "method='gaussian' keeps every weight, so that there are no inclusion probabilities. Fit with "
            "method='spike_slab', or draw model.feature_importances_."
        )
    mean, selected = model.path_inclusion_probability_, model.support_
    order = np.lexsort((-mean, ~selected))
    shown, left = order[:top], order[top:]
    place, names = np.arange(len(shown)), names_of(model, len(mean))
    ax = one_axes(ax, (6.4, 1.3 + 0.26 * max(len(shown), 4)))
    if (bounds := getattr(model, "inclusion_range_", None)) is not None:  # older files have none
        ax.hlines(place, bounds[0, shown], bounds[1, shown], color=GRAY, linewidth=3.0, alpha=0.6, label="over starts")
    for chosen, word in ((True, "selected"), (False, "not selected")):
        some = selected[shown] == chosen
        if some.any():
            face = COLORS[0] if chosen else ax.get_facecolor()
            words = f"{word} ({(selected == chosen).sum():,})"
            style = {"marker": "o" if chosen else "s", "markersize": 6.5, "linestyle": "none", "clip_on": False}
            ax.plot(mean[shown][some], place[some], label=words, color=COLORS[0], markerfacecolor=face, **style)
    if model.fdr is None:
        ax.axvline(0.5, color=ink(), linestyle="--", linewidth=1.0, zorder=0, label="selected from here on")
    else:
        words = f"selected at a false-discovery rate of {model.fdr:g}, by p-values"
        ax.plot([], [], linestyle="none", marker="none", label=words)
    ax.set_yticks(place, [names[j] for j in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    unit_axis(ax.xaxis, "probability of a path to the output")
    if len(left):
        note(ax, f"not shown: {_others(left, mean, selected)}")
    ax.legend(loc="best", fontsize="small")
    return ax


def plot_dependence(
    model: Any,
    X: Any,
    features: Any = None,
    *,
    target: Any = None,
    level: float = 0.95,
    rows: int = 200,
    grid_resolution: int = 30,
    categorical_features: Sequence[Any] = (),
    ax: Any = None,
) -> Any:
    """Partial dependence on inputs, one by one, as the posterior knows it: mean, band and single draws.

    For every value of the input the whole of `X` gets this value, and the predictions are averaged over its rows
    (Friedman, 2001). Each posterior draw is one function, so that each draws one curve; the band holds `level` of the
    curves at each value, and some of them are drawn thin. It is the average's uncertainty, without the noise of y.
    Numbers get a line between their 5 and 95 % quantiles, with ticks at the deciles; categories and inputs of few
    values get points with bars. Inputs that hang together are moved apart, beyond where the data are.

    Args:
        model: a fitted estimator, or a `Pipeline` that ends in one, whose own columns are then meant.
        X: rows to average over, as the model takes them; a DataFrame or an array.
        features: a name or number, or a list of them; None for those selected, at most six.
        target: the label whose probability is drawn, of a classifier, or the number of one of several outputs; by
            default the second of two. Probabilities are those of `sample_posterior`, before the temperature.
        level: share of the curves in the band.
        rows: of X that are averaged over, evenly spread, if there are more.
        grid_resolution: values of a number.
        categorical_features: names or numbers of inputs whose numbers are codes. Columns of text, of categories and of
            Booleans are known.
        ax: matplotlib axes, one for each feature; None for those of a new figure.

    Returns:
        The axes; an array (features,) of them where `features` is a list or None.

    Raises:
        ImportError: matplotlib is not installed.
        NotFittedError: before `fit`.
        ValueError: an input, a label or a number of axes does not fit; the message says which there are.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 3))
        >>> model = SparseRegressor(random_state=0, hidden=(4,), epochs=50).fit(X, X[:, 1] ** 2)
        >>> plot_dependence(model, X, 1).get_xlabel()
        'input 1'
    """
    check_model(model, "plot_dependence", pipeline=True)
    chosen, left = drawn_features(model, X, features)
    several = features is None or not isinstance(features, str | int | np.integer)
    settings = {"target": target, "level": level, "rows": rows, "grid_resolution": grid_resolution}
    curves = [dependence(model, X, feature, categorical_features, **settings) for feature in chosen]
    axes = several_axes(ax, len(curves))
    for curve, panel in zip(curves, axes, strict=True):
        low, high = curve.bounds
        if curve.points:
            place = np.arange(len(curve.values))
            reach = [curve.mean - low, high - curve.mean]
            panel.errorbar(place, curve.mean, reach, color=COLORS[0], fmt="o", capsize=4)
            texts = [shortened(str(value)) for value in curve.values]
            steep = sum(map(len, texts)) > 28
            panel.set_xticks(place, texts, rotation=45 if steep else 0, ha="right" if steep else "center")
            panel.set_xlim(-0.5, len(place) - 0.5)
        else:
            panel.fill_between(curve.values, low, high, color=COLORS[0], alpha=0.25, linewidth=0)
            some = np.linspace(0, len(curve.draws) - 1, min(_SHOWN_DRAWS, len(curve.draws))).round().astype(int)
            panel.plot(curve.values, curve.draws[some].T, color=COLORS[0], linewidth=0.8, alpha=0.6, **PLAIN)
            panel.plot(curve.values, curve.mean, color=ink(), linewidth=1.8, **PLAIN)
            feet = panel.get_xaxis_transform()
            panel.plot(curve.deciles, np.zeros(9), "|", color=ink(), markersize=8, transform=feet)
        panel.set_xlabel(shortened(curve.name))
    axes[0].set_ylabel(f"probability of {curves[0].target!r}" if curves[0].target is not None else "average of y")
    words = f"mean, {100 * level:g} % band, single draws"
    note(axes[0], f"{words}; {counted(left, 'more selected input')} not drawn" if left else words)
    return axes if several else axes[0]


def _others(left: np.ndarray, values: np.ndarray, selected: np.ndarray | None = None) -> str:
    """In words, the inputs that are not shown."""
    most = values[left].max()
    words = f"{counted(len(left), 'other input')}, {f'at most {most:.2f}' if most >= 0.005 else 'below 0.005'}"
    chosen = 0 if selected is None else int(selected[left].sum())
    return words + (f"; {chosen:,} of them selected" if chosen else "")

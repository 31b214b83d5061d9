"""What an estimator says when its answer cannot be relied on."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning as SklearnWarning

_MOVES = 0.5  # of a probability between two starts that is told


class ConvergenceWarning(SklearnWarning):
    """A fit ended before its probabilities settled; the message says what to raise. It is one of scikit-learn's too.

    Example:
        >>> import numpy as np, warnings
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", ConvergenceWarning)
        ...     try:
        ...         SparseRegressor(hidden=(4,), epochs=1).fit(X, X[:, 0])
        ...     except ConvergenceWarning as warning:
        ...         print("Raise epochs" in str(warning))
        True
    """


class SelectionWarning(UserWarning):
    """A fit whose selection, or whose noise, calls for a second look; the message says why and what to do.

    Example:
        >>> import numpy as np, warnings
        >>> rng = np.random.default_rng(0)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", SelectionWarning)
        ...     try:
        ...         SparseRegressor(epochs=5).fit(rng.normal(size=(60, 3)), rng.normal(size=60))
        ...     except SelectionWarning as warning:
        ...         print("no input" in str(warning))
        True
    """


def tell(estimator: Any) -> None:
    """Warn of what a fit found that a user would not expect."""
    for words, kind in _found(estimator):
        warnings.warn(words, kind, stacklevel=3)


def _found(estimator: Any):
    if words := estimator._unsettled:
        sooner = "" if estimator.method == "sghmc" else "; a larger learning_rate gets there sooner"  # a chain diverges
        advice = f"Raise epochs, or call partial_fit with the same data to go on{sooner}."
        yield f"after {estimator.n_epochs_} epochs {words}. {advice}", ConvergenceWarning
    if lost := sum(not np.isfinite(one["held_out_nll"]) for one in estimator.candidates_):
        yield (
            f"{lost} of {len(estimator.candidates_)} candidates (candidates_) diverged, and could not be chosen. Lower "
            f"learning_rate, now {estimator._rate():g}.",
            ConvergenceWarning,
        )
    names = getattr(estimator, "feature_names_in_", None)

    def name(j: Any) -> str:
        return f"input {j}" if names is None else repr(str(names[j]))

    own = estimator.original_ == np.arange(estimator.n_features_in_)
    copies = np.flatnonzero(~own & (estimator.groups_ != estimator.groups_[estimator.original_]))
    if len(copies):
        pairs = [f"{name(j)} of {name(estimator.original_[j])}" for j in copies]
        yield (
            f"some inputs are copies of others, or straight lines of them: {_list(pairs)}. The data cannot tell which "
            "one matters: they share their probability, and where it is selected the first stands for all. Leave "
            "copies out.",
            SelectionWarning,
        )
    selects = estimator.method != "gaussian"
    if estimator._idle:
        answers = "about the mean, or the shares of the classes"
        yield f"{estimator._idle}: there is nothing to select, and predict answers {answers}.", SelectionWarning
    elif selects and not estimator.support_.any():
        likeliest = int(estimator.path_inclusion_probability_.argmax())
        tested = f" at a false-discovery rate of {estimator.fdr:g}" if estimator.fdr is not None else ""
        light, advice, answers = "", "", "predict answers little more than the mean"
        if estimator._tells:
            answers = "predict reads all inputs, and does better than the mean, but it does not say by which"
        if estimator._total_weight < 0.5 * estimator.n_rows_:
            light = f", which stand for {estimator._total_weight:.3g} by their sample_weight,"
            factor = estimator.n_rows_ / estimator._total_weight
            advice = f"Multiply sample_weight by {factor:.3g} if only its proportions mean something. "
        yield (
            f"no input is selected{tested}: these {estimator.n_rows_} rows{light} do not show that any of the "
            f"{estimator.n_features_in_} matters. {advice}The likeliest is {name(likeliest)}, with probability "
            f"{estimator.path_inclusion_probability_[likeliest]:.2f}. Collect more rows, leave out inputs that cannot "
            f"matter, or look whether y is the right column; {answers}.",
            SelectionWarning,
        )
    first = np.isin(np.arange(len(own)), np.unique(estimator.groups_, return_index=True)[1])
    moving = np.flatnonzero((estimator.inclusion_spread_ > _MOVES) & first & own)
    if selects and len(moving):
        yield (
            f"whether {_list([name(j) for j in moving])} matter{'s' if len(moving) == 1 else ''} depends on where the "
            f"fit starts (inclusion_spread_ above {_MOVES:g}): the training is short, or inputs that are correlated "
            "stand in for each other. Raise epochs, read their probabilities together, or raise n_replicates, which "
            "averages over more starts.",
            SelectionWarning,
        )
    if not is_regressor(estimator):
        return
    noise, spread = np.ravel(estimator.noise_scale_), np.ravel(estimator.target_scale_)
    worst = int((noise / np.where(spread > 0, spread, np.inf)).argmax())
    if noise[worst] > 1.05 * spread[worst] > 0:
        rate = f"Lower learning_rate, now {estimator._rate():g}, or raise epochs"
        remedy = rate if estimator.hidden_ else "Collect more rows"
        if estimator.hidden_ and estimator.method != "spike_slab":
            remedy += ", or take method='spike_slab'"
        yield (
            f"the noise that was learned, {noise[worst]:.3g}, is above the standard deviation of y, "
            f"{spread[worst]:.3g}: the model explains nothing, and its intervals are too wide. {remedy}.",
            ConvergenceWarning,
        )


def _list(words: list[str]) -> str:
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")

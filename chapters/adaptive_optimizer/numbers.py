"""Numbers from the store that the chapter on the adaptive variational optimizer says in its text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows, replicates
from book.lab.store import NotStoredError, load_result
from chapters.adaptive_optimizer.figures.results import ERROR, EXAMPLES, METHODS

AVO, DENSE, MAGNITUDE = "AVO", "AVO, dense", "magnitude"
OTHERS = METHODS[1:]
LATER = ("AVO, long warm-up", "AVO, no group prior")  # methods that select later than the published one, or not at all
WARM_UPS = ("AVO, no warm-up", "AVO, long warm-up")
STUCK = 20.0  # percent of the classes wrong, example 3
PUBLISHED_3 = 3.9  # percent wrong of the published run


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("avo-name")` returns}, for example-1, example-2 and example-3.

    Raises:
        AssertionError: a stored result no longer says what the lesson's sentences say of it.
    """
    return _examples(rows) | _parts(rows) | {"cifar": _images()}


def errors(rows: Mapping[str, Rows], example: str, method: str) -> np.ndarray:
    """Test error of every data set: MSE, or percent of wrong classes."""
    table = rows[example.replace(" ", "-")]
    if example == EXAMPLES[2]:
        return 100.0 - replicates(table, example, method, "accuracy")
    return replicates(table, example, method, "mse_test")


def counted(flags: np.ndarray) -> str:
    """ "7 of 10" of yes and no."""
    return lab.number(f"{int(flags.sum())} of {len(flags)}" if len(flags) else None)


def _found(rows: Mapping[str, Rows], example: str, method: str, metric: str) -> np.ndarray:
    return replicates(rows[example.replace(" ", "-")], example, method, metric)


def _examples(rows: Mapping[str, Rows]) -> dict[str, str]:
    """Of the published method alone."""
    said = {}
    for number, name in enumerate(EXAMPLES, start=1):
        said[f"exact-{number}"] = counted(_found(rows, name, AVO, "exact_selection") > 0)
        said[f"error-{number}"] = spread(errors(rows, name, AVO), _form(name))
    wrong = errors(rows, EXAMPLES[2], AVO)
    said["stuck-3"] = counted(wrong > STUCK)
    said["lossy-3"] = counted(_found(rows, EXAMPLES[2], AVO, "false_negatives") > 0)
    said["median-3"] = lab.number(float(np.median(wrong)) if len(wrong) else None, "{:.1f}")
    if len(wrong) >= 3:
        assert 0 < (wrong > STUCK).sum() < len(wrong), "example 3: the data sets part"
        assert wrong.min() < PUBLISHED_3 < np.median(wrong), "example 3: the published run is like a better one of ours"
    return said


def _parts(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The published method less every other one, and what the warm-up does."""
    said = {}
    for number, name in enumerate(EXAMPLES, start=1):
        for method in OTHERS:
            exact = _found(rows, name, method, "exact_selection")
            gap = difference(*_less(name, method), _form(name))
            said[f"{number}-{method}"] = f"{gap}; {counted(exact > 0)}" if len(exact) else gap
        for method in (AVO, *WARM_UPS):
            said[f"lost-{number}-{method}"] = counted(_found(rows, name, method, "false_negatives") > 0)
        kept = _found(rows, name, WARM_UPS[1], "false_positives")
        said[f"kept-{number}"] = lab.number(float(kept.mean()) if len(kept) else None, "{:.0f}")
    for method in LATER:
        ours, theirs = (100.0 - lab.stored_values(_stored(EXAMPLES[2]), EXAMPLES[2], one, "accuracy")
                        for one in (AVO, method))  # fmt: skip
        both = len(theirs) == len(ours) > 0
        said[f"freed-{method}"] = counted(theirs[ours > STUCK] <= STUCK) if both else lab.number(None)
    return said


def _stored(example: str) -> str:
    return f"avo-{example.replace(' ', '-')}"


def _less(example: str, method: str) -> tuple[float, float, int]:
    """Mean and standard error of the published method's test error less another's, and the number of data sets."""
    metric, sign = ("accuracy", -1.0) if example == EXAMPLES[2] else ("mse_test", 1.0)
    mean, error, n = lab.paired_difference(_stored(example), example, AVO, method, metric)
    return sign * mean, error, n


def _form(example: str) -> str:
    return "{:.1f}" if "%" in ERROR[example] else "{:.3f}"


def difference(mean: float, error: float, n: int, form: str) -> str:
    """ "d ± s.e." with the sign always written; one run has no standard error."""
    if not n:
        return lab.number(None)
    said = form.replace(":", ":+").format(mean).replace("-", "−")
    return f"{said} ± {form.format(error)}" if n > 1 else f"{said} (one run)"


def _images() -> str:
    """A sentence for each network that is stored: what its three trainings gave, and the paired differences."""
    sentences = [text for profile in ("book", "paper") if (text := _network(profile))]
    return ". ".join(sentences) if sentences else lab.number(None)


def _network(profile: str) -> str:
    try:
        rows = load_result("avo-cifar10", profile)["rows"]
    except NotStoredError:
        return ""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        found.setdefault((row["method"], row["metric"]), {})[row["replicate"]] = row["value"]
    accuracy = {method: found.get((method, "accuracy"), {}) for method in (AVO, DENSE, MAGNITUDE)}
    if not accuracy[AVO]:
        return ""
    means = {method: _percent(values, "{:.2f}") for method, values in accuracy.items()}
    zeros = _percent(found.get((AVO, "zeros"), {}), "{:.1f}")
    setting = rows[0]["setting"]
    less = {}
    for method in (DENSE, MAGNITUDE):
        gaps = np.array(
            [value - accuracy[method][one] for one, value in accuracy[AVO].items() if one in accuracy[method]]
        )
        error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
        less[method] = difference(gaps.mean() if len(gaps) else np.nan, error, len(gaps), "{:.2f}")
    runs = {1: "one run", 2: "two runs"}.get(len(accuracy[AVO]), f"{len(accuracy[AVO])} runs")
    return (
        f"{setting}, {runs}: {means[AVO]} at {zeros} zeros among the convolutions' weights, {means[DENSE]} dense, "
        f"{means[MAGNITUDE]} by magnitude; in points, the method less dense {less[DENSE]}, less magnitude "
        f"{less[MAGNITUDE]}"
    )


def _percent(values: Mapping[int, float], form: str) -> str:
    return f"{spread(np.array(list(values.values())), form)} %" if values else lab.number(None)


def spread(values: np.ndarray, form: str) -> str:
    """ "mean ± standard error" of replicates."""
    if len(values) < 2:
        return lab.number(form.format(values[0]) if len(values) else None)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{form.format(values.mean())} ± {form.format(error)}"

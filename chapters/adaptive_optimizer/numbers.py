"""Numbers from the store that the chapter on the adaptive variational optimizer says in its text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows, replicates
from chapters.adaptive_optimizer.figures.results import EXAMPLES

AVO = "AVO"


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("avo-name")` returns}, for example-1, example-2, example-3 and cifar10.
    """
    return _examples(rows) | _images(rows.get("cifar10", ()))


def _examples(rows: Mapping[str, Rows]) -> dict[str, str]:
    said = {}
    for number, name in enumerate(EXAMPLES, start=1):
        table = rows[f"example-{number}"]
        exact = replicates(table, name, AVO, "exact_selection")
        said[f"exact-{number}"] = lab.number(int((exact > 0).sum()) if len(exact) else None)
        said[f"runs-{number}"] = lab.number(len(exact) or None)
        metric = "mse_test" if number < 3 else "accuracy"
        values = replicates(table, name, AVO, metric)
        said[f"error-{number}"] = spread(values if number < 3 else 100.0 - values, "{:.3f}" if number < 3 else "{:.1f}")
    accuracy = replicates(rows["example-3"], "example 3", AVO, "accuracy")
    lost = replicates(rows["example-3"], "example 3", AVO, "false_negatives")
    said["stuck-3"] = lab.number(int((accuracy < 80.0).sum()) if len(accuracy) else None)
    said["lossy-3"] = lab.number(int((lost > 0).sum()) if len(accuracy) else None)
    said["median-3"] = lab.number(f"{100.0 - np.median(accuracy):.1f}" if len(accuracy) else None)
    for key, other in (
        ("noise", "AVO, no noise"),
        ("exact-step", "AVO, exact E-step"),
        ("magnitude", "magnitude"),
        ("prior", "AVO, no group prior"),
    ):
        sign = -1.0 if key == "prior" else 1.0  # said the other way round
        said[f"{key}-1"] = lab.difference("avo-example-1", "example 1", AVO, other, "mse_test", 3, sign)
    kept = replicates(rows["example-1"], "example 1", "AVO, no group prior", "false_positives")
    said["kept-1"] = lab.number(f"{kept.mean():.0f}" if len(kept) else None)
    return said


def _images(rows: Rows) -> dict[str, str]:
    """Of whichever network is stored: its setting is named by the profile that was run."""
    run = [row for row in rows if row["n"] and row["profile"] not in (None, "smoke")]
    setting = run[0]["setting"] if run else ""
    said = {"cifar-stored": lab.number(None)}
    if run:
        budget = lab.budget_caption([row for row in run if row["metric"] == "accuracy"])
        said["cifar-stored"] = f"{setting}, {budget.removeprefix('Ours: ')}"
    for method in (AVO, "AVO, dense", "magnitude"):
        said[f"cifar-accuracy-{method}"] = spread(replicates(rows, setting, method, "accuracy"), "{:.2f}")
        if method != AVO:
            said[f"cifar-less-{method}"] = lab.difference("avo-cifar10", setting, AVO, method, "accuracy")
    said[f"cifar-zeros-{AVO}"] = spread(replicates(rows, setting, AVO, "zeros"), "{:.1f}")
    return said


def spread(values: np.ndarray, form: str) -> str:
    """ "mean ± standard error" of replicates."""
    if len(values) < 2:
        return lab.number(form.format(values[0]) if len(values) else None, runs=1)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return lab.Said(f"{form.format(values.mean())} ± {form.format(error)}", len(values))

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
        rows: {name: what `lab.compare("avo-name")` returns}, for example-1, example-2 and example-3.
    """
    said = {}
    for number, name in enumerate(EXAMPLES, start=1):
        table = rows[f"example-{number}"]
        exact = replicates(table, name, AVO, "exact_selection")
        said[f"exact-{number}"] = lab.number(int((exact > 0).sum()) if len(exact) else None)
        said[f"runs-{number}"] = lab.number(len(exact) or None)
        metric = "mse_test" if number < 3 else "accuracy"
        values = replicates(table, name, AVO, metric)
        said[f"error-{number}"] = spread(values if number < 3 else 100.0 - values, "{:.3f}" if number < 3 else "{:.1f}")
    for key, other in (
        ("noise", "AVO, no noise"),
        ("exact-step", "AVO, exact E-step"),
        ("magnitude", "magnitude"),
        ("prior", "AVO, no group prior"),
    ):
        mean, error, n = lab.paired_difference("avo-example-1", "example 1", AVO, other, "mse_test")
        sign = -1.0 if key == "prior" else 1.0  # said the other way round
        text = f"{sign * mean:+.3f} ± {error:.3f}".replace("-", "−")
        said[f"{key}-1"] = lab.number(text if n > 1 else None)
    kept = replicates(rows["example-1"], "example 1", "AVO, no group prior", "false_positives")
    said["kept-1"] = lab.number(f"{kept.mean():.0f}" if len(kept) else None)
    return said


def spread(values: np.ndarray, form: str) -> str:
    """ "mean ± standard error" of replicates."""
    if len(values) < 2:
        return lab.number(form.format(values[0]) if len(values) else None)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{form.format(values.mean())} ± {form.format(error)}"

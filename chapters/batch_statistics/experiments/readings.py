"""Readings of the stored distribution functions of the entropy, the curves of Figure 1: nothing is run for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

PARTS = {"entropy_cdf_25": 0.25, "entropy_cdf_50": 0.5, "entropy_cdf_75": 0.75}  # of the largest entropy
CURVE = "|entropy_cdf_unknown"


def cdf_readings(arrays: Mapping[tuple[str, str, int, str], np.ndarray]) -> list[dict[str, Any]]:
    """Rows with the percentage of unknown images whose entropy is at most a part of the largest one.

    Args:
        arrays: those of `images.run_cell`, by (setting, method of the cell, first replicate, name). A curve is called
            "METHOD|entropy_cdf_unknown"; its first column is the grid, each other one a network or an ensemble.
    """
    rows = []
    for (setting, _, first, name), curve in sorted(arrays.items()):
        if not name.endswith(CURVE):
            continue
        for index, column in enumerate(curve.T[1:]):
            about = {"setting": setting, "method": name.removesuffix(CURVE), "replicate": first + index}
            for metric, part in PARTS.items():
                value = 100.0 * np.interp(part * curve[-1, 0], curve[:, 0], column)
                rows.append(about | {"metric": metric, "value": float(value)})
    return rows

"""What pictures of several studies draw."""

from __future__ import annotations

import math

import numpy as np


def normal_density(x: np.ndarray, mean: float, scale: float) -> np.ndarray:
    """Density of a normal distribution."""
    return np.exp(-0.5 * ((x - mean) / scale) ** 2) / (scale * math.sqrt(2 * math.pi))

"""Pictures of the chapter on Foundations."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from book.display.style import figure


def idea() -> Figure:
    """The variance of a mean of n draws."""
    shown, axes = figure()
    number = np.arange(1, 51)
    axes.plot(number, 1 / number)
    axes.set(xlabel="number of draws n", ylabel="variance of their mean", ylim=(0, 1))
    return shown

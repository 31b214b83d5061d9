"""The gallery of failures: every legend finds a place off the curves."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from book.display.gallery import covered, failures

X = np.linspace(0, 1, 50)
CURVES = {  # some that leave a corner free, and some that go through all corners and the middle
    "free": {"flat": (X, 0 * X), "rising": (X, X**4)},
    "full": {"down": (X, 1 - X), "up": (X, X), "middle": (X, 0.5 + 0 * X), "top": (X, 1 + 0 * X)},
}


@pytest.mark.slow
def test_no_legend_lies_over_a_curve():
    fig = failures([(name, "x", "y", CURVES[name]) for name in ("free", "full", "full", "free")])
    fig.draw_without_rendering()
    assert not any(covered(panel) for panel in fig.axes)
    panel = fig.axes[0]
    assert panel.get_ylim()[1] == pytest.approx(1.05, rel=0.01)
    panel.legend(loc="lower right")  # where a curve begins or ends in both
    fig.draw_without_rendering()
    assert covered(panel)
    plt.close(fig)

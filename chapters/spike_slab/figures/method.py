"""Pictures of the chapter on variational spike-and-slab networks: the gradients, a band.

Every function takes plain arrays and returns a matplotlib Figure. The pictures of results are in `results`.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, sparse_markers, style_context

SPIKE, SLAB = PALETTE[1], PALETTE[0]


def learned_gates(
    exact: np.ndarray, learned: Mapping[str, np.ndarray], optimum: float, traces: Mapping[str, np.ndarray]
) -> Figure:
    """What gradients make of gates whose answer is known.

    Args:
        exact: inclusion probabilities that the objective asks for, shape (gates,).
        learned: {temperature in words: what training ends with, shape (gates,)}.
        optimum: the lowest negative ELBO of the linear model.
        traces: {kind of gradient: exact negative ELBO after each step}.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.4)
        left.plot([0, 1], [0, 1], color=INK, lw=1, ls="-", marker="none")
        left.text(0.72, 0.8, "exact", rotation=42, size="small")
        for name, look in line_styles(list(learned)).items():
            left.plot(exact, learned[name], **look)
        left.set(xlabel="exact φ", ylabel="φ after training", xlim=(0, 1), ylim=(0, 1), title="five gates")
        right.axhline(optimum, color=INK, lw=1, ls="-", marker="none")
        right.text(len(next(iter(traces.values()))), optimum - 3, "optimum", ha="right", va="top", size="small")
        for name, look in line_styles(list(traces)).items():
            right.plot(np.arange(1, len(traces[name]) + 1), traces[name], **look)
        right.set(xlabel="step", ylabel="exact negative ELBO (nats)", title="ten coefficients")
        right.set_ylim(bottom=optimum - 18)
        sparse_markers(right)
        left.legend(loc="upper left", fontsize="small")
        right.legend(loc="upper right", fontsize="small")
        panel_letters([left, right])
    return fig


def predictive_band(x: np.ndarray, truth: np.ndarray, draws: np.ndarray, noise: np.ndarray, label: str) -> Figure:
    """The function along one input: networks drawn from the posterior, and the 95 % bands of mean and response.

    Args:
        x: values of the input, shape (points,).
        truth: the true function there.
        draws: networks' outputs, shape (draws, points).
        noise: noise to add to them for a response, the same shape.
        label: name of the input.
    """
    mean, response = (np.quantile(one, [0.025, 0.975], axis=0) for one in (draws, draws + noise))
    with style_context():
        fig, panel = figure(1, height=3.6)
        panel.fill_between(x, *response, color=PALETTE[6], alpha=0.25, lw=0, label="95 % of new responses")
        panel.fill_between(x, *mean, color=SLAB, alpha=0.55, lw=0, label="95 % of networks")
        panel.plot(x, draws[:12].T, color=INK, lw=0.5, alpha=0.4, ls="-", marker="none")
        panel.plot(x, truth, color=SPIKE, ls="--", marker="none", label="true function")
        panel.set(xlabel=label, ylabel="y", xlim=(x[0], x[-1]))
        panel.legend(loc="upper left", fontsize="small")
    return fig

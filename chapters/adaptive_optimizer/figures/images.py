"""The picture of the residual networks: what a share of zeros costs, by the method that chose it."""

import numpy as np
from matplotlib.figure import Figure

from book import lab
from book.display.panels import missing
from book.display.style import INK, PALETTE, figure, style_context
from chapters.adaptive_optimizer.experiments.cifar10 import HARD, NAME

METHODS = {"AVO": ("o", "the method"), "magnitude": ("s", "by magnitude"), "AVO, dense": ("D", "dense")}
NETWORKS = {"ResNet20": HARD, "ResNet-18": HARD[:1]}


def settings(network: str) -> list[str]:
    """The settings of a network, by the range below which a channel goes."""
    return [f"{network} at {hard:g}" for hard in NETWORKS[network]]


def sparse_errors() -> Figure:
    """Test error of the ensemble against the share of zeros, a point a training; ResNet-18 hollow."""
    with style_context():
        fig, panel = figure(height=3.4)
        empty = True
        for network in NETWORKS:
            for setting in settings(network):
                for color, (method, (marker, _)) in zip(PALETTE, METHODS.items(), strict=False):
                    zeros = lab.stored_values(NAME, setting, method, "zeros")
                    errors = 100.0 - lab.stored_values(NAME, setting, method, "accuracy")
                    face = color if network == "ResNet20" else "none"
                    panel.plot(zeros, errors, marker, color=color, mfc=face, ms=7, mew=1.5, alpha=0.8, ls="none")
                    empty &= not len(zeros)
        if empty:
            missing(panel)
            return fig
        panel.set(xlabel="zeros among the convolutions' weights (%)", ylabel="test error (%)", xlim=(-3, 103))
        for color, (marker, label) in zip(PALETTE, METHODS.values(), strict=False):
            panel.plot([], [], marker, color=color, ms=7, ls="none", label=label)
        panel.plot([], [], "o", color=INK, mfc="none", ms=7, mew=1.5, ls="none", label="hollow: ResNet-18")
        fig.legend(loc="outside lower center", ncols=2, fontsize="small")
        errors = [line.get_ydata() for line in panel.get_lines() if len(line.get_ydata())]
        panel.set_ylim(0.0, 1.1 * float(np.max(np.concatenate(errors))))
    return fig

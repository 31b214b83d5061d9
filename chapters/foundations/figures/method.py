"""Pictures of the method: prior and posterior, approximations in weight space, gradients, chains, scores."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, stand_alone, style_context

CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 121)), np.sin(np.linspace(0, 2 * np.pi, 121))])
GRID = np.linspace(-2.5, 2.5, 101)


def ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float = 2.0) -> np.ndarray:
    """Points (2, 121) at `radius` standard deviations of the normal law of two weights; its covariance may be flat."""
    values, vectors = np.linalg.eigh(covariance)
    return mean[:, None] + radius * (vectors * np.sqrt(values.clip(0.0))) @ CIRCLE


def idea(before: np.ndarray, after: np.ndarray, x: np.ndarray, y: np.ndarray) -> Figure:
    """Lines f(x) = theta x drawn from a prior and from the posterior, with the observations.

    Args:
        before, after: slopes, one a line.
        x, y: observations.
    """
    with style_context():
        fig, axes = figure(2, height=3.0, sharey=True)
        for panel, slopes, name in zip(axes, (before, after), ("before the data", "after the data"), strict=True):
            panel.plot(GRID, GRID[:, None] * slopes, color=PALETTE[0], lw=0.7, alpha=0.4, ls="-", marker="none")
            panel.set(title=name, xlabel="x", xlim=(-2.5, 2.5), ylim=(-5, 5))
        axes[1].plot(x, y, "o", color=PALETTE[1], ms=5)
        axes[0].set_ylabel("y")
        stand_alone(axes)
        panel_letters(axes)
    return fig


def weight_space(mean: np.ndarray, covariance: np.ndarray, draws: Mapping[str, np.ndarray]) -> Figure:
    """Draws of the first two weights by each method, with two standard deviations of the exact law and of the draws.

    Args:
        mean, covariance: of the exact posterior.
        draws: {method: (draws, weights)}.
    """
    exact = ellipse(mean[:2], covariance[:2, :2])
    with style_context():
        fig, axes = figure(2, nrows=-(-len(draws) // 2), height=2.5, sharex=True, sharey=True, squeeze=False)
        for panel, (name, theta) in zip(axes.flat, draws.items(), strict=True):
            theta = theta[:, :2]
            few = len(np.unique(theta, axis=0)) < 10  # a handful of atoms, drawn once and large
            look = {"ms": 8, "alpha": 0.9} if few else {"ms": 3, "alpha": 0.25}
            panel.plot(*theta.T, ".", color=PALETTE[0], **look)
            own = ellipse(theta.mean(axis=0), np.cov(theta.T))
            panel.plot(*own, color=PALETTE[0], ls="-", lw=1.8, marker="none", label="the method")
            panel.plot(*exact, color=PALETTE[1], ls="--", lw=2.2, marker="none", label="exact")
            panel.set(title=name, xlim=(-1.6, 2.8), ylim=(-1.9, 2.3))
        for panel in axes[-1]:
            panel.set_xlabel(r"$\theta_1$")
        for panel in axes[:, 0]:
            panel.set_ylabel(r"$\theta_2$")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters(axes)
    return fig


def bands(draws: Mapping[str, np.ndarray], exact: np.ndarray) -> Figure:
    """Standard deviation of the prediction along two lines of inputs: as in the data, and as never in the data.

    Args:
        draws: {method: (draws, weights)}.
        exact: covariance of the exact posterior.
    """
    ways = {"inputs move together": np.array([1.0, 1.0, 0.0]), "inputs move apart": np.array([1.0, -1.0, 0.0])}
    with style_context():
        fig, axes = figure(2, height=3.3)
        for panel, (name, way) in zip(axes, ways.items(), strict=True):
            looks = line_styles(["exact", *draws], markers=False)
            for method, look in looks.items():
                spread = np.sqrt(way @ exact @ way) if method == "exact" else (draws[method] @ way).std()
                panel.plot(GRID, np.abs(GRID) * spread, **look | {"linewidth": 3.2 if method == "exact" else 1.8})
            panel.set(title=name, xlabel=r"$x_1$", xlim=(0, 2.5), ylim=(0, None))
        axes[0].set_ylabel("sd of the prediction")
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
        panel_letters(axes)
    return fig


def gradient_spread(sizes: Sequence[int], spread: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Standard deviation of estimated gradients over the size of the minibatch, a panel for each parameter.

    Args:
        sizes: of the minibatches.
        spread: {parameter: {estimator: standard deviations}}.
    """
    with style_context():
        fig, axes = figure(len(spread), height=3.2, sharey=True, squeeze=False)
        for panel, (name, lines) in zip(axes[0], spread.items(), strict=True):
            for estimator, look in line_styles(list(lines)).items():
                panel.plot(sizes, lines[estimator], **look)
            panel.set(xscale="log", yscale="log", title=name, xlabel="size of the minibatch")
        axes[0, 0].set_ylabel("sd of the gradient")
        stand_alone(axes)
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
        panel_letters(axes[0])
    return fig


def chains(
    step: Mapping[str, tuple[np.ndarray, np.ndarray]],
    start: np.ndarray,
    memory: Mapping[str, np.ndarray],
    wells: np.ndarray,
) -> Figure:
    """What to look for in a chain: the bias of its step, its burn-in, its memory, and chains that never met.

    Args:
        step: {name: (step times curvature, variance over the target's)}; what is called "measured" is drawn as points.
        start: (chains, steps) from far away.
        memory: {name: autocorrelation by lag}.
        wells: (chains, steps) on a target with two wells.
    """
    with style_context():
        fig, axes = figure(2, nrows=2, height=2.7)
        for look, (name, (x, y)) in zip(line_styles(list(step)).values(), step.items(), strict=True):
            axes[0, 0].plot(x, y, **look | ({"linestyle": "none"} if name == "measured" else {"marker": "none"}))
        axes[0, 0].set(xlabel="step × curvature", ylabel="variance / target's", title="step size", ylim=(0, None))
        axes[0, 0].legend(fontsize="small")
        _paths(axes[0, 1], start)
        axes[0, 1].axhspan(-2, 2, color=INK, alpha=0.12, lw=0, label="target ± 2 sd")
        axes[0, 1].set(xlabel="step", ylabel=r"$\theta$", title="burn-in")
        axes[0, 1].legend(fontsize="small", loc="upper right")
        for name, look in line_styles(list(memory), markers=False).items():
            axes[1, 0].plot(np.arange(len(memory[name])), memory[name], **look)
        axes[1, 0].set(xlabel="lag", ylabel="autocorrelation", title="memory", ylim=(-0.1, 1.45))
        axes[1, 0].legend(fontsize="small", loc="upper right")
        _paths(axes[1, 1], wells)
        axes[1, 1].set(xlabel="step", ylabel=r"$\theta$", title="two wells")
        panel_letters(axes)
    return fig


def _paths(panel: Axes, paths: np.ndarray) -> None:
    for path, look in zip(paths, line_styles([str(k) for k in range(len(paths))], markers=False).values(), strict=True):
        panel.plot(path, **look | {"label": "_", "linewidth": 1.2})


def scores(truth: float, excess: Mapping[str, np.ndarray], stated: np.ndarray) -> Figure:
    """Expected score above its least value, over the probability that is stated.

    Args:
        truth: probability of the event.
        excess: {score: values}.
        stated: probabilities.
    """
    with style_context():
        fig, panel = figure(height=3.4)
        for name, look in line_styles(list(excess), markers=False).items():
            panel.plot(stated, excess[name], **look)
        panel.axvline(truth, color=INK, lw=1, ls=":", label="true probability")
        panel.set(xlabel="stated probability", ylabel="above the least", ylim=(0, 0.6), xlim=(0, 1))
        fig.legend(loc="outside lower center", ncols=4, fontsize="small")
    return fig

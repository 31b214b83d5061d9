"""Pictures of the method: posterior and steps, estimates of curvature, early scales, noise, learned scale, groups."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy.stats import norm

from bnnlib.functional import group_threshold
from book.display.panels import legend_below, log_axis
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context

Curve = tuple[Sequence[float], Sequence[float]]
_STEEP, _FLAT = 10.0, 0.5  # curvatures of the valley in the first picture
_BELOW = {"fontsize": "small", "loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "frameon": False}  # a legend


def idea(steps: int = 14) -> Figure:
    """A valley with the posterior's ellipse and two descents, and the two normal densities of a group's weight."""
    with style_context():
        fig, (left, right) = figure(2, height=3.5)
        across, along = np.meshgrid(np.linspace(-3.2, 1.5, 120), np.linspace(-1.1, 1.1, 120))
        levels = 0.5 * (_FLAT * across**2 + _STEEP * along**2)
        left.contour(across, along, levels, levels=(0.1, 0.4, 1, 2, 4), colors="#9a9a9a", linewidths=0.8)
        sizes = 2.0 / np.sqrt([_FLAT, _STEEP]) / 2.2
        left.add_patch(Ellipse((0, 0), *sizes, fc=PALETTE[2], alpha=0.35, lw=0, label="posterior"))
        looks = line_styles(["one step size", "adaptive"])
        curvature, start = np.array([_FLAT, _STEEP]), np.array([-2.8, 0.85])
        for rates, look in zip((0.17, 0.3 / np.sqrt(curvature)), looks.values(), strict=True):
            path = start * (1.0 - rates * curvature) ** np.arange(steps)[:, None]
            left.plot(*path.T, **look | {"ms": 4, "lw": 1.4})
        left.set(xlabel="flat direction", ylabel="steep direction", xlim=(-3.2, 1.5), ylim=(-1.1, 1.5))
        left.legend(fontsize="small", loc="upper right", ncols=1)
        grid, decays, count = np.linspace(-0.4, 0.4, 300), (1.0, 1e-3), 500  # those of the lesson's example
        looks = line_styles(["spike: decay it", "slab: leave it"], markers=False)
        for decay, look in zip(decays, looks.values(), strict=True):
            right.semilogy(grid, norm.pdf(grid, 0.0, (count * decay) ** -0.5), **look)
        turn = group_threshold(*decays, count) ** 0.5
        for side in (-turn, turn):
            right.axvline(side, color=INK, ls=(0, (1, 2)), lw=1.2)
        right.set(xlabel="weight", ylabel="density", ylim=(0.01, 100))
        right.legend(fontsize="small", loc="upper right")
        panel_letters((left, right))
    return fig


def curvature(lines: Mapping[str, Curve], points: Mapping[str, Curve]) -> Figure:
    """Estimated over true curvature by the distance of the weight from the truth.

    Args:
        lines: name to (distances, formula); the same names as in `points`.
        points: name to (distances, simulated).
    """
    with style_context():
        fig, panel = figure(height=3.4)
        panel.axhline(1.0, color=INK, lw=1, ls=(0, (1, 2)))
        for name, look in line_styles(list(lines)).items():
            panel.plot(*lines[name], **look | {"marker": "none", "label": f"_{name}"})
            panel.plot(*points[name], **look | {"linestyle": "none", "ms": 6})
            panel.plot([], [], **look)
        panel.set(yscale="log", xlabel="distance of the weight from the truth", ylabel="estimate / curvature")
        legend_below(fig, panel, ncols=2, fontsize="small")  # the last of a name has line and marker
    return fig


def early(by_step: Mapping[str, Curve], by_count: Mapping[str, Curve]) -> Figure:
    """Variance of 1 / sqrt(second moment), over its squared median, by step and by number of draws.

    Args:
        by_step: name to (steps, variance).
        by_count: name to (draws, sample variance of so many draws).
    """
    with style_context():
        fig, axes = figure(2, height=3.3)
        names = list(dict.fromkeys([*by_step, *by_count]))
        looks = line_styles(names)
        for panel, curves in zip(axes, (by_step, by_count), strict=True):
            for name, (x, y) in curves.items():
                panel.plot(x, y, **looks[name] | {"markevery": 0.15})
            panel.set(xscale="log", yscale="log")
        axes[0].set(xlabel="step", ylabel="variance / median²")
        axes[1].set(xlabel="draws", title="step 3, c held")
        legend_below(fig, axes[0], ncols=1, fontsize="small")
        panel_letters(axes)
    return fig


def noise(ratios: Mapping[str, Curve], paths: Mapping[str, np.ndarray]) -> Figure:
    """Signal over noise in one step by learning rate, and what a weight does.

    Args:
        ratios: name to (learning rates, ratio).
        paths: name to the weight at each step.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.9)
        for name, look in line_styles(list(ratios)).items():
            left.plot(*ratios[name], **look)
        left.axhline(1.0, color=INK, lw=1, ls=(0, (1, 2)))
        left.set(xscale="log", yscale="log", xlabel="learning rate l", ylabel="signal / noise of a step")
        for name, look in line_styles(list(paths), markers=False).items():
            right.plot(paths[name], **look | {"lw": 1.3})
        right.set(xlabel="step", ylabel="w")
        for panel in (left, right):
            panel.legend(**_BELOW)
        panel_letters((left, right))
    return fig


def scale(paths: Mapping[str, np.ndarray], exact: Curve, lines: Mapping[str, Curve], points: Mapping[str, Curve]):
    """What a step makes of tau, and the learned standard deviation beside the exact one.

    Args:
        paths: name to tau at each step.
        exact: (curvatures, posterior standard deviations).
        lines: name to (curvatures, what theory says that is learned).
        points: the same names to (curvatures, what was learned).
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.9)
        for level in (0.0, 1.0):
            left.axhline(level, color=INK, lw=1, ls=(0, (1, 2)))
        for name, look in line_styles(list(paths)).items():
            left.plot(paths[name], **look | {"ms": 4})
        left.set(xlabel="step", ylabel="τ", ylim=(-0.45, 1.1))
        right.plot(*exact, color=INK, lw=1.2, ls="-", marker="none", label="exact posterior")
        for name, look in line_styles(list(lines)).items():
            right.plot(*lines[name], **look | {"marker": "none", "label": f"_{name}"})
            right.plot(*points[name], **look | {"linestyle": "none"})
        log_axis(right)
        right.set(xscale="log", xlabel="curvature h", ylabel="standard deviation")
        for panel in (left, right):
            panel.legend(**_BELOW)
        panel_letters((left, right))
    return fig


def groups(path: np.ndarray, thresholds: tuple[float, float], warm_up: int, rows: Mapping[str, np.ndarray]) -> Figure:
    """Mean squares of the groups over training, and the final weights beside other estimates.

    Args:
        path: (steps, groups); 0 once a group is removed.
        thresholds: soft and hard.
        warm_up: steps before the first E-step.
        rows: name to the weights (groups, weights of a group); the first is the truth.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.9)
        names = [f"input {j + 1}" for j in range(path.shape[1])]
        for j, look in enumerate(line_styles(names).values()):
            alive = path[:, j] > 0
            steps = np.arange(len(path))[alive]
            left.plot(steps, path[alive, j], **look | {"lw": 1.4, "markevery": (8 * j, 60), "ms": 5})
            if not alive.all():
                left.plot(steps[-1], path[alive, j][-1], "x", color=look["color"], ms=11, mew=2.2)
        for level, dash in zip(thresholds, ("--", ":"), strict=True):
            left.axhline(level, color=INK, lw=1.2, ls=dash)
        left.axvspan(0, warm_up, color=INK, alpha=0.07, lw=0)
        left.set(yscale="log", xlabel="step", ylabel="mean square of a group")
        left.legend(**_BELOW, ncols=2)
        _weights(right, rows)
        panel_letters((left, right))
    return fig


def _weights(panel: Axes, rows: Mapping[str, np.ndarray]) -> None:
    """The weights of every group side by side, a marker for each estimate."""
    for place, (name, look) in enumerate(line_styles(list(rows)).items()):
        table = np.asarray(rows[name])
        x = np.arange(table.size) // table.shape[1] + 1 + 0.22 * (np.arange(table.size) % table.shape[1] - 1)
        hollow = {"mfc": "white", "mew": 1.5} if place else {}
        panel.plot(x, table.ravel(), **look | {"linestyle": "none", "ms": 9 - 2.5 * place} | hollow)
    panel.axhline(0.0, color=INK, lw=0.8)
    panel.set(xlabel="input", ylabel="weight", xticks=range(1, len(table) + 1))
    panel.legend(**_BELOW)

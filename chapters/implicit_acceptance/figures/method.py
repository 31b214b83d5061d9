"""Pictures of the method: what a chain keeps of a generator's draws, six states, the ladder of bounds, the ring.

Every function takes plain arrays and returns a matplotlib Figure. The pictures of results are in `results`.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.colors import LogNorm, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from book.display.panels import legend_below
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, stand_alone, style_context
from chapters.implicit_acceptance.ring import CELLS, REACH

_EXTENT = (-REACH, REACH, -REACH, REACH)
_NATS = 8.0  # ends of the colors of a log ratio: the true one falls without end between the modes
_HATCHES = ("", "//", "..", "xx", "\\\\")


def clouds(points: Mapping[str, np.ndarray]) -> Figure:
    """Points in the plane, a panel for each name.

    Args:
        points: {title: (count, 2)}, up to three of them.
    """
    with style_context():
        fig, axes = figure(len(points), height=2.9, sharex=True, sharey=True)
        looks = line_styles(list(points)).values()
        for panel, (title, cloud), look in zip(axes, points.items(), looks, strict=True):
            dots = {"ls": "none", "marker": look["marker"], "ms": 1.8, "alpha": 0.55, "mew": 0}
            panel.plot(*np.asarray(cloud).T, color=look["color"], rasterized=True, **dots)
            panel.set(title=title, xlim=(-7.5, 7.5), ylim=(-7.5, 7.5), aspect="equal", xlabel="$x_1$")
        axes[0].set_ylabel("$x_2$")
        stand_alone(axes)
        panel_letters(axes)
    return fig


def state_bars(laws: Mapping[str, np.ndarray], settled: Mapping[str, np.ndarray]) -> Figure:
    """Laws on a few states as groups of bars: the given ones, and those where chains settle beside the target.

    Args:
        laws: {name: probabilities}, the target first.
        settled: {name: stationary law}.
    """
    target = next(iter(laws.values()))
    states = np.arange(1, len(target) + 1)
    with style_context():
        fig, axes = figure(2, height=3.2, sharey=True)
        for panel, title, groups in zip(axes, ("given", "where the chain settles"), (laws, settled), strict=True):
            width = 0.8 / len(groups)
            for number, (name, law) in enumerate(groups.items()):
                place = states + (number - (len(groups) - 1) / 2) * width
                color = PALETTE[number if groups is laws else number + len(laws)]
                panel.bar(place, law, width, label=name, color=color, hatch=_HATCHES[number], edgecolor="white")
            panel.plot(states, target, ls="none", marker="_", ms=22, mew=2, color=INK, label="target again")
            panel.set(title=title, xlabel="state", xticks=states)
        axes[0].set_ylabel("probability")
        stand_alone(axes)
        legend_below(fig, axes, ncols=3)
        panel_letters(axes)
    return fig


def bound_ladder(
    over_lower: tuple[np.ndarray, Mapping[str, np.ndarray]],
    over_minorization: tuple[np.ndarray, Mapping[str, np.ndarray]],
    ratios: Mapping[str, np.ndarray],
) -> Figure:
    """Measured total variation and its bounds as b and epsilon move, and how much of the joint distance arrives.

    Args:
        over_lower, over_minorization: (values of the knob, {name: median over chains at each value}).
        ratios: {name: TV(t_1, p) / joint TV of each chain}, drawn as cumulative shares.
    """
    with style_context():
        fig, axes = figure(2, nrows=2, height=3.0)
        for panel, (knob, curves), label in zip(axes[0], (over_lower, over_minorization), ("b", "ε"), strict=True):
            for name, look in line_styles(list(curves)).items():
                panel.plot(knob, curves[name], **look | {"ms": 4})
            panel.axhline(1.0, color=INK, lw=1, ls=":", marker="none")
            panel.set(xlabel=label, yscale="log", title=f"as {label} moves")
        axes[0, 0].set_ylabel("total variation")
        left, right = axes[1]
        for name, look in line_styles(list(ratios), markers=False).items():
            left.plot(np.sort(ratios[name]), np.linspace(0, 1, len(ratios[name])), **look)
        left.axvline(1, color=INK, lw=1, ls="-", marker="none")
        left.axvline(2, color=INK, lw=1, ls=":", marker="none")
        left.set(xlabel="‖t₁ − p‖ / joint distance", ylabel="share of chains", xlim=(0, 2.1), title="the factor")
        left.text(1.03, 0.05, "ours", size="small")
        left.text(1.97, 0.05, "(22)", size="small", ha="right")
        right.axis("off")
        small = {"fontsize": "small", "title_fontsize": "small", "labelspacing": 0.3, "columnspacing": 1.0}
        for panel, place, words, columns in ((axes[0, 0], "upper center", "a, b", 2), (left, "lower center", "c", 1)):
            handles, labels = panel.get_legend_handles_labels()
            right.add_artist(Legend(right, handles, labels, loc=place, title=words, ncols=columns, **small))
        panel_letters([*axes[0], left])
    return fig


def ring_maps(laws: Mapping[str, np.ndarray], ratios: Mapping[str, np.ndarray]) -> Figure:
    """Masses on the grid of `ring` (upper rows) and log ratios (last row), two panels a row.

    Args:
        laws: {title: masses (CELLS^2,)}, an even number.
        ratios: {title: log ratio in nats (CELLS^2,), NaN where neither has mass}, two of them.
    """
    panels = [(title, np.asarray(one, dtype=float)) for title, one in (*laws.items(), *ratios.items())]
    top = max(one.max() for title, one in panels if title in laws)
    with style_context():
        fig, axes = figure(2, nrows=(len(panels) + 1) // 2, height=2.7, sharex=True, sharey=True)
        for panel, (title, values) in zip(axes.flat, panels, strict=True):
            image = values.reshape(CELLS, CELLS)
            if title in laws:
                shown = panel.imshow(
                    np.maximum(image, top * 1e-3), origin="lower", extent=_EXTENT, norm=LogNorm(top * 1e-3, top)
                )
            else:
                norm = TwoSlopeNorm(0.0, -_NATS, _NATS)
                shown = panel.imshow(
                    np.clip(image, -_NATS, _NATS), origin="lower", extent=_EXTENT, norm=norm, cmap="PuOr"
                )
            panel.set_title(title)
            panel.set_facecolor("#D9D9D9")
            panel.grid(visible=False)
            fig.colorbar(shown, ax=panel, shrink=0.9)
        for panel in axes[:, 0]:
            panel.set_ylabel("$x_2$")
        for panel in axes[-1]:
            panel.set_xlabel("$x_1$")
        panel_letters(axes)
    return fig

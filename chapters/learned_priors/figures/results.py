"""Pictures of stored results of the chapter on learned priors: regression, UCI, ResNet20.

A result that has not been run, or only at the smoke profile's sizes, leaves its panels with the words "not run".
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book import lab
from book.display.panels import legend_below, missing, replicate_points
from book.display.style import INK, figure, line_styles, panel_letters, stand_alone, style_context
from book.lab.queries import cell, replicates, stored_values
from chapters.learned_priors.experiments.coverage import METHODS as HELD
from chapters.learned_priors.experiments.coverage import SETTING as COVERED

REGRESSION_METHODS = ("SGLD-SA", "SGLD-EM", "SGLD")
REGRESSION_SETTINGS = ("v0=0.01, sigma=2", "v0=0.1, sigma=2", "v0=0.01, sigma=1", "v0=0.1, sigma=1")
UCI_SETS = {"boston": "Boston", "yacht": "Yacht", "energy": "Energy", "wine-red": "Wine", "concrete": "Concrete"}
UCI_RIVALS = ("SGHMC", "A-SGHMC", "SGHMC-EM", "A-SGHMC-EM", "SGHMC-SA")
RESNET_METHODS = ("A-SGHMC-SA", "SGHMC-SA", "A-SGHMC-EM", "A-SGHMC")
RIVALS = (("S=90", "Targeted dropout"), ("S=94.5", "BC-GHS"))  # published beside Table 3: other networks
_HELD_NAMES = ("as learned", "σ² held at 3", "slab held", "both held", "σ² held, widths kept", "β₃ in the slab")


def regression(
    rows: Sequence[Mapping], methods: Sequence[str] = REGRESSION_METHODS, metric: str = "mse_test"
) -> Figure:
    """Test error of every data set beside the published number, and the intervals that hold their coefficient.

    Args:
        rows: from `book.lab.compare("aeb-regression")`.
        methods: in the order of their looks.
        metric: "mse_test" or "mae_test".
    """
    with style_context():
        fig, (left, right) = figure(2, height=4.0)
        _errors(left, rows, methods, metric)
        _intervals(right)
        panel_letters([left, right])
    return fig


def _errors(panel: Axes, rows: Sequence[Mapping], methods: Sequence[str], metric: str) -> None:
    any_ours = False
    for k, (method, look) in enumerate(line_styles(methods).items()):
        for place, setting in enumerate(REGRESSION_SETTINGS):
            x = place + 0.25 * (k - (len(methods) - 1) / 2)
            errors = stored_values("aeb-regression", setting, method, metric)
            if len(errors):
                any_ours = True
                replicate_points(panel, errors, x, look["color"], upright=True, width=0.06)
                panel.plot([x], [errors.mean()], **look | {"linestyle": "none", "ms": 6, "mec": "white", "label": "_"})
            if np.isfinite(printed := cell(rows, setting, method, metric)[2]):
                panel.plot([x + 0.1], [printed], marker="<", ms=7, mfc="white", color=look["color"], ls="none")
        panel.plot([], [], **look | {"linestyle": "none"})
    panel.plot([], [], marker="<", ms=7, mfc="white", color=INK, ls="none", label="published")
    if not any_ours:
        missing(panel, empty=False)
    names = [setting.replace("v0=", "").replace(", sigma=", "\n") for setting in REGRESSION_SETTINGS]
    panel.set_xticks(range(4), names, size="small")
    panel.set(yscale="log", xlabel="v₀ (above), σ (below)", ylabel=f"test {metric[:3].upper()}", title="Table 1")
    panel.set_xlim(-0.5, 3.5)
    _legend_below(panel, "panel a")


def _legend_below(panel: Axes, title: str) -> None:
    panel.grid(axis="x", visible=False)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.32), ncols=2, fontsize="small", title=title)


def _intervals(panel: Axes) -> None:
    for k, (method, look) in enumerate(zip(HELD, line_styles(_HELD_NAMES).values(), strict=True)):
        shares = [stored_values("aeb-coverage", COVERED, method, f"covered_beta{j}") for j in (1, 2, 3)]
        if len(shares[0]):
            place = np.arange(3) + 0.13 * (k - 2.5)
            panel.plot(place, [share.mean() for share in shares], **look | {"linestyle": "none"})
    if not panel.get_lines():
        missing(panel)
        return
    panel.axhline(95, color=INK, lw=1, ls=":", marker="none")
    panel.set_xticks(range(3), ["β₁ = 3", "β₂ = 2", "β₃ = 1"])
    panel.set(ylim=(0, 104), ylabel="intervals that hold it (%)", title="95 % intervals", xlim=(-0.5, 2.5))
    _legend_below(panel, "panel b")


def uci_differences() -> Figure:
    """RMSE of A-SGHMC-SA less that of each other, as a share of its own, paired over the 20 standard splits.

    Bars are intervals of 95 % that take into account how far the splits overlap.
    """
    method = "A-SGHMC-SA"
    panels = {"rmse_test": "the last draw", "rmse_test_average": "average of the second half"}
    with style_context():
        fig, axes = figure(2, height=4.2, sharey=True)
        for panel, (metric, title) in zip(axes, panels.items(), strict=True):
            for k, (other, look) in enumerate(line_styles(UCI_RIVALS).items()):
                for place, name in enumerate(UCI_SETS):
                    mean, error, number = lab.paired_difference("aeb-uci", name, method, other, metric)
                    if number < 2:
                        continue
                    unit = 100.0 / stored_values("aeb-uci", name, method, metric).mean()
                    look = look | {"linestyle": "none", "ms": 5, "label": "_" if place else other}
                    bar = {"xerr": unit * lab.half(error, number), "capsize": 0}
                    panel.errorbar(unit * mean, -place - 0.14 * (k - 2), **bar, **look)
            if not panel.containers:
                missing(panel)
                continue
            panel.axvline(0, color=INK, lw=1, ls=":", marker="none")
            panel.set(title=title, xlabel="difference of RMSE (%)")
            panel.set_xscale("symlog", linthresh=10, linscale=1.5)
            panel.set_xlim(-320, 16)
            panel.set_xticks([-100, -10, 0, 10], ["−100", "−10", "0", "10"])
            panel.set_yticks(-np.arange(len(UCI_SETS)), UCI_SETS.values())
            panel.grid(axis="y", visible=False)
        stand_alone(axes)
        legend_below(fig, axes[0], ncols=3)
        panel_letters(axes)
    return fig


def resnet20(rows: Sequence[Mapping]) -> Figure:
    """Test accuracy of ResNet20 on CIFAR-10 against the share of weights that are zero: Table 3 and ours.

    Args:
        rows: from `book.lab.compare("aeb-resnet20")`, with settings "S=30" to "S=94.5".
    """
    sparsity = (30, 50, 70, 90)
    settings = [f"S={value}" for value in sparsity]
    with style_context():
        fig, (left, right) = figure(2, height=3.6)
        looks = line_styles(RESNET_METHODS)
        found = {m: np.array([cell(rows, setting, m, "accuracy") for setting in settings]) for m in looks}
        for panel, column in ((left, 2), (right, 0)):
            lines = {method: values[:, column] for method, values in found.items()}
            for place, (method, values) in enumerate(lines.items()):
                known = np.isfinite(values)
                aside, look = (0.0, {}) if panel is left else (3.0 * (place - 1.5), {"linestyle": "none"})
                panel.plot(np.array(sparsity)[known] + aside, values[known], **looks[method] | look)
            if not np.isfinite(list(lines.values())).any():
                missing(panel)
            panel.set(xlabel="weights set to zero (%)", xticks=sparsity, xlim=(22, 98), ylabel="test accuracy (%)")
        for (setting, method), marker in zip(RIVALS, "*P", strict=True):
            spot = float(setting.removeprefix("S=")), cell(rows, setting, method, "accuracy")[2]
            left.plot(*spot, marker=marker, ms=9, ls="none", mfc="white", color=INK, label=f"published: {method}")
        left.set_title("published, best epoch")
        for place, (method, look) in enumerate(looks.items()):
            for value, setting in zip(sparsity, settings, strict=True):
                runs = replicates(rows, setting, method, "accuracy")
                right.plot(np.full(len(runs), value + 3.0 * (place - 1.5) + 1.5), runs, ".", color=look["color"], ms=5)
        right.set_title("ours, last epoch")
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, columnspacing=1.0)
        panel_letters([left, right])
    return fig

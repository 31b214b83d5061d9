"""Pictures of stored results of the chapter on learned priors: regression, UCI, images, attacks, ResNet20.

A result that has not been run, or only at the smoke profile's sizes, leaves its panels with the words "not run".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book.display.panels import missing, replicate_points
from book.display.style import INK, figure, line_styles, panel_letters, style_context
from book.lab.queries import replicates, stored_arrays, stored_mean, stored_values

REGRESSION_METHODS = ("SGLD-SA", "SGLD-EM", "SGLD")
REGRESSION_SETTINGS = ("v0=0.01, sigma=2", "v0=0.1, sigma=2", "v0=0.01, sigma=1", "v0=0.1, sigma=1")
UCI_SETS = {"boston": "Boston", "yacht": "Yacht", "energy": "Energy", "wine-red": "Wine", "concrete": "Concrete"}
UCI_METHODS = ("SGHMC", "A-SGHMC", "SGHMC-EM", "A-SGHMC-EM", "SGHMC-SA", "A-SGHMC-SA")
IMAGE_METHODS = ("SGHMC-SA", "SGHMC", "Dropout", "Vanilla")
RESNET_METHODS = ("A-SGHMC-SA", "SGHMC-SA", "A-SGHMC-EM", "A-SGHMC")
_PARTS = ("samples", "beta mean", "fit train", "fit test")
Arrays = Mapping[tuple[str, str, int, str], np.ndarray]


def _named(arrays: Arrays, replicate: int = 0) -> dict[str, np.ndarray]:
    """{array name: float64 array} of one replicate; half precision would overflow in sums."""
    return {key[3]: np.asarray(value, dtype=float) for key, value in arrays.items() if key[2] == replicate}


def _pretty(setting: str) -> str:
    return setting.replace(", ", "\n").replace("sigma", "σ").replace("v0", "v₀").replace("=", " = ")


def _published(rows: Sequence[Mapping], setting: str, method: str, metric: str) -> tuple[float, float]:
    """(value, spread) as printed; NaN for what was not."""
    for row in rows:
        if (row["setting"], row["method"], row["metric"]) == (setting, method, metric):
            return tuple(np.nan if row.get(key) is None else row[key] for key in ("published", "published_sd"))
    return np.nan, np.nan


def _ours(rows: Sequence[Mapping], settings: Sequence[str], method: str, metric: str, key: str = "mean") -> np.ndarray:
    """One number (its mean, or `key`) for each setting; NaN where nothing was run beyond smoke."""
    found = {row["setting"]: row for row in rows if (row["method"], row["metric"]) == (method, metric)}
    known = [stored_mean(rows, setting, method, metric) is not None for setting in settings]
    values = [found[setting][key] if k else None for setting, k in zip(settings, known, strict=True)]
    return np.array([np.nan if value is None else float(value) for value in values])


def regression(arrays: Arrays | None = None, methods: Sequence[str] = REGRESSION_METHODS) -> Figure:
    """Figure 1 of the paper: densities of beta1 to beta3 with 95 % intervals, fits, and all estimated coefficients.

    Args:
        arrays: with the keys of `book.lab.load_arrays`; those stored for "aeb-regression" when omitted. The first
            replicate's "samples METHOD" (draws, 3), "beta mean METHOD" (p,), "fit train METHOD" and "fit test METHOD"
            (n, 2; observed, predicted) and "coefficients" (3,), the true ones, are drawn.
        methods: in the order of their looks.
    """
    kept = _named(stored_arrays("aeb-regression") if arrays is None else arrays)
    with style_context():
        fig, axes = figure(2, nrows=3, height=2.75)
        panels = list(axes.flat)
        looks = {name: look for name, look in line_styles(methods).items() if f"samples {name}" in kept}
        diverged = [name for name in looks if not all(np.isfinite(kept[f"{part} {name}"]).all() for part in _PARTS)]
        looks = {name: look for name, look in looks.items() if name not in diverged}
        for panel in panels if not looks else ():
            missing(panel)
        for j, panel in enumerate(panels[:3]):
            _draws(panel, {name: kept[f"samples {name}"][:, j] for name in looks}, looks)
            if "coefficients" in kept:
                panel.axvline(kept["coefficients"][j], color=INK, lw=1, ls=":", marker="none")
            panel.set(title=f"posterior of $β_{j + 1}$", xlabel=f"$β_{j + 1}$", ylabel="density")
        for panel, part in zip(panels[3:5], ("train", "test"), strict=True):
            pairs = {name: kept[f"fit {part} {name}"] for name in looks}
            for name, pair in pairs.items():
                look = {key: looks[name][key] for key in ("color", "marker")}
                panel.plot(*pair.T, ls="none", ms=4, alpha=0.7, **look)
            if pairs:
                ends = [np.min(list(pairs.values())), np.max(list(pairs.values()))]
                panel.plot(ends, ends, color=INK, lw=1, ls=":", marker="none")
            panel.set(title=f"fit, {part} rows", xlabel="observed y", ylabel="predicted y")
        for name in reversed(looks):  # the first method is drawn last, on top
            beta = kept[f"beta mean {name}"]
            look = {key: looks[name][key] for key in ("color", "marker")}
            panels[5].semilogx(np.arange(1, len(beta) + 1), beta, ls="none", ms=3.5, alpha=0.7, **look)
        panels[5].set(title="posterior means", xlabel="coefficient j", ylabel="$β_j$")
        handles = [panels[0].plot([], [], **look)[0] for look in looks.values()]
        if handles:
            fig.legend(handles, looks, loc="outside lower center", ncols=3)
        if diverged:
            fig.suptitle(f"diverged, not drawn: {', '.join(diverged)}", size="medium")
        panel_letters(panels)
    return fig


def _draws(panel: Axes, draws: Mapping[str, np.ndarray], looks: Mapping[str, Mapping]) -> None:
    """Histograms, and below them the central 95 % interval and the mean of each method."""
    if not draws:
        return
    low, high = (np.quantile(np.concatenate(list(draws.values())), q) for q in (0.001, 0.999))
    edges = np.linspace(low, high, 61)
    top = 0.0
    for name, values in draws.items():
        counts, _ = np.histogram(values, bins=edges)
        heights = counts / (len(values) * (edges[1] - edges[0]))
        panel.stairs(heights, edges, color=looks[name]["color"], ls=looks[name]["linestyle"], lw=1.5)
        top = max(top, heights.max())
    for k, (name, values) in enumerate(draws.items()):
        y, look = -0.08 * top * (k + 1), looks[name]
        ends = np.quantile(values, (0.025, 0.975))
        panel.plot(ends, [y, y], color=look["color"], ls="-", lw=2.5, marker="|", ms=7)
        panel.plot([values.mean()], [y], color=look["color"], ls="none", marker=look["marker"], ms=5)
    panel.set_ylim(-0.08 * top * (len(draws) + 1), 1.05 * top)


def regression_errors(
    rows: Sequence[Mapping],
    values: Mapping[tuple[str, str], np.ndarray] | None = None,
    methods: Sequence[str] = REGRESSION_METHODS,
    metric: str = "mse_test",
) -> Figure:
    """Test error of every data set and their mean, beside the published number.

    Args:
        rows: from `book.lab.compare("aeb-regression")`.
        values: {(setting, method): one error for each data set}; those stored when omitted.
        methods: in the order of their looks.
        metric: "mse_test" or "mae_test".
    """
    if values is None:
        keys = [(setting, method) for setting in REGRESSION_SETTINGS for method in methods]
        values = {key: stored_values("aeb-regression", *key, metric) for key in keys}
    with style_context():
        fig, axes = figure(1, height=3.8)
        for k, (method, look) in enumerate(line_styles(methods).items()):
            for place, setting in enumerate(REGRESSION_SETTINGS):
                x = place + 0.25 * (k - (len(methods) - 1) / 2)
                errors = np.asarray(values.get((setting, method), ()), dtype=float)
                if len(errors):
                    replicate_points(axes, errors, x, look["color"], upright=True, width=0.06)
                    middle = {"linestyle": "none", "ms": 6.5, "mec": "white", "label": "_mean"}
                    axes.plot([x], [np.mean(errors)], **look | middle)
                if (printed := _published(rows, setting, method, metric)[0]) == printed:
                    axes.plot([x + 0.1], [printed], marker="<", ms=8, mfc="white", color=look["color"], ls="none")
            axes.plot([], [], **look | {"linestyle": "none"})
        axes.plot([], [], marker="<", ms=8, mfc="white", color=INK, ls="none", label="published")
        if not any(np.size(errors) for errors in values.values()):
            missing(axes, empty=False)
        axes.set_xticks(range(4), [_pretty(setting) for setting in REGRESSION_SETTINGS])
        axes.set(yscale="log", ylabel=f"test {metric[:3].upper()}", xlim=(-0.5, 3.5))
        axes.grid(axis="x", visible=False)
        fig.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, columnspacing=1.0)
    return fig


def uci(rows: Sequence[Mapping]) -> Figure:
    """Test RMSE of the six methods on five sets, each split and mean ± standard error, beside the published values.

    Args:
        rows: from `book.lab.compare("aeb-uci")`.
    """
    place, kinds = np.arange(len(UCI_METHODS))[::-1], {"": "20 standard splits", ", random splits": "random splits"}
    with style_context():
        fig, axes = figure(2, nrows=3, height=2.8, sharey=True)
        for panel, (name, title) in zip(axes.flat, UCI_SETS.items(), strict=False):
            printed = [_published(rows, name, method, "rmse_test") for method in UCI_METHODS]
            value, spread = np.array(printed).T
            looks = line_styles([*kinds.values(), "published"])
            offset = {"": 0.24, ", random splits": 0.0}
            for suffix, label in kinds.items():
                mean, error = (
                    np.array([_ours(rows, [name + suffix], method, "rmse_test", key)[0] for method in UCI_METHODS])
                    for key in ("mean", "se")
                )
                look = looks[label] | {"linestyle": "none"}
                for method, spot in zip(UCI_METHODS, place + offset[suffix], strict=True):
                    splits = replicates(rows, name + suffix, method, "rmse_test")
                    replicate_points(panel, splits, spot, look["color"], width=0.06)
                panel.errorbar(mean, place + offset[suffix], xerr=np.nan_to_num(error), capsize=2, **look)
                if suffix == "" and not np.isfinite(mean).any():
                    title += " (ours: not run)"  # words inside the panel would hide a published value
            look = looks["published"] | {"linestyle": "none", "mfc": "white"}
            panel.errorbar(value, place - 0.24, xerr=np.nan_to_num(spread), capsize=2, **look)
            panel.set(title=title, xlabel="test RMSE", ylim=(-0.6, 5.6))
            panel.set_yticks(place, UCI_METHODS, size="small")
        axes.flat[-1].set_axis_off()
        axes.flat[-1].legend(*axes.flat[0].get_legend_handles_labels(), loc="center")
        panel_letters(axes.flat[:-1])
    return fig


def mnist(arrays: Mapping[str, Arrays] | None = None) -> Figure:
    """Test accuracy during training: of the average of all draws so far, and (thin) of each draw alone.

    Args:
        arrays: {setting: stored arrays of its experiment}; "MNIST" and "Fashion-MNIST" from the store when omitted.
            "curve" has rows (step, accuracy of the draw, accuracy of the average), the accuracies in percent.
    """
    if arrays is None:
        arrays = {"MNIST": stored_arrays("aeb-mnist"), "Fashion-MNIST": stored_arrays("aeb-fmnist")}
    with style_context():
        fig, axes = figure(2, height=3.4, squeeze=False)
        looks = line_styles(IMAGE_METHODS)
        for panel, (setting, kept) in zip(axes.flat, arrays.items(), strict=True):
            curves = {name: kept.get((setting, name, 0, "curve")) for name in looks}
            curves = {name: curve for name, curve in curves.items() if curve is not None}
            for name, curve in curves.items():
                step, single, average = np.asarray(curve, dtype=float).T
                panel.plot(step, single, color=looks[name]["color"], lw=0.7, ls="-", marker="none", alpha=0.7)
                panel.plot(step, average, **looks[name] | {"markevery": max(1, len(step) // 8)})
            if curves:
                # the first draws are far below what tells the methods apart
                late = np.concatenate([np.asarray(curve)[len(curve) // 4 :, 1:] for curve in curves.values()])
                panel.set_ylim(late.min() - 0.1 * np.ptp(late), late.max() + 0.1 * np.ptp(late))
                panel.set_xlim(left=0)
            else:
                missing(panel)
            panel.set(title=setting, xlabel="step", ylabel="test accuracy (%)")
        handles = [axes[0, 0].plot([], [], **look)[0] for look in looks.values()]
        fig.legend(handles, looks, loc="outside lower center", ncols=4, columnspacing=1.2)
        panel_letters(axes)
    return fig


def fgsm(rows: Sequence[Mapping], names: Sequence[str] = ("MNIST", "Fashion-MNIST")) -> Figure:
    """Figure 2 of the paper: test accuracy under the fast gradient sign attack against its size.

    Args:
        rows: from `book.lab.compare("aeb-fgsm")`, with settings such as "MNIST zeta=0.2".
        names: of the data sets, one panel each. Published values are open and set side by side.
    """
    with style_context():
        fig, axes = figure(2, height=3.5, squeeze=False, sharey=True)
        for panel, data in zip(axes.flat, names, strict=True):
            sizes = {row["setting"]: re.fullmatch(rf"{data} zeta=([0-9.]+)", row["setting"]) for row in rows}
            sizes = sorted((float(match[1]), setting) for setting, match in sizes.items() if match)
            zeta, settings = [size for size, _ in sizes], [setting for _, setting in sizes]
            any_ours = False
            for k, (method, look) in enumerate(line_styles(IMAGE_METHODS).items()):
                mean = _ours(rows, settings, method, "accuracy")
                any_ours |= bool(np.isfinite(mean).any())
                panel.plot(zeta, mean, **look)
                printed = [_published(rows, setting, method, "accuracy")[0] for setting in settings]
                aside = np.array(zeta) + 0.014 * (k - 1.5)  # published values differ by less than a marker
                panel.plot(aside, printed, **look | {"linestyle": "none", "mfc": "white", "label": "_published"})
            if not any_ours:
                missing(panel, empty=not settings)
            panel.set(title=data, xlabel="size ζ of the attack", ylim=(0, 101))
        axes[0, 0].set_ylabel("test accuracy (%)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        handles += axes[0, 0].plot([], [], ls="none", marker="o", mfc="white", color=INK)
        fig.legend(handles, [*labels, "published (open)"], loc="outside lower center", ncols=3)
        panel_letters(axes)
    return fig


def resnet20(rows: Sequence[Mapping], metric: str = "accuracy") -> Figure:
    """Test accuracy of ResNet20 on CIFAR-10 against the share of weights that are zero: Table 3 and ours.

    Args:
        rows: from `book.lab.compare("aeb-resnet20")`, with settings "S=30" to "S=90".
        metric: "accuracy" of the last epoch, or "accuracy_best_epoch".
    """
    sparsity = (30, 50, 70, 90)
    settings = [f"S={value}" for value in sparsity]
    with style_context():
        fig, (left, right) = figure(2, height=3.4)
        looks = line_styles(RESNET_METHODS)
        drawn = {
            left: {m: [_published(rows, setting, m, metric)[0] for setting in settings] for m in looks},
            right: {m: _ours(rows, settings, m, metric) for m in looks},
        }
        for panel, curves in drawn.items():
            for method, values in curves.items():
                panel.plot(sparsity, values, **looks[method])
            if not np.isfinite(list(curves.values())).any():
                missing(panel)
            panel.set(xlabel="weights set to zero (%)", xticks=sparsity, xlim=(27, 93), ylabel="test accuracy (%)")
        left.set_title("published, best epoch")
        right.set_title("ours, last epoch" if metric == "accuracy" else "ours, best epoch")
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4, columnspacing=1.0)
        panel_letters([left, right])
    return fig

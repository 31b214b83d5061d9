"""Pictures of stored results: the ring by iteration, images by iteration and by rejection rate.

What has not been run leaves its curve out; the picture then says so.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book import lab
from book.display.panels import legend_below, missing
from book.display.style import INK, figure, line_styles, panel_letters, stand_alone, style_context
from book.lab.queries import series

Rows = Sequence[Mapping]
TOY_METHODS = ("CCE", "UB", "MCE, Markov", "UB, Markov")
RAW, INDEPENDENT, RANDOM = "Raw", "Independent, CCE", "Random discriminator"
IMAGE_METHODS = (INDEPENDENT, "Markov, UB", "Markov, MCE")
GENERATORS = ("WGAN-GP", "VAE")
DATA = {"mnist": "MNIST", "fmnist": "Fashion-MNIST"}
SHOWN, ACROSS = 18, 6  # images in a panel, and in a row of it
# The first test images, 2 SHOWN of each data set, shape (n, 28, 28), as bytes: the sets need not be at hand.
REAL = Path(__file__).with_name("real.npz")


def over_iterations(rows: Rows, setting: str, method: str, metric: str) -> np.ndarray:
    """Columns (iteration, mean, standard error) of what is stored, shape (found, 3).

    Args:
        rows: from `book.lab.compare`.
        setting: of the ring, or the generator of images.
        method, metric: of the rows.
    """
    pattern = re.escape(setting) + r"(?:/(\d+)|, (\d+) iterations)"
    places = {}
    for row in rows:
        if found := re.fullmatch(pattern, row["setting"]):
            places[float(found[1] or found[2])] = row["setting"]
    table = series(rows, places, method, metric)[:, :3]
    return table[np.isfinite(table[:, 1])]


def _draw(panel: Axes, table: np.ndarray, look: Mapping) -> bool:
    if len(table):
        panel.errorbar(*table[:, :2].T, np.nan_to_num(table[:, 2]), capsize=2, **look)
    return bool(len(table))


def _iterations(panel: Axes) -> None:
    panel.set_xscale("symlog", linthresh=50)
    ends = [line.get_xdata().max() for line in panel.get_lines() if len(line.get_xdata()) > 2]
    panel.set_xlim(0, 1.2 * max(ends, default=1))
    panel.set_xticks([0, 100, 1000])  # 10, in the linear part, would touch the 0
    panel.set_xlabel("iteration")


def toy_curves(rows: Rows) -> Figure:
    """The ring: distance, acceptance, gap, and the two settings in which the chain cannot succeed.

    Args:
        rows: from `book.lab.compare("imh-toy")`.
    """
    with style_context():
        fig, axes = figure(2, nrows=2, height=3.0)
        for panel, metric in zip(axes.flat, ("chain_tv", "acceptance_rate", "gap"), strict=False):
            looks = line_styles(TOY_METHODS).items()
            drawn = [_draw(panel, over_iterations(rows, "bridges", name, metric), look) for name, look in looks]
            if not any(drawn):
                missing(panel)
        for metric in ("proposal_tv", "floor_tv"):
            for _, level, _ in over_iterations(rows, "bridges", "CCE", metric)[:1]:
                axes[0, 0].axhline(level, color=INK, lw=1, ls=":", marker="none")
        last = axes[1, 1]
        names = {"bridges": "4,000 points", "30 points": "30 points", "five modes": "a mode missing"}
        looks = line_styles(list(names.values())).items()
        for setting, (_, look) in zip(names, looks, strict=True):
            _draw(last, over_iterations(rows, setting, "CCE", "chain_tv"), look)
        last.axhline(1 / 6, color=INK, lw=1, ls=":", marker="none")
        titles = ("distance of the chain", "acceptance rate (%)", "gap (nats)", "when it cannot succeed")
        for panel, title in zip(axes.flat, titles, strict=True):
            _iterations(panel)
            panel.set(title=title, ylim=(0, None))
        if last.get_legend_handles_labels()[0]:
            last.legend(fontsize="small", loc="upper left")
            last.set_ylim(0, 0.7)
            fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        panel_letters(axes.flat)
    return fig


def image_sheets() -> Figure:
    """The first images of the first stored run, raw and after its chains, beside real ones; titles say feature-FIDs."""
    sheets = {(name, *key): one for name in DATA for key, one in lab.stored_arrays(f"imh-{name}").items()}
    with style_context(), np.load(REAL) as real:
        fig, axes = figure(3, nrows=4, height=1.65)
        kinds = [(name, generator) for name in DATA for generator in GENERATORS]
        for row, (name, generator) in enumerate(kinds):
            part = slice(SHOWN * (row % 2), SHOWN * (row % 2 + 1))
            axes[row, 0].set_ylabel(f"{DATA[name]}\n{'GAN' if generator == GENERATORS[0] else generator}", size="small")
            for panel, method, word in zip(axes[row], (RAW, INDEPENDENT), ("raw", "chain"), strict=False):
                sheet = sheets.get((name, generator, method, 0, "sheet"))
                if sheet is None:
                    missing(panel)
                    continue
                fid = lab.stored_values(f"imh-{name}", generator, method, "feature_fid")[0]
                _tile(panel, sheet[:SHOWN, 0], f"{word}, {fid:.0f}")
            _tile(axes[row, 2], real[name][part], "real")
    return fig


def _tile(panel: Axes, images: np.ndarray, title: str) -> None:
    """Images side by side in rows, dark on white as in print."""
    side = images.shape[-1]
    whole = images.reshape(-1, ACROSS, side, side).swapaxes(1, 2).reshape(-1, ACROSS * side)
    panel.imshow(whole, cmap="gray_r", vmin=0, vmax=255)
    panel.set(title=title, xticks=[], yticks=[])
    panel.spines[:].set(visible=True, color="0.7")
    panel.grid(visible=False)


def image_curves(rows: Mapping[str, Rows]) -> Figure:
    """Feature-FID, relative to the raw generator's, and score by iteration of the discriminator, for both generators.

    Args:
        rows: {data set: rows of its experiment}, see `DATA`.
    """
    with style_context():
        fig, axes = figure(2, nrows=2, height=2.9, sharex=True, sharey="row")
        top = 1.25
        for column, (name, title) in enumerate(DATA.items()):
            found = rows.get(name, [])
            for panel, metric in zip(axes[:, column], ("feature_fid", "classifier_score"), strict=True):
                relative, drawn = metric == "feature_fid", False
                panel.set_title(title)
                for generator, look in line_styles(GENERATORS).items():
                    table = over_iterations(found, generator, INDEPENDENT, metric)
                    level = lab.stored_mean(found, generator, RAW, metric)
                    if relative and level is not None:
                        table, level = table / [1.0, level, level], 1.0
                        top = max(top, *np.nansum(table[:, 1:], axis=1)) if len(table) else top
                    drawn |= _draw(panel, table, look)
                    if level is not None:
                        panel.axhline(level, color="0.5" if relative else look["color"], lw=1, ls=":", marker="none")
                if not drawn:
                    missing(panel)
                    continue
                _iterations(panel)
                if relative:
                    panel.set_ylim(0.0, 1.05 * top)
        axes[0, 0].set_ylabel("feature-FID / raw")
        axes[1, 0].set_ylabel("classifier score")
        stand_alone(axes)
        legend_below(fig, axes, ncols=3)
        panel_letters(axes.flat)
    return fig


def rejection_curves(rows: Mapping[str, Rows]) -> Figure:
    """Feature-FID of the GAN against the rate of refused proposals, a point for each snapshot of the discriminator.

    Args:
        rows: {data set: rows of its experiment}.
    """
    with style_context():
        fig, axes = figure(2, height=3.2)
        for panel, (name, title) in zip(axes, DATA.items(), strict=True):
            found, drawn = rows.get(name, []), False
            for method, look in line_styles(IMAGE_METHODS).items():
                quality = over_iterations(found, GENERATORS[0], method, "feature_fid")
                rate = over_iterations(found, GENERATORS[0], method, "acceptance_rate")
                both = [(100 - b[1], *a[1:]) for a in quality for b in rate if a[0] == b[0] > 0]
                drawn |= _draw(panel, np.array(both).reshape(-1, 3), look)
            if not drawn:
                missing(panel)
            panel.set(title=title, xlabel="refused (%)")
        axes[0].set_ylabel("feature-FID")
        legend_below(fig, axes, ncols=3)
        panel_letters(axes)
    return fig


def failing_ring(rows: Rows, settings: Mapping[str, str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Distance of the chain by iteration, CCE, for the gallery; NaN where nothing is stored.

    Args:
        rows: from `book.lab.compare("imh-toy")`.
        settings: {name of the curve: setting}.
    """
    return {name: _curve(over_iterations(rows, one, "CCE", "chain_tv")) for name, one in settings.items()}


def narrowing(rows: Mapping[str, Rows]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Feature-FID and recall by iteration, each as a ratio to the raw generator, of the first data set that is stored.

    Args:
        rows: {data set: rows of its experiment}.
    """
    curves = {"feature-FID": "feature_fid", "recall": "recall"}
    for name in DATA:
        found = rows.get(name, [])
        tables = {word: over_iterations(found, GENERATORS[0], INDEPENDENT, metric) for word, metric in curves.items()}
        levels = {word: lab.stored_mean(found, GENERATORS[0], RAW, metric) for word, metric in curves.items()}
        if all(map(len, tables.values())) and all(levels.values()):
            return {word: _curve(table / [1.0, levels[word], 1.0]) for word, table in tables.items()}
    return {word: _curve(np.empty((0, 3))) for word in curves}


def _curve(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (table[:, 0], table[:, 1]) if len(table) else (np.array([0.0, 1.0]), np.full(2, np.nan))

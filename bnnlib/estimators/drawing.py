"""What the pictures of the estimators share: axes, names of inputs, colors for white and dark grounds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

# On white and on a ground of #222222 each has a contrast of at least 3 : 1, and every pair stays apart under simulated
# protanopia, deuteranopia and tritanopia (the tests compute both). Line style and marker say the same as the color.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#B65F96")
GRAY = "#808080"  # of what is beside the point
PLAIN = {"linestyle": "-", "marker": "none"}  # a style may cycle through lines and markers
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_LONGEST = 24  # letters of a name


def pyplot() -> Any:
    """matplotlib's pyplot, which is imported when the first picture is drawn."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "pictures are drawn with matplotlib, which is not installed. Install the extra: "
            "`pip install 'bnnlib[plot]'`, or matplotlib itself. Fits and predictions work without it."
        ) from error
    return pyplot


def one_axes(ax: Any, size: tuple[float, float]) -> Any:
    """The axes that are given, or those of a new figure of so many inches."""
    plt = pyplot()
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def several_axes(ax: Any, count: int) -> np.ndarray:
    """`count` axes (count,): of a new figure with up to three in a row, or those that are given."""
    plt = pyplot()
    if ax is None:
        columns = min(count, 3)
        rows = -(-count // columns)
        size = (0.8 + 2.6 * columns, 2.7 * rows)
        every = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharey=True)[1].ravel()
        for spare in every[count:]:
            spare.set_visible(False)
        return every[:count]
    given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(given) != count:
        raise ValueError(
            f"ax holds {len(given)} axes, but {count} are drawn, one for each feature. Give as many, or ax=None."
        )
    return given


def ink() -> str:
    """The color of text, dark or light as the style has it."""
    return pyplot().rcParams["text.color"]


def look(number: int) -> dict[str, Any]:
    """Color, line style and marker of one of several lines; the first forty are told apart."""
    round_ = number // len(COLORS)
    return {
        "color": COLORS[number % len(COLORS)],
        "linestyle": LINES[(number + round_) % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def names_of(model: Any, count: int) -> list[str]:
    """Names of the inputs as they stand on an axis: those of a DataFrame, or numbers."""
    names = getattr(model, "feature_names_in_", None)
    return [f"input {j}" for j in range(count)] if names is None else [shortened(str(name)) for name in names]


def shortened(name: str) -> str:
    # a dollar sign would begin a formula
    name = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return name.replace("$", r"\$")


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def wilson(hits: Sequence[int] | np.ndarray, rows: Sequence[int] | np.ndarray, level: float) -> np.ndarray:
    """Bounds of a share from `hits` of `rows`, (bins, 2): Wilson's interval, which holds for 0 and for all, too."""
    pairs = zip(hits, rows, strict=True)
    return np.array([binomtest(int(k), int(n)).proportion_ci(level, "wilson") for k, n in pairs])


def note(ax: Any, words: str) -> None:
    """What has to be said on the picture, small and above the axes."""
    ax.set_title(words, loc="left", fontsize="small", wrap=True)


def unit_axis(axis: Any, label: str) -> None:
    """An axis of probabilities or shares, whole from 0 to 1."""
    axis.axes.set(**{f"{axis.axis_name}lim": (-0.03, 1.03), f"{axis.axis_name}label": label})

"""Pictures of what random statistics do to the logits of an image: margins and spreads, and their explorer."""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm
from torch import Tensor

from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Band, Line, Panel, Picture, Points, Rule
from book.display.style import figure, line_styles, panel_letters, style_context
from chapters.batch_statistics.noise import average_of, distances, entropy_of, leading, sigmoid, temperature_of

_MARGINS = np.linspace(-2.0, 12.0, 141)
_STOPS = tuple(round(0.5 * k, 1) for k in range(21))  # of the margin
_SPREADS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)


def margins(logits: Tensor, known: int) -> Figure:
    """Spread over margin of every image, and what is left of the spread in the probability.

    Args:
        logits: under draws of the statistics, shape (draws, images, classes); known images first.
        known: how many are known.
    """
    away = distances(logits)
    margin, spread = away.mean(0), away.std(0)
    first = leading(logits)[:, :1].expand(len(logits), -1, 1)
    moved = logits.softmax(-1).gather(-1, first)[..., 0].std(0)
    with style_context():
        fig, (left, right) = figure(2, height=3.6)
        names = {"known": slice(0, known), "unknown": slice(known, None)}
        for (name, part), look in zip(names.items(), line_styles(list(names)).values(), strict=True):
            points = look | {"linestyle": "none", "ms": 5, "alpha": 0.65, "label": name}
            left.plot(margin[part], spread[part], **points)
            right.plot(margin[part], moved[part], **points)
        left.set(xlabel="margin (logits)", ylabel="spread (logits)", ylim=(0, None))
        right.set(xlabel="margin (logits)", ylabel="s.d. of the probability", ylim=(0, None))
        right.legend()
        panel_letters([left, right])
    return fig


def shaken(margin: float, spread: float) -> Picture:
    """One image in a mini-batch drawn at random, and the entropy that images of every margin get.

    Args:
        margin: mean distance of the two largest logits.
        spread: its standard deviation over mini-batches.
    """
    density = norm.pdf(_MARGINS, margin, max(spread, 0.05))
    probability = sigmoid(_MARGINS)
    shape = 0.6 * density / density.max()
    one = [
        Band(_MARGINS, 0, shape, "mini-batches", 2, 0.3),
        Line(_MARGINS, probability, "probability", 0),
        Rule(y=average_of(margin, spread), name="average", look=1),
    ]
    every = [
        Line(_MARGINS, entropy_of(_MARGINS, 0.0), "no draws", "gray", width=1.6),
        Line(_MARGINS, entropy_of(_MARGINS, spread), "averaged", 1),
        Points([margin], [entropy_of(margin, spread)], "this image", look=1, size=10),
    ]
    return Picture(
        [
            Panel("one image", one, "distance of two logits", "probability", (-2, 12), (0, 1.05)),
            Panel("all images", every, "margin", "entropy (nats)", (-2, 12), (0, 0.75)),
        ],
        f"average {average_of(margin, spread):.3f}, without draws {sigmoid(margin):.3f}\n"
        f"like a temperature of {temperature_of(spread):.2f}",
    )


def shaken_in_words(margin: float, spread: float) -> str:
    """The alternative text of `shaken`."""
    entropy, plain = entropy_of(margin, spread), entropy_of(margin, 0.0)
    return (
        f"An image of margin {margin:g} whose logits spread by {spread:g}: the probability of its class averages "
        f"{average_of(margin, spread):.3f}, without draws {sigmoid(margin):.3f}. The entropy of the average falls as "
        f"the margin grows, and is {entropy:.3f} nats here, without draws {plain:.3f}."
    )


def noise_explorer() -> Explorer:
    """Knobs for the margin of an image and the spread of its logits."""
    controls = {
        "margin": Control("Margin", _STOPS, 2.5, format=".1f"),
        "spread": Control("Spread", _SPREADS, 2.0, format=".2f"),
    }
    return curves(shaken, controls, title="What does noise do to a sure image?", alt=shaken_in_words)

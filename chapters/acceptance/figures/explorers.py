"""The explorer of the chapter: two densities move apart, and with them acceptance, distances, bound and chain."""

import numpy as np

from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Band, Line, Panel, Picture, Points, Rule
from chapters.acceptance.pairs import GRID, SHAPES, chain, density, measures, target

_SHOWN = np.abs(GRID) <= 7.0
_X = GRID[_SHOWN][::5]
_DISTANCES = tuple(round(0.25 * k, 2) for k in range(15))
_WIDTHS = (0.25, 0.35, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0)
_STEPS = 60


def pair(distance: float, width: float, shape: str) -> Picture:
    """Target and proposal, acceptance rate and bound over the distance, and the chain's path.

    Args:
        distance: of the proposal's center from the target's.
        width: scale of the proposal; the target's is 1.
        shape: "normal" or "Student t".
    """
    p, q = target()[_SHOWN][::5], density(distance, width, shape)[_SHOWN][::5]
    along = [measures(one, width, shape) for one in _DISTANCES]
    rate, overlap, bound = (np.array([one[name] for one in along]) for name in ("rate", "overlap", "bound"))
    here = measures(distance, width, shape)
    path = chain(distance, width, shape, _STEPS)
    shapes = [Band(_X, 0, np.minimum(p, q), "shared", 2, 0.35), Line(_X, p, "target", 0), Line(_X, q, "proposal", 1)]
    rates = [
        Line(_DISTANCES, overlap, "1 − TV(p, q)", 2),
        Line(_DISTANCES, rate, "acceptance", 0),
        Line(_DISTANCES, np.maximum(bound, 0.0), "bound", 1),
        Rule(x=distance),
        Points([distance], [here["rate"]], look=0, size=10),
    ]
    weight = [Rule(y=0), Line(_X, np.log(p) - np.log(np.maximum(q, 1e-30)), look=0)]
    steps = [Rule(y=0), Line(np.arange(_STEPS), path, look=0, width=1.6)]
    return Picture(
        [
            Panel("densities", shapes, "x", "density", (-7, 7), (0, 1.0)),
            Panel("acceptance", rates, "distance", "", (0, 3.5), (0, 1.05)),
            Panel("weight", weight, "x", "log p − log q", (-7, 7), (-8, 8)),
            Panel("chain", steps, "step", "x", (0, _STEPS), (-7, 7)),
        ],
        f"acceptance {here['rate']:.2f}, 1 − TV(p, q) {here['overlap']:.2f}\n"
        f"symmetric KL {here['kl']:.2f} nats, bound {bound_in_words(here['bound'])}",
    )


def bound_in_words(bound: float) -> str:
    """The bound, where it says something."""
    return f"{bound:.2f}" if bound > 0 else "below 0: it says nothing"


def pair_in_words(distance: float, width: float, shape: str) -> str:
    """The alternative text of `pair`."""
    here = measures(distance, width, shape)
    still = int((np.diff(chain(distance, width, shape, _STEPS)) == 0).sum())
    return (
        f"A standard normal target and a {shape} proposal at distance {distance:g} with width {width:g}: acceptance "
        f"rate {here['rate']:.2f}, lower bound {bound_in_words(here['bound'])}; the chain stays in {still} of "
        f"{_STEPS - 1} steps."
    )


def pair_explorer() -> Explorer:
    """Knobs for the distance, the width and the tails of a proposal."""
    controls = {
        "distance": Control("Distance", _DISTANCES, 1.0, format=".2f"),
        "width": Control("Width", _WIDTHS, 0.5, format="g"),
        "shape": Control("Proposal", SHAPES, "normal", choice=True),
    }
    return curves(pair, controls, title="How much of each other do they accept?", alt=pair_in_words)

"""The explorer of the chapter: how sure the discriminator is and how far its values are bounded, on a line."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import norm

from bnnlib import functional as bF
from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Band, Line, Panel, Picture, Points, Rule
from chapters.implicit_acceptance import formulas
from chapters.shared import finite

_X = np.linspace(-5.0, 5.0, 201)
_WIDTH = _X[1] - _X[0]
_TARGET = 0.5 * norm.pdf(_X, -2.0, 0.6) + 0.5 * norm.pdf(_X, 2.0, 0.6)
_RAW = norm.pdf(_X, 0.0, 2.0)
CONFIDENCE = tuple(round(0.1 * k, 1) for k in range(31))
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWER = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.45)


class Settled(NamedTuple):
    """The law where the chain settles, total variations, acceptance rate, and the bounds (28) and (imh-direct)."""

    law: np.ndarray
    distance: float
    raw_distance: float
    acceptance: float
    bound: float
    direct: float


def line_laws() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(points, target masses, proposal masses) of the example on the line, a finite space of 201 states."""
    return _X, _TARGET / _TARGET.sum(), _RAW / _RAW.sum()


@cache
def settle(confidence: float, lower: float) -> Settled:
    """Independent implicit chain with logit d(x) = confidence * log p(x) / q(x), bounded by (imh-bounded); exact.

    Args:
        confidence: kappa; 1 is the best discriminator, 0 accepts everything.
        lower: b of d(x).
    """
    _, p, q = (torch.as_tensor(one) for one in line_laws())
    logit = bF.bounded_logit(confidence * (p / q).log(), lower)
    law = torch.softmax(q.log() + logit, dim=0)
    ratio = logit[:, None] - logit  # log d(x, y) / d(y, x) at [x, y]
    acceptance = (q[:, None] * law * bF.acceptance_probability(ratio)).sum()
    alpha = p[:, None] * q
    loss = (alpha * (torch.exp(-ratio) - ratio)).sum()
    divergence = (alpha * (alpha / alpha.T).log()).sum()
    gap = (loss - 1.0 + divergence).clamp_min(0.0)
    bound = (formulas.implicit_bound_constant(lower**2) * gap).sqrt()
    direct = (0.5 * (p * (p / law).log()).sum().clamp_min(0.0)).sqrt()
    numbers = (finite.total_variation(law, p), finite.total_variation(q, p), acceptance, bound, direct)
    return Settled(law.numpy(), *map(float, numbers))


def _plain(number: float) -> str:
    """Two digits, with a power of ten where there would be many zeros."""
    digits, power = f"{number:.1e}".split("e")
    return f"{float(f'{number:.2g}'):g}" if number < 9999 else f"{digits} × 10{str(int(power)).translate(_RAISED)}"


def _settled_picture(confidence: float, lower: float) -> Picture:
    found = settle(confidence, lower)
    sweep = [settle(one, lower) for one in CONFIDENCE]
    density = found.law / _WIDTH
    laws = [
        Band(_X, 0, density, "where the chain settles", 2, 0.3),
        Line(_X, _TARGET, "target p", 0),
        Line(_X, _RAW, "generator q", 1),
        Line(_X, density, look=2, dash=0),
    ]
    place = np.array(CONFIDENCE)
    distance, rate = (np.array([getattr(one, name) for one in sweep]) for name in ("distance", "acceptance"))
    shares = [
        Line(place, distance, "TV to p", 2),
        Line(place, rate, "acceptance", 3),
        Rule(y=found.raw_distance, name="TV of q to p", look=1, dash=1),
        Rule(x=confidence),
        Points([confidence], [found.distance], look=2, size=10),
        Points([confidence], [found.acceptance], look=3, size=10),
    ]
    return Picture(
        [
            Panel("laws", laws, "x", "density", (-5, 5), (0, 0.62)),
            Panel("kept and lost", shares, "confidence κ", "share", (0, 3), (0, 1)),
        ],
        f"acceptance {found.acceptance:.2f}; total variation {found.distance:.3f}, of the generator "
        f"{found.raw_distance:.3f}\npromised: at most {_plain(found.bound)} by the paper's (28), "
        f"{found.direct:.2g} without b",
    )


def settled_in_words(confidence: float, lower: float) -> str:
    """The alternative text of the explorer."""
    found = settle(confidence, lower)
    how = "timid" if confidence < 0.8 else "overconfident" if confidence > 1.2 else "about right"
    return (
        f"Confidence {confidence:g} ({how}), b = {lower:g}: the chain accepts {found.acceptance:.2f} of the proposals "
        f"and settles at a total variation of {found.distance:.3f} from the target, the generator being at "
        f"{found.raw_distance:.3f}; the paper's bound promises {_plain(found.bound)}, the one without b "
        f"{found.direct:.2g}."
    )


SETTLED_CONTROLS = {
    "confidence": Control("Confidence κ", CONFIDENCE, 1.0, format=".1f"),
    "lower": Control("Bound b of d", LOWER, 0.01, format=".3f"),
}


def settled_explorer() -> Explorer:
    """Knobs for the discriminator's confidence and its bound: what is accepted, and where the chain settles."""
    title = "Where does the chain settle?"
    return curves(_settled_picture, SETTLED_CONTROLS, title=title, alt=settled_in_words)

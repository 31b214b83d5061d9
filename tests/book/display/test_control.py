"""The knobs of explorers: what is refused, and what the page and the notebook make of them."""

import pytest

from book.display import Control

MANY = range(12)


@pytest.mark.parametrize(
    ("arguments", "kinds", "said"),
    [
        (("", MANY, 1), {}, "needs a label"),
        (("x", (1,), 1), {"discrete": True}, "a knob needs at least 2"),
        (("x", (1, 1), 1), {"choice": True}, "more than once"),
        (("x", MANY, 30), {}, "default 30 is not among values"),
        (("x", (0.11, 0.12), 0.11, ".1f"), {"choice": True}, "more than once"),
    ],
)
def test_a_badly_made_control_is_refused(arguments, kinds, said):
    with pytest.raises(ValueError, match=said):
        Control(*arguments, **kinds)


def test_a_continuous_slider_needs_twelve_stops():
    with pytest.raises(ValueError, match=r"has 11 entries, a continuous slider .* at least 12: .* choice=True .* disc"):
        Control("x", range(11), 1)
    assert Control("x", MANY, 1).values == tuple(MANY)
    assert Control("x", ("a", "b"), "a", choice=True).text("b") == "b"

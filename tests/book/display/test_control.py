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
        (("x", (1, 2, 3), 3, (1, 2)), {"discrete": True}, "default 3 is not among static_values"),
        (("x", (1, 2), 1, (1, 5)), {"discrete": True}, r"static_values \['5'\] are not on the grid"),
        (("x", (0.11, 0.12), 0.11, None, ".1f"), {"choice": True}, "more than once"),
    ],
)
def test_a_badly_made_control_is_refused(arguments, kinds, said):
    with pytest.raises(ValueError, match=said):
        Control(*arguments, **kinds)


@pytest.mark.parametrize("static", [None, range(11)])
def test_a_continuous_slider_needs_twelve_stops(static):
    values = range(11) if static is None else MANY
    with pytest.raises(
        ValueError, match=r"has 11 entries, a continuous slider .* at least 12: .* choice=True .* discrete=True"
    ):
        Control("x", values, 1, static)
    assert Control("x", MANY, 1).static_values == tuple(MANY)
    assert Control("x", ("a", "b"), "a", choice=True).text("b") == "b"

"""Both lives of the explorer in Python: what is refused, which life is shown, what moves with which slider."""

import base64
import gzip
import re

import numpy as np
import pytest
from matplotlib import pyplot as plt

from book.display import Control, Line, Panel, Picture, curves
from tests.refused import refusals


def curve(power, scale):
    x = np.linspace(0, 1, 50)
    return Picture([Panel("Powers", [Line(x, scale * x**power)], ylim=(0, 3))])


CONTROLS = {
    "power": Control("Power", (1, 2, 3), 2, discrete=True),
    "scale": Control("Scale σ", (1.0, 2.0), 1.0, format=".1f", discrete=True),
}


def make(compute=curve, controls=CONTROLS, static=True, alt="A rising curve", **kwargs):
    return curves(compute, controls, title="Powers", alt=alt, static=static, **kwargs)


def test_the_page_holds_what_the_reader_needs_made_once():
    calls = []

    def counted(power, scale):
        calls.append((power, scale))
        return curve(power, scale)

    def alt(power, scale):
        return f'{scale} x^{power} </script> & "quoted"'

    shown = make(counted, alt=alt)
    page, computed = shown.to_html(), len(calls)
    assert set(calls) == {(power, scale) for power in (1, 2, 3) for scale in (1.0, 2.0)}
    assert page.count('type="range"') == page.count("<label>") == page.count("<output") == 2
    assert 'aria-valuetext="2"' in page and 'max="1"' in page
    assert 'alt="1.0 x^2 &lt;/script&gt; &amp; &quot;quoted&quot;"' in page
    assert "The controls need JavaScript; the picture shows Power 2, Scale σ 1.0." in page
    assert page.count("<script") == page.count("</script>") == 2
    assert shown._repr_mimebundle_()["text/html"] == page and len(calls) == computed
    assert shown.gzip_bytes == len(gzip.compress(page.encode(), mtime=0))
    assert make(alt=alt).to_html() == page


@pytest.mark.parametrize("static", [True, False])
def test_no_figure_stays_open(static):
    plt.close("all")
    plt.figure()  # somebody else's

    def leaky(power, scale):
        plt.figure()
        return curve(power, scale)

    made = make(leaky, static=static)
    kept = len(plt.get_fignums())  # what was computed for the page, without a picture, is the author's
    if static:
        made._html  # noqa: B018
    else:
        made.widget.children[1].value = 3
    assert len(plt.get_fignums()) == kept
    plt.close("all")


@pytest.mark.parametrize("value", ["1", "0", "", None])
def test_the_environment_chooses_the_life(monkeypatch, value):
    monkeypatch.delenv("BNN_STATIC", raising=False)
    if value is not None:
        monkeypatch.setenv("BNN_STATIC", value)
    bundle = make(static=None)._repr_mimebundle_()
    if value == "1":
        assert set(bundle) == {"text/plain", "text/html"}
    else:
        assert "application/vnd.jupyter.widget-view+json" in bundle[0]
    text = (bundle if value == "1" else bundle[0])["text/plain"]
    assert "Explorer: Powers" in text and "Power: 1 to 3 (3 values), now 2" in text and "(2 values), now 1.0" in text


def live_picture(widget) -> bytes:
    """The pixels that a live explorer shows right now."""
    source = re.search(r'src="data:image/png;base64,([^"]+)"', widget.children[-1].value)
    return base64.b64decode(source[1])


def moved_by(widget) -> dict[str, bool]:
    """For each slider, whether moving it to another value changes the picture."""
    moved = {}
    for slider in widget.children[1:-1]:
        before, start = live_picture(widget), slider.value
        slider.value = next(value for _, value in slider.options if value != start)
        moved[slider.description] = live_picture(widget) != before
        slider.value = start
        assert live_picture(widget) == before
    return moved


@pytest.mark.slow
def test_every_live_slider_moves_the_picture_and_one_that_does_not_would_be_seen():
    widget = make(static=False).widget
    assert moved_by(widget) == {"Power": True, "Scale σ": True}
    assert list(widget.children[2].options) == [("1.0", 1.0), ("2.0", 2.0)]
    dead = make(lambda power, scale: curve(power, 1.0), static=False).widget
    assert moved_by(dead) == {"Power": True, "Scale σ": False}


def failing(power, scale):
    if power == 3:
        raise RuntimeError("no curve for <3>")
    return curve(power, scale)


def test_an_exception_fails_the_cell_of_a_page_and_live_replaces_the_picture_until_the_next_good_value():
    with pytest.raises(RuntimeError, match="no curve"):
        make(failing)
    plt.close("all")
    widget = make(failing, static=False).widget
    widget.children[1].value = 3
    shown = widget.children[-1].value
    assert "RuntimeError: no curve for &lt;3&gt;" in shown and 'role="alert"' in shown and "<img" not in shown
    assert not plt.get_fignums()
    widget.children[1].value = 1
    assert "<img" in widget.children[-1].value and "RuntimeError" not in widget.children[-1].value


MANY = range(12)
test_what_is_badly_made_is_refused = refusals(
    [
        (lambda: make(controls={}), "controls is empty"),
        (lambda: make(alt=" "), "alt is empty"),
        (lambda: Control("", MANY, 1), "needs a label"),
        (lambda: Control("x", (1,), 1, discrete=True), "a knob needs at least 2"),
        (lambda: Control("x", (1, 1), 1, choice=True), "more than once"),
        (lambda: Control("x", MANY, 30), "default 30 is not among values"),
        (lambda: Control("x", (0.11, 0.12), 0.11, ".1f", choice=True), "more than once"),
        (lambda: Control("x", range(11), 1), r"has 11 entries, a continuous slider .* 12: .* choice=True .* disc"),
    ]
)


def test_a_continuous_slider_has_twelve_stops_and_others_fewer():
    assert Control("x", MANY, 1).values == tuple(MANY)
    assert Control("x", ("a", "b"), "a", choice=True).text("b") == "b"


def test_a_negative_number_has_a_minus_and_a_word_its_hyphen():
    places = [-0.5 * k for k in range(12)]
    assert Control("x", places, 0.0).text(-0.5) == "−0.5"
    assert Control("x", places, 0.0, ".1e").text(-0.5) == "−5.0e-01"
    assert Control("x", ("-a", "b"), "b", choice=True).text("-a") == "-a"

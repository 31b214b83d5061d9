"""Both lives of the explorer in Python: what is refused, what is drawn, what moves with which slider."""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import re
from urllib.parse import unquote

import numpy as np
import pytest
from matplotlib import pyplot as plt
from PIL import Image

from book.display import Control, explore, explorer, figure
from book.display import frames as _frames


def curve(power, scale):
    fig, axes = figure()
    x = np.linspace(0, 1, 50)
    axes.plot(x, scale * x**power, marker="none")
    axes.set(ylim=(0, 3), title=f"power {power}")
    return fig


CONTROLS = {
    "power": Control("Power", (1, 2, 3), 2, discrete=True),
    "scale": Control("Scale σ", (1.0, 2.0, 2.5), 1.0, static_values=(1.0, 2.0), format=".1f", discrete=True),
}


def make(plot=curve, controls=CONTROLS, static=True, alt="A rising curve", **kwargs):
    return explore(plot, controls, title="Powers", alt=alt, static=static, **kwargs)


@pytest.fixture(scope="module")
def still():
    return make(alt=lambda power, scale: f'{scale} x^{power} </script> & "quoted"')


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def shown_at(page: str, number: int) -> bytes:
    """The SVG that the page shows as this frame."""
    if number == 0:
        return unquote(
            html.unescape(re.search(r'<img class="bnn-first" src="data:image/svg\+xml,([^"]*)"', page)[1])
        ).encode()
    data = data_of(page)
    return "".join(data["pieces"][piece] for piece in data["frames"][number]).encode()


def test_every_point_of_the_grid_shows_its_own_plot(still):
    page = still.to_html()
    shown = [shown_at(page, number) for number in data_of(page)["index"]]
    assert shown == [_frames.vector(curve, settings).data for settings in still.grid]
    assert len(set(shown)) == 6


def test_the_page_holds_what_the_reader_needs(still):
    page = still.to_html()
    data = data_of(page)
    assert data["texts"] == [["1", "2", "3"], ["1.0", "2.0"]]
    assert data["index"] == still.frames[1] and len(data["index"]) == 6
    assert data["alts"][0] == '1.0 x^1 </script> & "quoted"'
    assert page.count('type="range"') == page.count("<label>") == page.count("<output") == 2
    assert 'aria-valuetext="2"' in page and 'max="1"' in page
    assert 'alt="1.0 x^2 &lt;/script&gt; &amp; &quot;quoted&quot;"' in page
    assert "The controls need JavaScript; the picture shows Power 2, Scale σ 1.0." in page


def test_the_page_has_no_ids_and_asks_for_nothing_outside(still):
    page = still.to_html()
    # The frames are documents of their own, whose ids and names of formats the page never sees.
    outside = re.sub(r'(?<=src="data:image/svg\+xml,)[^"]*|(?<=json">).*?(?=</script>)', "", page)
    assert len(outside) < 14_000 < len(page)
    assert not re.search(r"\sid=|\sfor=", outside)
    assert not re.search(r"https?://|url\(|@import", outside)
    assert re.findall(r'src="([^"]*)"', outside) == ["data:image/svg+xml,"]
    assert outside.count("<script") == outside.count("</script>") == 2
    references = {link for frame in still.frames[0] for link in re.findall(rb'href="(.)|url\((.)', frame.data)}
    assert references == {(b"#", b""), (b"", b"#")}


def test_what_frames_have_in_common_is_stored_once(still):
    frames, _ = still.frames
    stored = [piece for piece in data_of(still.to_html())["pieces"] if "DejaVuSans" in piece and "<path" in piece]
    assert len(stored) == len(set(stored)) > 5  # the shapes of the letters
    assert len(still.to_html()) < 0.6 * sum(len(frame.data) for frame in frames)


def test_identical_frames_are_stored_once():
    def clipped(power, scale):
        return curve(max(power, 2), scale)

    frames, index = make(clipped).frames
    assert len(index) == 6 and len(frames) == 4
    assert index[0] == index[2] == 0  # power 1 looks like power 2, the default


def test_frames_are_drawn_once_and_never_again():
    calls = []

    def counted(power, scale):
        calls.append((power, scale))
        return curve(power, scale)

    shown = make(counted)
    drawn = len(calls)
    assert drawn == 6
    assert shown._repr_mimebundle_()["text/html"] == shown.to_html() == shown._repr_mimebundle_()["text/html"]
    assert len(calls) == drawn


def test_the_static_life_is_reproducible(still):
    again = make(alt=still.alt)
    assert again.to_html() == still.to_html()


def test_size_is_measured_after_gzip_and_limited(still, monkeypatch):
    assert still.gzip_bytes == len(gzip.compress(still.to_html().encode(), mtime=0)) < 60_000
    monkeypatch.setattr(explorer.FramesExplorer, "max_gzip_bytes", 1000)
    with pytest.raises(ValueError, match=r"kB after gzip at 6 stops, .* `book.display.curves`"):
        make()


def image_in(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """(bytes of the WebP, RGB) of what a frame holds of `imshow(values)`."""

    def plot():
        fig, axes = figure()
        axes.imshow(values, vmin=0, vmax=1, cmap="gray", interpolation="none")
        return fig

    frame = _frames.vector(plot, {}).data
    assert b"image/png" not in frame
    encoded = base64.b64decode(re.search(rb"data:image/webp;base64,([^\"]*)", frame)[1])
    return encoded, np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB")).astype(float)


def test_the_cells_of_a_matrix_are_stored_without_loss():
    cells = np.indices((6, 7)).sum(0) % 2
    _, kept = image_in(cells)
    assert sorted(np.unique(kept)) == [0, 255]
    assert kept.mean() == pytest.approx(255 * cells.mean())


def test_smooth_images_are_stored_with_loss_and_keep_their_look(monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.random((12, 12)).repeat(20, 0).repeat(20, 1) * 0.5 + rng.random((240, 240)) * 0.2
    images = []
    for quality in (20, 90):
        monkeypatch.setattr(_frames, "QUALITY", quality)
        images.append(image_in(values))
    (small, low), (large, high) = images
    assert len(small) < 0.6 * len(large)
    for kept, worst in ((low, 25), (high, 6)):
        assert np.sqrt(np.mean((np.sort(kept[..., 0], None) - np.sort(255 * values, None)) ** 2)) < worst


@pytest.mark.parametrize("static", [True, False])
def test_no_figure_stays_open(static):
    plt.close("all")
    plt.figure()  # somebody else's

    def leaky(power, scale):
        plt.figure()
        return curve(power, scale)

    made = make(leaky, static=static)
    if not static:
        made.widget.children[1].value = 3
    assert len(plt.get_fignums()) == 1
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
    assert "Explorer: Powers" in text and "Power: 1 to 3 (3 values), now 2" in text
    assert f"({2 if value == '1' else 3} values), now 1.0" in text  # only the page is thinned


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


def test_every_live_slider_moves_the_picture():
    widget = make(static=False).widget
    assert moved_by(widget) == {"Power": True, "Scale σ": True}
    assert [value for _, value in widget.children[2].options] == [1.0, 2.0, 2.5]  # the whole grid
    assert [text for text, _ in widget.children[2].options] == ["1.0", "2.0", "2.5"]


def test_a_live_slider_that_moves_nothing_is_caught():
    widget = make(lambda power, scale: curve(power, 1.0), static=False).widget
    assert moved_by(widget) == {"Power": True, "Scale σ": False}


def test_a_static_slider_that_moves_nothing_is_refused():
    with pytest.raises(ValueError, match="knob 'Scale σ' never changes the picture"):
        make(lambda power, scale: curve(power, 1.0))


def test_the_live_picture_is_what_the_plot_function_draws_now():
    level = {"value": 1.0}
    widget = make(lambda power, scale: curve(power, scale * level["value"]), static=False).widget
    widget.children[1].value = 3
    before = live_picture(widget)
    level["value"] = 0.5
    widget.children[1].value = 1
    widget.children[1].value = 3
    assert live_picture(widget) != before


def test_the_live_picture_carries_title_and_alt_text():
    widget = make(static=False, alt=lambda power, scale: f"power <{power}>").widget
    assert "Powers" in widget.children[0].value
    widget.children[1].value = 3
    assert 'alt="power &lt;3&gt;"' in widget.children[-1].value


def failing(power, scale):
    if power == 3:
        raise RuntimeError("no curve for <3>")
    return curve(power, scale)


def test_a_live_exception_replaces_the_picture_until_the_next_good_value():
    plt.close("all")
    widget = make(failing, static=False).widget
    widget.children[1].value = 3
    shown = widget.children[-1].value
    assert "RuntimeError: no curve for &lt;3&gt;" in shown and 'role="alert"' in shown and "<img" not in shown
    assert not plt.get_fignums()
    widget.children[1].value = 1
    assert "<img" in widget.children[-1].value and "RuntimeError" not in widget.children[-1].value


def test_a_static_exception_fails_the_cell():
    with pytest.raises(RuntimeError, match="no curve"):
        make(failing)


def growing(power, scale):
    fig = curve(power, scale)
    fig.set_size_inches(4 + power, 3)
    return fig


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"controls": {}}, ValueError, "controls is empty"),
        ({"alt": "  "}, ValueError, "alt is empty"),
        ({"plot": lambda power, scale: None}, TypeError, "returned NoneType, a matplotlib Figure is needed"),
        ({"plot": growing}, ValueError, "figure's size changes"),
        (
            {"controls": {"power": ("Power", range(13), 0), "scale": ("Scale", range(12), 1)}},
            ValueError,
            r"needs 156 stops \(Power: 13 x Scale: 12\), at most 120",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused_clearly(changes, error, said):
    with pytest.raises(error, match=said):
        make(**changes)

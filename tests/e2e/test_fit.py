"""Formulas, tables, code and figures that are too wide say so; the measure used on every page sees each fault."""

from tests.e2e.fits import MEASURE, WIDTHS
from tests.e2e.pages import SETTLED, opened_up


def test_headings_and_captions_look_like_what_they_are(small_book, open_page):
    page = open_page(small_book / "chapters/01_fixture.html")
    style = "(e) => { const s = getComputedStyle(e); return [parseFloat(s.fontSize), s.fontWeight, s.color]; }"
    # The page has no h3 of its own: put one beside its h2.
    page.evaluate(
        "document.querySelector('.bd-article section').insertAdjacentHTML('beforeend', '<h2>A</h2><h3>B</h3>')"
    )
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 850})
        sizes = [page.eval_on_selector(f".bd-article {name}", style)[0] for name in ("h1", "h2", "h3", "p")]
        assert sizes == sorted(set(sizes), reverse=True), width
    caption, text = (page.eval_on_selector(f".bd-article {name}", style) for name in ("figcaption", "p"))
    assert caption[1:] == text[1:]


def test_the_cue_moves_with_the_frame(small_book, open_page):
    page = open_page(small_book / "chapters/01_fixture.html", width=390)
    opened_up(page)
    assert page.locator("#equation-fix-wide mjx-container").get_attribute("aria-label").startswith("Formula (")
    frame = page.locator(".bnn-table")
    assert frame.get_attribute("data-cut") == "right"
    assert frame.get_attribute("aria-label") == "Table: Measure, scrolls sideways"
    frame.evaluate("(e) => { e.scrollLeft = 40; }")
    page.wait_for_function("(e) => e.dataset.cut === 'left right'", arg=frame.element_handle())
    frame.evaluate("(e) => { e.scrollLeft = e.scrollWidth; }")
    page.wait_for_function("(e) => e.dataset.cut === 'left'", arg=frame.element_handle())
    page.set_viewport_size({"width": 1440, "height": 850})
    page.evaluate(SETTLED)
    assert frame.get_attribute("data-cut") is None
    assert frame.get_attribute("role") is None
    assert frame.evaluate("(e) => e.tabIndex") == -1


def test_formulas_that_fit_are_no_tab_stops_and_toggles_have_names(small_book, open_page):
    page = open_page(small_book / "chapters/01_fixture.html")
    page.evaluate(SETTLED)
    assert page.evaluate("document.querySelectorAll('mjx-container').length") > 4
    stops = """[...document.querySelectorAll(".math, .math *")].filter((e) => e.tabIndex === 0 && e.tagName !== "A")
      .filter((e) => !e.dataset.cut).length"""
    assert page.evaluate(stops) == 0
    toggle = page.locator(".solution .toggle-button").first
    assert toggle.get_attribute("aria-label").startswith("Show: Solution to Exercise")
    toggle.press("Enter")
    page.wait_for_function("(e) => e.ariaLabel.startsWith('Hide: Solution')", arg=toggle.element_handle())


def test_each_fault_would_be_seen(small_book, open_page):
    """The measure itself: one element of each fault beside a good page."""
    page = open_page(small_book / "chapters/01_fixture.html", width=390)
    opened_up(page)
    assert page.evaluate(MEASURE, True)[0] == []
    page.evaluate("""() => document.querySelector(".bd-article section").insertAdjacentHTML("beforeend", `
      <div style="overflow: hidden"><pre style="width: 900px; overflow: visible; max-width: none">hidden</pre></div>
      <pre style="width: 900px; overflow: visible; max-width: none">outside</pre>
      <div style="overflow: auto"><table style="width: 900px"><tr><td>dumb</td></tr></table></div>`)""")
    told = "\n".join(page.evaluate(MEASURE, True)[0])
    for fault in (
        "code is cut off: hidden",
        "code stands out of its column: outside",
        "table scrolls without a cue: dumb",
    ):
        assert fault in told
    assert "keyboard's reach: dumb" in told
    assert "without a name: dumb" in told


def test_a_figure_follows_the_theme_and_stands_panel_by_panel_on_a_phone(small_book, open_page):
    page = open_page(small_book / "chapters/01_fixture.html", dark=True, formulas=False)
    images = page.locator("figure:has(#fix-panels) img, figure#fix-panels img")
    shown = "(all) => all.map((i) => [i.getAttribute('src').split('#')[1] ?? '', i.alt !== ''])"
    assert images.evaluate_all(shown) == [["dark", True]]
    ground = images.first.screenshot()
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    page.wait_for_function("() => !document.querySelector('img.bnn-vector').src.includes('#')")
    assert images.first.screenshot() != ground
    page.set_viewport_size({"width": 390, "height": 850})
    page.wait_for_function("() => document.querySelector('img.bnn-more')")
    assert images.evaluate_all(shown) == [["panel-1", True], ["panel-2", False]]
    first, second = (images.nth(k).bounding_box() for k in range(2))
    assert first["y"] + first["height"] <= second["y"] + 1 and first["width"] <= 390
    # as wide beside its height as the panel, not as the figure of two
    assert first["width"] / first["height"] < 1.3
    page.emulate_media(media="print")
    page.wait_for_function("() => !document.querySelector('img.bnn-more')")
    assert images.evaluate_all(shown) == [["", True]]

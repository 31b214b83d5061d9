"""Nothing is cut: formulas, tables, code and figures fit their column, or scroll in a frame that shows it."""

from __future__ import annotations

import pytest

from book.display.style import FONT_SIZE
from tests.e2e.pages import SETTLED, opened_up, pages_of

WIDTHS = (390, 1024, 1440)
PAPER = 673  # CSS pixels of 178 mm, the width of the text on A4
# matplotlib's "small", the smallest size that the figures use, in CSS pixels of a figure that is not shrunk.
SMALLEST = FONT_SIZE * 0.833 * 100 / 72

# What is wrong with each element. A frame that scrolls must show at which side it is cut (a mask), be reachable by the
# keyboard and have a name; what does not scroll must lie within the nearest box around it.
MEASURE = """(cue) => {
  const article = document.querySelector(".bd-article");
  if (!article) return [[], {}];  // the index and the search
  const kinds = {
    formula: "div.math > mjx-container", "formula in a line": "span.math", table: "table", code: "pre",
    figure: "figure > a > img, figure > img, .cell_output > .output > img",
  };
  const faults = [], seen = {};
  const boxes = "section, .admonition, .proof, .exercise, .solution, li, dd, td, th, .bd-article";
  for (const [kind, selector] of Object.entries(kinds)) for (const element of article.querySelectorAll(selector)) {
    if (!element.getClientRects().length) continue;
    seen[kind] = (seen[kind] ?? 0) + 1;
    const inner = kind.startsWith("formula") ? element.querySelector("mjx-math") : element;
    const told = (fault) => {
      faults.push(`${kind} ${fault}: ${(element.textContent || element.alt).trim().slice(0, 60)}`);
    };
    const shape = inner.getBoundingClientRect();
    let frame = null;
    for (let box = element; box !== article; box = box.parentElement) {
      const style = getComputedStyle(box), flows = style.overflowX;
      if (flows === "visible" || box.scrollWidth <= box.clientWidth + 1) continue;
      if (flows === "auto" || flows === "scroll") frame ??= box;
      else told("is cut off");
    }
    const room = element.parentElement.closest(boxes).getBoundingClientRect();
    if (frame && cue) {
      if (getComputedStyle(frame).maskImage === "none") told("scrolls without a cue");
      if (frame.tabIndex !== 0) told("scrolls out of the keyboard's reach");
      const named = frame.ariaLabel || (frame.tagName === "A" && frame.querySelector("img[alt]"));
      if (!named) told("scrolls without a name");
    } else if (frame) told("would have to scroll");
    else if (shape.right > room.right + 1 || shape.left < room.left - 1) told("stands out of its column");
    const number = element.closest("div.math")?.querySelector(".eqno")?.getBoundingClientRect();
    if (kind === "formula" && number && !frame && shape.right > number.left + 1 && shape.left < number.left
        && shape.bottom > number.top && shape.top < number.bottom) told("runs into its number");
  }
  return [faults, seen];
}"""
# Tables and code of a page for the desktop have no reason to scroll. `code` are lines of at most 88 characters.
SCROLLING = """() => [...document.querySelectorAll(".bd-article pre, .pst-scrollable-table-container, .bnn-table")]
  .filter((e) => e.getClientRects().length && e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.textContent.trim().slice(0, 60))"""
# How much smaller than drawn each picture is.
SHRUNK = """() => [...document.querySelectorAll(".bd-article figure > a > img[style*='width']")]
  .filter((i) => i.getClientRects().length).map((i) => [i.clientWidth / parseFloat(i.style.width), i.alt])"""
# The same of explorers' pictures, which are drawn at 96 dots an inch.
SHRUNK_FRAMES = """() => [...document.querySelectorAll(".bnn-frames .bnn-first")]
  .filter((i) => i.getClientRects().length).map((i) => [i.clientWidth / i.getAttribute("width") * 0.96, i.alt])"""


@pytest.fixture(scope="module", params=["built_book", "small_book"])
def measured(request, browser) -> tuple[list[str], list[str], set[str]]:
    """Faults on screens and on paper, and what kinds were seen; each page is opened once, with everything unfolded."""
    html = request.getfixturevalue(request.param)
    screen, paper, seen = [], [], set()
    for path in pages_of(html):
        page = browser.new_page(reduced_motion="reduce")
        page.set_default_timeout(0)
        page.goto(path.as_uri())
        opened_up(page)
        name = path.relative_to(html)
        found, kinds = on_screens(page)
        screen += [f"{name} {fault}" for fault in found]
        paper += [f"{name}: {fault}" for fault in on_paper(page)]
        seen |= kinds
        page.close()
    return screen, paper, seen


def on_screens(page) -> tuple[list[str], set[str]]:
    """Faults at all widths, and the kinds of what was measured."""
    faults, seen = [], set()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 850})
        page.evaluate(SETTLED)
        found, kinds = page.evaluate(MEASURE, True)
        faults += [f"at {width}: {fault}" for fault in found]
        seen |= set(kinds)
        if width > 1000:
            faults += [f"at {width} scrolls: {text}" for text in page.evaluate(SCROLLING)]
        else:
            shrunk = page.evaluate(SHRUNK) + page.evaluate(SHRUNK_FRAMES)
            faults += [f"has words below 9 pixels: {alt[:60]}" for scale, alt in shrunk if scale * SMALLEST < 9]
    return faults, seen


def on_paper(page) -> list[str]:
    """Faults in print."""
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 950})
    page.evaluate(SETTLED)
    return page.evaluate(MEASURE, False)[0]


def test_nothing_is_cut_and_wide_things_say_so(measured):
    faults, _, seen = measured
    assert not faults, "\n".join(faults)
    assert {"formula", "formula in a line", "table", "code", "figure"} <= seen


def test_nothing_is_cut_on_paper(measured):
    _, faults, _ = measured
    assert not faults, "\n".join(faults)


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

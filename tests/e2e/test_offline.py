"""Single pages, opened from the disk: faults are seen, dark, on paper, by keyboard; what is too wide; search."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.e2e.fits import DISTORTED, MEASURE, TOO_WIDE, WIDTHS
from tests.e2e.pages import FORMULAS, SETTLED, opened_up


def test_faults_would_be_seen(open_page, tmp_path):
    """The watch itself: a page with one of each fault is not taken for a good one."""
    path = tmp_path / "bad.html"
    path.write_text(
        '<script src="https://cdn.example.org/a.js"></script><script src="gone.js"></script>'
        '<script>console.error("said")</script><script>nothing()</script><span class="math">\\(x^2\\)</span>'
        '<main><div style="width: 900px">wide</div><img alt="squeezed" style="width: 100px; height: 400px" '
        "src=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='100' height='100'/>\"></main>"
    )
    page = open_page(path, width=390, offline=True)
    page.wait_for_load_state("load")
    told = "\n".join(page.faults)
    for part in ("request to https://cdn.example.org", "not loaded", "console: said", "script error: nothing is not"):
        assert part in told
    assert page.evaluate(FORMULAS)["untouched"] == ["\\(x^2\\)"]
    assert len(page.evaluate(TOO_WIDE)) == 1
    assert page.evaluate(DISTORTED) == ["squeezed"]


def test_dark_mode_is_dark_and_so_are_its_figures(open_page, small_book):
    page = open_page(small_book / "chapters/01_fixture.html", dark=True)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    brightness = "(e) => getComputedStyle(e).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 3"
    assert page.eval_on_selector("body", brightness) < 40
    figure = Image.open(io.BytesIO(page.locator("figure img.bnn-vector").first.screenshot())).convert("L")
    assert np.asarray(figure).mean() < 60  # lines of its own colors on the dark ground
    assert page.eval_on_selector(".bnn-explorer .bnn-card", brightness) < 40  # drawn by the page, in its colors
    assert page.eval_on_selector("figure img", "(e) => getComputedStyle(e).filter") == "none"
    # Tables take the page's ground and ink instead of the theme's light box.
    seen = "(e) => { const s = getComputedStyle(e.closest('.text_html')); return [s.backgroundColor, s.color]; }"
    ground, ink = page.eval_on_selector(".bnn-table", seen)
    assert ground == "rgba(0, 0, 0, 0)"
    assert ink == page.evaluate("getComputedStyle(document.querySelector('.bd-article p')).color")


def test_on_paper_there_is_only_the_text(open_page, small_book):
    page = open_page(small_book / "chapters/01_fixture.html")
    page.emulate_media(media="print")
    for gone in (".bd-sidebar-primary", ".prev-next-footer", ".bnn-explorer input"):
        assert not page.locator(gone).first.is_visible(), gone
    explorer = page.locator(".bnn-explorer").first
    assert [picture.is_visible() for picture in explorer.locator("img").all()].count(True) == 1
    # A closed solution cannot be opened on paper.
    assert page.get_by_text("Zero, whatever the degree.").is_visible()


def test_a_solution_opens_by_keyboard(open_page, small_book):
    page = open_page(small_book / "chapters/01_fixture.html")
    answer = page.get_by_text("Zero, whatever the degree.")
    assert not answer.is_visible()
    page.locator(".solution .toggle-button").first.press("Enter")
    assert answer.is_visible()


def test_a_page_on_a_disk_gives_its_notebook_to_keep(small_book, open_page):
    page = open_page(small_book / "chapters/01_fixture.html")
    page.click(".dropdown-download-buttons > button")
    with page.expect_download() as kept:
        page.click(".btn-download-source-button")
    given = small_book / "_sources/chapters/01_fixture.ipynb"
    assert kept.value.suggested_filename == given.name
    assert Path(kept.value.path()).read_text() == given.read_text()
    if not page.is_visible(".btn-download-archive-button"):  # the list may have closed
        page.click(".dropdown-download-buttons > button")
    with page.expect_download() as kept:
        page.click(".btn-download-archive-button")
    assert kept.value.suggested_filename == "sparse-bayes-notebooks.zip"


RESULTS = """() => [...document.querySelectorAll("ul.search > li")].map((item) => ({
  title: item.querySelector("a").textContent, link: item.querySelector("a").getAttribute("href"),
  excerpt: item.querySelector("p.context")?.textContent ?? "",
}))"""
# Formulas are set, and the place that the address names is in view; the page glides there.
ARRIVED = """async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  const { top } = document.getElementById(decodeURIComponent(location.hash.slice(1))).getBoundingClientRect();
  return top >= 0 && top < innerHeight / 2;
}"""


@pytest.fixture
def search(open_page, small_book):
    """``search(query)`` -> the page with its results, and these."""

    def asked(query: str):
        page = open_page(small_book / "search.html", offline=True)
        page.locator("main input[name=q]").fill(query)
        page.locator("main input[name=q]").press("Enter")
        page.wait_for_function("document.querySelector('.search-summary')?.textContent.length > 0")
        return page, page.evaluate(RESULTS)

    return asked


def test_a_result_is_a_section_with_an_excerpt(search):
    page, results = search("second proof")
    assert "A second proof, of nothing new" in results[0]["excerpt"]
    assert results[0]["title"].startswith("1. A chapter for the tests")
    page.locator("ul.search a").first.click()
    page.wait_for_url("**/01_fixture.html*")
    assert page.faults == []


def test_an_exercise_is_found_with_its_number_and_shown(search):
    page, results = search("Compute")
    (found,) = [one for one in results if "Exercise" in one["title"]]
    assert found["title"] == "1. A chapter for the tests > Exercise 1.2 (One)"
    assert found["excerpt"].startswith("Compute f(1).")
    page.get_by_role("link", name="Exercise 1.2 (One)").click()
    page.wait_for_url("**#fix-exercise-2")
    page.wait_for_function(ARRIVED)
    assert page.faults == []


def test_what_is_not_there_is_said_so(search):
    page, results = search("unfindable")
    assert results == []
    assert "Nothing was found for “unfindable”" in page.get_by_role("status").text_content()
    assert page.faults == []


def test_a_screen_reader_hears_how_much_was_found(open_page, small_book):
    """The place that it listens to is there, and empty, before the search; the number is put in afterwards."""
    page = open_page(small_book / "search.html")
    status = page.locator("main [role=status]")
    assert status.text_content() == ""
    page.evaluate("window.listened = document.querySelector('main [role=status]')")
    page.evaluate("Search.performSearch('second proof')")
    page.wait_for_function("listened.isConnected && listened.textContent.startsWith('1 section with')")
    assert status.count() == 1 and status.is_visible()


def test_a_button_searches_from_every_page(open_page, small_book):
    page = open_page(small_book / "book/notation.html")
    page.locator(".search-button__button:visible").first.click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("searchbox").fill("second proof")
    asked.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_url("**/search.html?q=second+proof")
    page.locator("ul.search a").first.wait_for()
    page.locator("main input[name=q]").fill("Compute")
    page.locator("main form").get_by_role("button", name="Search", exact=True).click()
    page.wait_for_url("**/search.html?q=Compute*")
    assert page.faults == []


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

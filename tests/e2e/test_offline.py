"""Single pages, opened from the disk: faults are seen, dark, on paper, solutions by keyboard; and the search page."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.e2e.fits import DISTORTED, TOO_WIDE
from tests.e2e.pages import FORMULAS


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

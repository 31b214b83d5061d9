"""Every rendered page, opened from the disk without a network: nothing is missing and every formula is set."""

from __future__ import annotations

import pytest

from tests.e2e.pages import pages_of

# Formulas that were left as TeX, or that MathJax could not read.
FORMULAS = """async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  const untouched = [...document.querySelectorAll(".math")].filter((e) => !e.querySelector("mjx-container"));
  return {
    errors: [...document.querySelectorAll("mjx-merror")].map((e) => e.dataset.mjxError || e.textContent),
    untouched: untouched.map((e) => e.textContent.slice(0, 80)),
    set: document.querySelectorAll("mjx-container").length,
  };
}"""
# How far the page can be pushed sideways, and what pushes it.
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const clipped = (e) => { for (let p = e.parentElement; p; p = p.parentElement)
    if (getComputedStyle(p).overflowX !== "visible") return true; return false; };
  return [...document.querySelectorAll("main *")]
    .filter((e) => e.getBoundingClientRect().right > width + 1 && !clipped(e))
    .map((e) => e.outerHTML.slice(0, 120));
}"""


# Pictures that a narrow page has squeezed on one side only (half a pixel of rounding on the short side is none).
DISTORTED = """() => {
  const shape = (i) => {
    const style = getComputedStyle(i), size = (name) => parseFloat(style[name]);
    const width = i.clientWidth - size("paddingLeft") - size("paddingRight");
    return width / (i.clientHeight - size("paddingTop") - size("paddingBottom"));
  };
  return [...document.querySelectorAll("main img")]
    .filter((i) => i.src && i.complete && i.clientWidth > 20)
    .filter((i) => Math.abs(shape(i) * i.naturalHeight / i.naturalWidth - 1) > 0.02)
    .map((i) => i.alt.slice(0, 60));
}"""


@pytest.mark.parametrize("book", ["built_book", "small_book"])
def test_all_pages_work_from_the_disk_alone(request, open_page, book):
    html = request.getfixturevalue(book)
    faults, formulas = [], 0
    for path in pages_of(html):
        page = open_page(path, offline=True)
        page.wait_for_load_state("load")
        found = page.evaluate(FORMULAS)
        formulas += found["set"]
        # Lazily loaded pictures would be asked for when they come into view.
        page.evaluate("for (const image of document.images) image.loading = 'eager'")
        page.wait_for_function("[...document.images].every((image) => image.complete)")
        told = page.faults + [f"MathJax: {e}" for e in found["errors"]] + [f"raw TeX: {e}" for e in found["untouched"]]
        broken = page.evaluate(
            "[...document.images].filter((i) => i.src && i.complete && !i.naturalWidth).map((i) => i.src)"
        )
        told += [f"broken picture: {source[:200]}" for source in broken]
        faults += [f"{path.relative_to(html)}: {fault}" for fault in told]
        page.context.close()
    assert faults == []
    assert formulas > 20  # otherwise the check for raw TeX has seen nothing


@pytest.mark.parametrize("book", ["built_book", "small_book"])
def test_every_page_fits_a_phone(request, open_page, book):
    html = request.getfixturevalue(book)
    for path in pages_of(html):
        page = open_page(path, width=390)
        page.evaluate(FORMULAS)
        assert page.evaluate(TOO_WIDE) == [], path.relative_to(html)
        assert page.evaluate(DISTORTED) == [], path.relative_to(html)
        page.context.close()


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


def test_dark_mode_is_dark_and_its_figures_are_not(open_page, small_book):
    page = open_page(small_book / "chapters/01_fixture.html", dark=True)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    brightness = "(e) => getComputedStyle(e).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 3"
    assert page.eval_on_selector("body", brightness) < 40
    assert page.eval_on_selector("figure img", brightness) > 250
    assert page.eval_on_selector(".bnn-explorer .bnn-card", brightness) > 250
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

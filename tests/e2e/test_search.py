"""The search page, opened from the disk: results by section, each with an excerpt, and a link that leads there."""

import pytest

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

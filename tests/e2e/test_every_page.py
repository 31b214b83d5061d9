"""Every page of the book, opened once, from the disk and without a network, and looked at in every way.

To open a chapter sets a thousand formulas, which costs as much as a look at it, so all looks share one visit. It begins
with the page as a phone shows it; then everything is unfolded, and paper, screens up to the widest, and colors follow.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.fits import DISTORTED, TOO_WIDE, on_paper, on_screens
from tests.e2e.pages import FORMULAS, KNOBS, opened_up, pages_of, watch

PHONE = {"width": 390, "height": 850}
BROKEN = "[...document.images].filter((i) => i.src && i.complete && !i.naturalWidth).map((i) => i.src)"


@dataclass
class Seen:
    """What the visits to all pages of a book have found, in lines that begin with the page's name."""

    offline: list[str] = field(default_factory=list)
    phone: list[str] = field(default_factory=list)
    screens: list[str] = field(default_factory=list)
    paper: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    explorers: list[str] = field(default_factory=list)
    knobs: int = 0
    formulas: int = 0
    kinds: set[str] = field(default_factory=set)
    looks: set[str] | None = None


@pytest.fixture(scope="module", params=["built_book", "small_book"])
def seen(request, browser, axe) -> Seen:
    """Of the book, and of the small one, in which axe looks at every element, also at those of one make."""
    html = request.getfixturevalue(request.param)
    found = Seen(looks=set() if request.param == "built_book" else None)
    context = browser.new_context(color_scheme="light", reduced_motion="reduce", offline=True)
    context.set_default_timeout(0)
    tab = context.new_page()  # one for all: its process has the theme's scripts compiled
    faults = watch(tab)
    for path in pages_of(html):
        visit(tab, path, path.relative_to(html), found, faults, axe)
    context.close()
    return found


def visit(page, path: Path, name: Path, found: Seen, faults: list[str], axe) -> None:
    """Open one page and add what is wrong with it; `faults` are those that the tab has told and nobody taken."""
    page.set_viewport_size(PHONE)
    page.goto(path.as_uri())
    page.wait_for_load_state("load")
    formulas = page.evaluate(FORMULAS)
    found.formulas += formulas["set"]
    found.phone += [f"{name} is pushed out by {text}" for text in page.evaluate(TOO_WIDE)]
    found.phone += [f"{name} has distorted {text}" for text in page.evaluate(DISTORTED)]
    opened_up(page)  # and all pictures are loaded, also those far below
    told = [f"MathJax: {one}" for one in formulas["errors"]] + [f"raw TeX: {one}" for one in formulas["untouched"]]
    told += [f"broken picture: {source[:200]}" for source in page.evaluate(BROKEN)]
    found.paper += [f"{name}: {fault}" for fault in on_paper(page)]
    page.emulate_media(media="screen")
    screens, kinds = on_screens(page)
    found.screens += [f"{name} {fault}" for fault in screens]
    found.kinds |= kinds
    moved = page.evaluate(KNOBS)
    found.knobs += moved["knobs"]
    found.explorers += [f"{name}: {fault}" for fault in moved["faults"]]
    found.offline += [f"{name}: {fault}" for fault in faults + told]
    found.violations += [f"{name}, {fault}" for fault in axe.in_all_looks(page, found.looks)] if axe else []
    faults.clear()  # those told before, and what axe does to the page, which is no fault of its own


def test_all_pages_work_from_the_disk_alone(seen):
    assert seen.offline == []
    assert seen.formulas > 20  # otherwise the check for raw TeX has seen nothing


def test_every_page_fits_a_phone(seen):
    assert seen.phone == []


def test_no_page_has_a_serious_violation(seen, axe):
    if axe is None:
        pytest.skip("axe-playwright-python is not installed")
    assert seen.violations == []


def test_nothing_is_cut_and_wide_things_say_so(seen):
    assert not seen.screens, "\n".join(seen.screens)
    assert {"formula", "formula in a line", "table", "code", "figure"} <= seen.kinds


def test_nothing_is_cut_on_paper(seen):
    assert not seen.paper, "\n".join(seen.paper)


def test_every_knob_changes_its_picture(seen):
    assert not seen.explorers, "\n".join(seen.explorers)
    assert seen.knobs > 0


def test_a_knob_that_moves_nothing_and_a_picture_without_words_would_be_seen(open_page, small_book):
    page = open_page(small_book / "chapters/01_fixture.html")
    moved = page.evaluate(KNOBS)
    assert moved["knobs"] > 0 and moved["faults"] == []
    # without their listeners
    page.evaluate("document.querySelectorAll('.bnn-control').forEach((one) => one.replaceWith(one.cloneNode(true)))")
    page.evaluate("document.querySelectorAll('.bnn-first').forEach((one) => one.removeAttribute('aria-label'))")
    told = "\n".join(page.evaluate(KNOBS)["faults"])
    assert "changes nothing" in told and "without words" in told

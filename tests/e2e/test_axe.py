"""axe-core would see what is wrong; that it finds nothing on any page is in test_every_page.py."""

import pytest

from tests.e2e.pages import SETTLED, opened_up

axe = pytest.importorskip("tests.e2e.axe", reason="axe-playwright-python is not installed")


def test_a_violation_would_be_seen(open_page, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text('<html lang="en"><title>x</title><main><h1>x</h1><p style="color: #bbb">pale</p><button></button>')
    page = open_page(path)
    told = "\n".join(axe.violations(page))
    assert "color-contrast (serious)" in told
    assert "button-name (critical)" in told
    assert "color-contrast (serious)" in "\n".join(axe.violations(page, axe.COLORS))
    assert "button-name (critical)" in "\n".join(axe.violations(page, axe.UNCOLORED))


def test_what_is_drawn_alike_is_looked_at_once_and_what_differs_is_seen(open_page, tmp_path):
    """Each of these is pale in another way: by its own color, by what is around it, or as one of many."""
    words = "<i>good</i>" * 5
    path = tmp_path / "alike.html"
    path.write_text(
        '<html lang="en"><title>x</title><style>pre {background: #fff; color: #000}</style><main><h1>x</h1>'
        f'<pre>{words}<i style="color: #bbb">own</i><b style="color: #ccc">one</b><b style="color: #ccc">two</b></pre>'
        f'<pre style="background: #111; color: #000">{words}</pre>'
        f'<table style="opacity: 0.3"><tr><td>faint</td></tr></table><pre>{words}</pre>'
        f'<dl class="py"><dt>{words}<i style="color: #bbb">argument</i><i style="color: #bbb">type</i></dt></dl>'
    )
    page = open_page(path)
    every = axe.violations(page, axe.COLORS)
    assert len(every) == 11
    fresh = page.evaluate(axe.ALIKE, [])
    told = axe.violations(page, axe.COLORS)
    assert set(told) < set(every) and len(told) == 5
    for part in ("own", "one", "good", "faint", "argument"):
        assert sum(f">{part}<" in line for line in told) == 1
    # marks are made anew: a color that changes on a later page is seen, and nothing else is looked at again
    page.evaluate("document.querySelectorAll('pre')[2].querySelector('i:last-child').style.color = '#ddd'")
    assert len(page.evaluate(axe.ALIKE, fresh)) == 1
    assert len(axe.violations(page, axe.COLORS)) == 1


def test_links_of_one_look_are_looked_at_once_where_they_stand_among_words(open_page, tmp_path):
    path = tmp_path / "links.html"
    link, style = '<a href="#h">', "p {color: #000} a {color: #111; text-decoration: none}"
    path.write_text(
        f'<html lang="en"><title>x</title><style>{style}</style><main><h1 id="h">x</h1><p>{link}alone</a></p>'
        f"<p>some words {link}among</a> others, {link}again</a> and {link}<code>code</code></a>"
    )
    page = open_page(path)
    assert len(axe.violations(page, axe.COLORS)) == 2
    assert len(page.evaluate(axe.ALIKE, [])) == 6  # heading, words, code, and three kinds of links
    (told,) = axe.violations(page, axe.COLORS)
    assert "link-in-text-block (serious)" in told and ">among<" in told


def test_of_rows_of_one_make_two_are_looked_at_and_every_other_one(open_page, tmp_path):
    """In a frame that scrolls as before; of code the text stays, and what is more than a color."""
    path = tmp_path / "rows.html"
    row, frame = '<tr><th scope="row">1</th><td>2</td></tr>', 'tabindex="0" style="height: 90px; overflow: auto"'
    path.write_text(
        f'<html lang="en"><title>x</title><main class="bd-article"><h1>x</h1><div {frame}><table><tbody>{row * 9}'
        f'<tr><th scope="row">1</th><td><img src=""></td></tr></tbody></table></div>'
        '<pre><span class="k">a</span> <span id="b">b</span></pre>'
    )
    page = open_page(path)
    page.evaluate(axe.PLAIN)
    assert page.locator("tr").count() == 2 + 1 + 1 and page.locator("pre").inner_html() == 'a <span id="b">b</span>'
    assert page.eval_on_selector("div", "(e) => e.scrollHeight > e.clientHeight")
    assert [told.split()[0] for told in axe.violations(page)] == ["image-alt"]
    page.eval_on_selector("div", "(e) => e.removeAttribute('tabindex')")
    assert "scrollable-region-focusable" in "\n".join(axe.violations(page))


def test_of_a_formula_the_outside_is_looked_at(open_page, small_book):
    """The same marks, names and places as with all that is inside; a fault of its own is seen."""
    page = open_page(small_book / "chapters/01_fixture.html", width=390, reduced_motion="reduce")
    opened_up(page)
    sizes = "[...document.querySelectorAll('mjx-container')].map((e) => [e.scrollWidth > e.clientWidth, e.tabIndex])"
    before = page.evaluate(sizes)
    page.evaluate(axe.HOLLOW)
    assert page.evaluate("document.querySelectorAll('mjx-math').length") == 0
    assert page.evaluate(sizes) == before and [True, 0] in before
    assert axe.violations(page) == []
    page.evaluate("document.querySelector('mjx-container').setAttribute('role', 'nothing')")
    assert "aria-roles (critical)" in "\n".join(axe.violations(page))


def test_a_page_is_settled_when_nothing_fades_in_any_more(open_page, tmp_path, small_book):
    """What is unfolded fades in and is pale until then; where less motion is wished, nothing moves at all."""
    path = tmp_path / "fading.html"
    path.write_text(
        "<style>@keyframes in {from {opacity: 0}} @keyframes round {to {rotate: 1turn}}"
        "p {animation: in 1s} i {animation: round 1s infinite}</style><p>text <i>busy</i>"
    )
    page = open_page(path)
    page.evaluate(SETTLED)
    assert page.evaluate("getComputedStyle(document.querySelector('p')).opacity") == "1"
    moving = (
        "document.querySelectorAll('details').forEach((box) => { box.open = true }), document.getAnimations().length"
    )
    chapter = small_book / "chapters/01_fixture.html"
    assert open_page(chapter).evaluate(moving) > 0
    assert open_page(chapter, reduced_motion="reduce").evaluate(moving) == 0

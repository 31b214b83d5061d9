"""axe-core finds nothing serious on any page, in light and dark, on a desktop and on a phone."""

from __future__ import annotations

import pytest

from tests.e2e.pages import SETTLED, opened_up, pages_of

axe_api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
OPTIONS = {"resultTypes": ["violations"]}
# Contrast takes half of the time, and a narrow page has the colors of a wide one.
NARROW = OPTIONS | {"rules": {"color-contrast": {"enabled": False}}}
# A theme changes colors and nothing else.
COLORS = OPTIONS | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
LOOKS = ((1440, "light", OPTIONS), (1440, "dark", COLORS), (390, "light", NARROW))


def violations(page, options: dict = OPTIONS) -> list[str]:
    found = axe_api.Axe().run(page, options=options).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:120]} {node['failureSummary'][:160]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("book", ["built_book", "small_book"])
def test_no_page_has_a_serious_violation(request, open_page, book):
    html = request.getfixturevalue(book)
    told = []
    for path in pages_of(html):
        page = open_page(path, reduced_motion="reduce")
        opened_up(page)
        for width, theme, options in LOOKS:
            page.set_viewport_size({"width": width, "height": 850})
            page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
            page.evaluate(SETTLED)
            told += [f"{path.relative_to(html)}, {width}, {theme}: {fault}" for fault in violations(page, options)]
        page.context.close()
    assert told == []


def test_a_violation_would_be_seen(open_page, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text('<html lang="en"><title>x</title><main><h1>x</h1><p style="color: #bbb">pale</p><button></button>')
    page = open_page(path)
    told = "\n".join(violations(page))
    assert "color-contrast (serious)" in told
    assert "button-name (critical)" in told
    assert "color-contrast (serious)" in "\n".join(violations(page, COLORS))
    assert "button-name (critical)" in "\n".join(violations(page, NARROW))

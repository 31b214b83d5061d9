"""axe-core over a page in light and dark, on a desktop and on a phone."""

from __future__ import annotations

import pytest

from tests.e2e.pages import SETTLED

axe_api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
# Nothing is preloaded: a page from the disk may not ask for its own style sheets, and each try is an error it tells.
OPTIONS = {"resultTypes": ["violations"], "preload": False}
# Contrast takes most of the time, and a narrow page has the colors of a wide one.
NARROW = OPTIONS | {"rules": {"color-contrast": {"enabled": False}}}
# A theme changes colors and nothing else.
COLORS = OPTIONS | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
LOOKS = ((1440, "light", OPTIONS), (1440, "dark", COLORS), (390, "light", NARROW))

# Marks the words of code and of entries of the reference, cells of tables and parts of formulas that are drawn as an
# earlier one of the page is: all that decides contrast is equal, for the element and for everything around it. A
# chapter has ten thousand of them in a few hundred looks.
ALIKE = """() => {
  const numbers = new Map(), looks = new Map(), seen = new Set();
  const kinds = ["color", "webkitTextFillColor", "backgroundColor", "backgroundImage", "opacity", "fontSize",
    "fontWeight", "textShadow", "position", "zIndex", "display", "visibility", "filter", "mixBlendMode", "clip",
    "clipPath", "overflow"];
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    const look = [looks.get(element.parentElement), ...kinds.map((kind) => style[kind])].join("|");
    if (!numbers.has(look)) numbers.set(look, numbers.size);
    looks.set(element, numbers.get(look));
    delete element.dataset.alike;
    if (element.children.length || !element.matches("pre *, dl.py *, table *, mjx-container *")) continue;
    if (element.matches("a, button, input")) continue;
    if (seen.has(looks.get(element))) element.dataset.alike = "";
    else seen.add(looks.get(element));
  }
}"""
# Leaves of each formula its outside, of the same size: role, name, and whether it scrolls and is reached. What MathJax
# puts inside is half of all elements and of one make on all pages; links and colors of its own stay.
HOLLOW = """() => {
  for (const formula of document.querySelectorAll("mjx-container")) {
    if (formula.querySelector("a, [style*=color]")) continue;
    const inner = formula.querySelector("mjx-math").getBoundingClientRect(), box = document.createElement("span");
    box.style.cssText = `display: inline-block; width: ${inner.width}px; height: ${inner.height}px`;
    formula.replaceChildren(box);
  }
}"""
RUN = """async (options) => {
  axe.configure({rules: [{id: "color-contrast", selector: "*:not([data-alike])"}]});
  return (await axe.run(document, options)).violations;
}"""


def violations(page, options: dict = OPTIONS, every: bool = True) -> list[str]:
    """Serious violations of a page as it stands.

    Args:
        page: that is open and settled.
        options: of `axe.run`.
        every: the contrast of every element; False leaves out those that are `ALIKE`.
    """
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(axe_api.Axe().axe_script)
    if not every:
        page.evaluate(ALIKE)
    found = page.evaluate(RUN, options)
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:120]} {node['failureSummary'][:160]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def in_all_looks(page, every: bool = True) -> list[str]:
    """The same at every width and in every theme; unless `every`, formulas are `HOLLOW` from then on."""
    told = []
    if not every:
        page.evaluate(HOLLOW)
    for width, theme, options in LOOKS:
        page.set_viewport_size({"width": width, "height": 850})
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        page.evaluate(SETTLED)
        told += [f"{width}, {theme}: {fault}" for fault in violations(page, options, every)]
    return told

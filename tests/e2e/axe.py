"""axe-core over a page in light and dark, on a desktop and on a phone."""

import pytest

from tests.e2e.pages import SETTLED

axe_api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
# Nothing is preloaded: a page from the disk may not ask for its own style sheets, and each try is an error it tells.
# What lies outside of landmarks is no serious fault, and takes long to find.
OPTIONS = {"resultTypes": ["violations"], "preload": False, "rules": {"region": {"enabled": False}}}
# A theme changes colors and nothing else.
COLORS = OPTIONS | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
# Contrast takes most of the time, and a narrow page has the colors of a wide one.
UNCOLORED = OPTIONS | {"rules": OPTIONS["rules"] | {"color-contrast": {"enabled": False}}}
# What width changes of an article: its frames scroll, explorers are laid out anew; and everything around it.
AROUND = {"include": [["body"], [".bd-article [data-scrolls]"], [".bnn-explorer"]], "exclude": [[".bd-article"]]}

# Marks what has no text of its own, and the text and links that are drawn as earlier ones are: all that decides
# contrast is equal, for the element and for everything around it. A book has a hundred thousand of them in a few
# thousand looks, which are the same on all pages.
ALIKE = """(earlier) => {
  const hashed = (text) => {  // FNV-1a and a second one like it, together 64 bits
    let one = 0x811c9dc5, two = 0x1234567;
    for (let i = 0; i < text.length; i++) {
      one = Math.imul(one ^ text.charCodeAt(i), 0x01000193);
      two = Math.imul(two ^ text.charCodeAt(i), 0x5bd1e995);
    }
    return (one >>> 0).toString(36) + (two >>> 0).toString(36);
  };
  const looks = new Map(), seen = new Set(earlier), fresh = [];
  const kinds = ["color", "webkitTextFillColor", "backgroundColor", "backgroundImage", "opacity", "fontSize",
    "fontWeight", "textShadow", "position", "zIndex", "display", "visibility", "filter", "mixBlendMode", "clip",
    "clipPath", "overflow", "textDecorationLine"];
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    const link = element.matches("a[href]");
    const among = link && element.parentElement.textContent.trim() !== element.textContent.trim();  // other words
    const place = link && [among, element.innerHTML.replace(/(^|>)[^<]+/g, "$1-")];  // and the elements inside
    const look = hashed([looks.get(element.parentElement), place, ...kinds.map((kind) => style[kind])].join("|"));
    looks.set(element, look);
    delete element.dataset.alike;
    if (element.matches("input, select, textarea")) continue;
    const text = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!text && !link || seen.has(look)) element.dataset.alike = "";
    else { seen.add(look); fresh.push(look); }
  }
  return fresh;
}"""
# Leaves of each formula its outside, of the same size: role, name, and whether it scrolls and is reached. What MathJax
# puts inside is half of all elements and of one make on all pages; links and colors of its own stay.
HOLLOW = """() => {
  const own = (formula) => formula.querySelector("a, [style*=color]");
  const formulas = [...document.querySelectorAll("mjx-container")].filter((one) => !own(one));
  const boxes = formulas.map((one) => one.querySelector("mjx-math").getBoundingClientRect());
  formulas.forEach((formula, at) => {
    const box = document.createElement("span");
    box.style.cssText = `display: inline-block; width: ${boxes[at].width}px; height: ${boxes[at].height}px`;
    formula.replaceChildren(box);
  });
}"""
# For when all colors are known, those of links too. Leaves of code its text, and of a table's rows of one make the
# first two and the room of the others: these spans have nothing but a color, the third row nothing that two have not.
PLAIN = """() => {
  for (const link of document.querySelectorAll(".bd-article a[href]")) link.dataset.alike = "";
  for (const span of document.querySelectorAll(".bd-article :is(pre, code, .sig) span:not(.math)"))
    if (span.getAttributeNames().every((name) => ["class", "data-alike"].includes(name))) {
      span.replaceWith(...span.childNodes);
    }
  for (const body of document.querySelectorAll(".bd-article tbody")) {
    const rows = Map.groupBy(body.rows, (row) =>
      row.innerHTML.replace(/>[^<]+</g, "><").replace(/ (href|title|style|data-alike)="[^"]*"/g, ""));
    const more = [...rows.values()].flatMap((alike) => alike.slice(2));
    if (!more.length) continue;
    const room = body.insertRow().insertCell();
    room.style.height = `${more.reduce((sum, row) => sum + row.offsetHeight, 0)}px`;
    room.textContent = "more";
    for (const row of more) row.remove();
  }
}"""
# Rules that would look at everything are told what can matter to them: what is not marked, and what does scroll.
RUN = """async ([context, options]) => {
  for (const element of document.body.querySelectorAll("*")) {
    const more = element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
    const scrolls = more && /auto|scroll/.test(getComputedStyle(element).overflow);
    element.toggleAttribute("data-scrolls", scrolls && !element.matches("select, textarea"));
  }
  const rules = {
    "color-contrast": "*:not([data-alike])", "link-in-text-block": "a[href]:not([data-alike])",
    "scrollable-region-focusable": "[data-scrolls]",
  };
  axe.configure({rules: Object.entries(rules).map(([id, selector]) => ({id, selector}))});
  return (await axe.run(context ?? document, options)).violations;
}"""


def violations(page, options: dict = OPTIONS, context: dict | None = None) -> list[str]:
    """Serious violations of a page as it stands, but for the contrast of what is marked as `ALIKE`.

    Args:
        page: that is open and settled.
        options: of `axe.run`.
        context: the part of the page, as `axe.run` has it; None is all of it.
    """
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(axe_api.Axe().axe_script)
    found = page.evaluate(RUN, [context, options])
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:120]} {node['failureSummary'][:160]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def in_all_looks(page, seen: set[str] | None = None) -> list[str]:
    """The same at every width and in every theme.

    Args:
        page: that is open and settled.
        seen: the looks of all text on earlier pages, to which this page's are added: text that is drawn as an earlier
            one is not looked at again, formulas are `HOLLOW` from then on, the rest `PLAIN` once its colors are known,
            and of an article a phone shows what width changes. None looks at every element in every way.
    """
    told = []

    def show(width: int, theme: str, options: dict, part: dict | None = None) -> None:
        page.set_viewport_size({"width": width, "height": 850})
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        page.evaluate(SETTLED)
        if seen is not None and options is COLORS:
            fresh = page.evaluate(ALIKE, list(seen))
            if not fresh:
                return
            seen.update(fresh)
        told.extend(f"{width}, {theme}: {fault}" for fault in violations(page, options, part))

    if seen is not None:
        page.evaluate(HOLLOW)
    for theme in ("light", "dark"):
        show(1440, theme, COLORS)
    if seen is not None:
        page.evaluate(PLAIN)
    show(1440, "light", UNCOLORED)
    show(390, "light", UNCOLORED, None if seen is None else AROUND)
    return told

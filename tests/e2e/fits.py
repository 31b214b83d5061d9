"""What is too wide, cut or squeezed on a page, on screens of several widths and on paper."""

from book.display.style import FONT_SIZE
from tests.e2e.pages import SETTLED

WIDTHS = (390, 1024, 1280)  # from the last on, a column stands at either side of the text
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
# Tables, code of at most 88 characters a line, and formulas of a page for the desktop have no reason to scroll.
SCROLLING = """() => [...document.querySelectorAll(
    ".bd-article pre, .pst-scrollable-table-container, .bnn-table, div.math > mjx-container")]
  .filter((e) => e.getClientRects().length && e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.textContent.trim().slice(0, 60))"""
# How much smaller than drawn each picture is; one without a width could not be shrunk to a size that is known.
SHRUNK = """() => [...document.querySelectorAll(".bd-article figure > a > img")]
  .filter((i) => i.getClientRects().length).map((i) =>
    [i.clientWidth / (parseFloat(i.style.width || i.getAttribute("width")) || Infinity), i.alt])"""
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
# Pictures that a narrow page has squeezed on one side only (half a pixel of rounding on the short side is none), or
# paper, which is lower than the highest figures. One that is contained in its box has its own shape whatever the box's.
DISTORTED = """() => {
  const shape = (i) => {
    const style = getComputedStyle(i), size = (name) => parseFloat(style[name]);
    const width = i.clientWidth - size("paddingLeft") - size("paddingRight");
    return width / (i.clientHeight - size("paddingTop") - size("paddingBottom"));
  };
  // a panel of a figure is drawn into a box of its own shape, whatever that of the file
  const own = (i) => {
    const [width, height] = i.style.aspectRatio.split("/").map(parseFloat);
    return i.src.includes("#panel") ? width / height : i.naturalWidth / i.naturalHeight;
  };
  return [...document.querySelectorAll("main img")]
    .filter((i) => i.src && i.complete && i.clientWidth > 20 && getComputedStyle(i).objectFit === "fill")
    .filter((i) => Math.abs(shape(i) / own(i) - 1) > 0.02)
    .map((i) => i.alt.slice(0, 60));
}"""


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
            shrunk = page.evaluate(SHRUNK)
            faults += [f"has words below 9 pixels: {alt[:60]}" for scale, alt in shrunk if scale * SMALLEST < 9]
    return faults, seen


def on_paper(page) -> list[str]:
    """Faults in print."""
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 950})
    page.evaluate(SETTLED)
    distorted = [f"has distorted {text}" for text in page.evaluate(DISTORTED)]
    return page.evaluate(MEASURE, False)[0] + distorted

"""What the tests of rendered pages have in common."""

from __future__ import annotations

from pathlib import Path

# All formulas set, and two frames drawn after whatever was changed: size observers have had their say.
SETTLED = """async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  await document.fonts.ready;
  const frame = () => new Promise(requestAnimationFrame);
  for (let i = 0; i < 3; i++) await frame();
}"""
OPEN = """async () => {
  for (const image of document.images) image.loading = "eager";
  for (const box of document.querySelectorAll("details")) box.open = true;
  for (const button of document.querySelectorAll(".toggle-button-hidden")) button.click();
}"""


def pages_of(html: Path) -> list[Path]:
    """All pages but the first, which only sends the browser on to the landing page."""
    paths = (path for path in sorted(html.rglob("*.html")) if "_static" not in path.relative_to(html).parts)
    return [path for path in paths if 'http-equiv="Refresh"' not in path.read_text(encoding="utf-8")]


def opened_up(page) -> None:
    """Unfold everything, load every picture, and wait until nothing moves any more."""
    page.wait_for_load_state("load")
    page.evaluate(OPEN)
    page.wait_for_function("[...document.images].every((image) => image.complete)")
    page.evaluate(SETTLED)

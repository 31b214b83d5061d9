"""What the tests of rendered pages have in common."""

from pathlib import Path

# All formulas set, three frames drawn after whatever was changed (size observers have had their say), and no animation
# left: a cell that is unfolded fades in, and is pale until then. Nothing here waits for what may never come: a
# busy browser now and then gives no more frames to a page that nobody sees, and a paused animation has no end.
SETTLED = """async () => {
  const later = (seconds) => new Promise((go) => setTimeout(go, 1000 * seconds));
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  await Promise.race([document.fonts.ready, later(20)]);
  for (let i = 0; i < 3; i++) await Promise.race([new Promise(requestAnimationFrame), later(2)]);
  const moving = document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime < Infinity);
  for (const one of moving) if (one.playbackRate) one.finish();
}"""
OPEN = """async () => {
  for (const image of document.images) image.loading = "eager";
  for (const box of document.querySelectorAll("details")) box.open = true;
  for (const button of document.querySelectorAll(".toggle-button-hidden")) button.click();
}"""

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

# Before a page's own scripts: MathJax starts, and leaves the formulas as they are, a thousand in a chapter.
UNSET = """(() => {
  const own = {configurable: true, enumerable: true};
  Object.defineProperty(window, "MathJax", {...own, get: () => undefined, set(settings) {
    settings.startup = {...settings.startup, typeset: false};
    Object.defineProperty(window, "MathJax", {...own, value: settings, writable: true});
  }});
})()"""

# Moves every knob over its whole way: how many there are, and what is wrong with any. Alone a step of one may meet
# settings that look the same; over its whole way it may not.
KNOBS = """() => {
  const faults = [];
  let knobs = 0;
  for (const explorer of document.querySelectorAll(".bnn-explorer")) {
    for (const knob of explorer.querySelectorAll(".bnn-control")) {
      const pictures = new Set(), name = `${explorer.ariaLabel}: ${knob.textContent.trim().slice(0, 40)}`;
      const slider = knob.querySelector("[type=range]");
      const look = () => {
        const all = [...explorer.querySelectorAll(".bnn-card :is(img, [role=img])")];
        const shown = all.filter((i) => i.checkVisibility());
        const silent = shown.some((i) => !(i.alt ?? i.ariaLabel ?? "").trim());
        if (!shown.length || silent) faults.push(`${name}: a picture is missing or without words`);
        pictures.add(shown.map((i) => i.src ?? i.querySelector(".bnn-panels").innerHTML).join());
      };
      if (slider) {
        for (let at = Number(slider.min); at <= Number(slider.max); at++) {
          slider.value = at;
          slider.dispatchEvent(new Event("input", {bubbles: true}));
          look();
        }
      } else for (const button of knob.querySelectorAll("[type=radio]")) {
        button.click();
        look();
      }
      knobs += 1;
      if (pictures.size < 2) faults.push(`${name}: changes nothing`);
    }
  }
  return {knobs, faults};
}"""


def pages_of(html: Path) -> list[Path]:
    """All pages but the first, which only sends the browser on to the landing page, and those of code, of which
    test_hover.py looks at one: Sphinx makes them all alike, with nothing written by hand but the code.
    """
    ours = (path for path in sorted(html.rglob("*.html")) if "_static" not in path.relative_to(html).parts)
    paths = (path for path in ours if "_modules" not in path.relative_to(html).parts)
    return [path for path in paths if 'http-equiv="Refresh"' not in path.read_text(encoding="utf-8")]


def opened_up(page) -> None:
    """Unfold everything, load every picture, and wait until nothing moves any more."""
    page.wait_for_load_state("load")
    page.evaluate(OPEN)
    page.wait_for_function("[...document.images].every((image) => image.complete)", polling=100)
    page.evaluate(SETTLED)


def watch(page) -> list[str]:
    """What a page should never do: ask another host, miss a file, write an error to the console."""
    faults: list[str] = []

    def request(asked):
        if not asked.url.startswith(("file:", "data:", "blob:", "about:")):
            faults.append(f"request to {asked.url[:200]}")

    page.on("request", request)
    page.on("requestfailed", lambda asked: faults.append(f"not loaded: {asked.url[:200]} ({asked.failure})"))
    page.on("console", lambda line: faults.append(f"console: {line.text}") if line.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(f"script error: {error}"))
    return faults

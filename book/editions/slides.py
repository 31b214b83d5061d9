"""Slides for those who teach with the book: a file a chapter that needs nothing beside it.

Each has the chapter's aim, every picture of the last run with its section and its caption, and what became of the
paper's claims. A slide fills the window, Page Down leads to the next, and printing gives one a page.
"""

import html
import io
import re
from collections import Counter
from functools import cache
from pathlib import Path

from book.editions.compared import FATES, Claims
from book.editions.learner.inline import STORED
from book.editions.lessons import Lesson
from book.editions.pictures import address, pictures

FOLDER = "book/_static/slides"
WIDTH = 1800  # pixels of a picture; most are drawn narrower
FORMULA = re.compile(r"\$([^$]+)\$")
ROLE = re.compile(r"\{[\w:]+\}`([^`<]+?)\s*(?:<[^>]+>)?`")
EMPHASIS = re.compile(r"(\*{1,2})(\S(?:[^*]*\S)?)\1")
TARGET = re.compile(r"^\([\w-]+\)=\s*", re.MULTILINE)
PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
html {{ scroll-snap-type: y mandatory; font: 2.2vmin/1.45 system-ui, sans-serif; color: #222; background: #fff }}
body {{ margin: 0 }}
section {{ box-sizing: border-box; height: 100vh; padding: 5vmin 7vmin; scroll-snap-align: start; display: flex;
  flex-direction: column; justify-content: center; gap: 2vmin; break-after: page }}
h1, h2 {{ margin: 0; line-height: 1.2 }} h1 {{ font-size: 2.6em }} h2 {{ font-size: 1.7em }}
.large {{ font-size: 1.5em; max-width: 40em }}
figure {{ margin: 0; min-height: 0; display: flex; flex-direction: column; align-items: center; gap: 2vmin }}
figure img {{ min-height: 0; max-width: 100%; object-fit: contain }}
p, figcaption {{ margin: 0; max-width: 75em }} svg {{ overflow: visible }}
td, th {{ padding: .3em 1.2em .3em 0; text-align: left; vertical-align: top }}
footer {{ color: #555; font-size: .8em }}
@page {{ size: 13.33in 7.5in; margin: 0 }}
</style>
{slides}
</html>
"""


def decks(lessons: list[Lesson], chapters: dict[str, dict], claims: Claims) -> dict[str, str]:
    """The file of each chapter by its path in the staging tree."""
    return {f"{FOLDER}/{name(one)}": deck(one, chapters[f"{one.document}.ipynb"], claims) for one in lessons}


def name(lesson: Lesson) -> str:
    """The file of a chapter's slides."""
    return f"{Path(lesson.document).name}.html"


def deck(lesson: Lesson, notebook: dict, claims: Claims) -> str:
    """The slides of one chapter."""
    title = f"{lesson.number}. {lesson.title}"
    aim = f'<p class="large">After this chapter you can {plain(lesson.able)}.</p>' if lesson.able else ""
    made = [f"<h1>{plain(title)}</h1>{aim}"]
    for one in pictures(notebook):
        image = f'<img src="{address(one, WIDTH, wide=True)}" alt="{html.escape(one.alt)}">'
        figure = f"<figure>{image}<figcaption>{plain(one.caption)}</figcaption></figure>"
        made.append(f"<h2>{plain(one.heading)}</h2>{figure}")
    if some := claims.get(lesson.study):
        made.append(f"<h2>What became of the paper's {len(some)} claims</h2>{fates(some)}")
    foot = f"<footer>{plain(title)}, from <cite>Sparse Bayesian deep learning</cite>. CC BY 4.0.</footer>"
    slides = "\n".join(f"<section>{one}{foot}</section>" for one in made)
    return PAGE.format(title=html.escape(title), slides=slides)


def fates(claims: list[dict]) -> str:
    """How many claims met each fate, with the first of each."""
    counts = Counter(one["verdict"] for one in claims)
    first = {one["verdict"]: one for one in reversed(claims)}
    rows = "".join(
        f"<tr><th>{word}</th><td>{counts[word]}</td><td>{plain(first[word]['text'])} ({first[word]['place']})</td></tr>"
        for word in FATES
        if word in first
    )
    return f"<table><tr><th>Verdict</th><th>Claims</th><th>The first of them</th></tr>{rows}</table>"


def plain(text: str) -> str:
    """Words of a chapter as HTML: roles and links by what they show, formulas drawn."""
    text = ROLE.sub(r"\1", STORED.sub(r"\1", TARGET.sub("", text)))
    parts = FORMULA.split(text)  # every second one is a formula
    parts[::2] = [EMPHASIS.sub(r"<em>\2</em>", html.escape(one, quote=False)) for one in parts[::2]]
    parts[1::2] = [formula(one) for one in parts[1::2]]
    return "".join(parts)


@cache
def formula(tex: str) -> str:
    """A short formula as a drawing as high as the words around it."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser

    size, out = 10.0, io.StringIO()
    shown = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", f"${tex}$")
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": tex, "mathtext.fontset": "dejavusans"}):
        width, height, depth, *_ = MathTextParser("path").parse(shown, dpi=72, prop=FontProperties(size=size))
        figure = Figure(figsize=(width / 72.0, height / 72.0))
        figure.text(0, depth / height, shown, fontsize=size)
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    drawn = re.sub(r"<metadata>.*?</metadata>", "", out.getvalue()[out.getvalue().index("<svg") :], flags=re.DOTALL)
    look = f"height: {height / size:.2f}em; vertical-align: {-depth / size:.2f}em"
    drawn = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", re.sub(r' height="[^"]*"', "", drawn, count=1), count=1)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{html.escape(tex)}" style="{look}" ', 1).strip()


def links(lessons: list[Lesson], chapters: dict[str, dict]) -> str:
    """A list of the files for the page for teachers."""
    items = "".join(
        f'<li><a href="../_static/slides/{name(one)}">{one.number}. {html.escape(one.title)}</a>, '
        f"{len(pictures(chapters[f'{one.document}.ipynb']))} pictures</li>"
        for one in lessons
    )
    return f"```{{raw}} html\n<ul>{items}</ul>\n```"

"""Print the rendered book as one PDF: ``python -m book pdf`` (``make pdf`` calls it); needs Chromium.

The pages of ``_build/html`` are put together in reading order as they are, so that numbers, pictures and words are the
same; hints and solutions go to the end of their chapter, and of what a page folds only the title is printed. Chromium
prints this page twice: where things lie in the first PDF is what the contents of the second say. The bookmarks have the
same entries.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import Fit

from book.editions.project import BookError, Project

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Scripts for the reader's hands, which paper has no use for; all others may draw what is printed.
FOR_HANDS = re.compile(
    r"/(documentation_options|doctools|sphinx_highlight|clipboard\.min|copybutton|sphinx-book-theme|togglebutton"
    r"|design-tabs|bootstrap|pydata-sphinx-theme|a11y|answers)\.js"
)
REFERS = ("aria-labelledby", "aria-describedby", "aria-controls", "for")
LAYOUT = """<!DOCTYPE html>
<html lang="en" data-theme="light" data-content_root="../html/"><head><meta charset="utf-8"><title>{title}</title>
{head}
<style>
@page :first {{ @bottom-center {{ content: none; }} }}
.bnn-document {{ break-before: page; }}
.bnn-contents a {{ color: inherit; display: flex; gap: 1em; justify-content: space-between; }}
.bnn-contents a > span:last-child {{ font-variant-numeric: tabular-nums; min-width: 3em; text-align: right; }}
.bnn-level-0 {{ break-after: avoid; font-weight: 600; margin-top: 0.6em; }}
.bnn-level-1 {{ padding-left: 1.2em; }}
.bnn-part {{ break-after: avoid; color: #555; font-variant: small-caps; margin: 1.4em 0 0; }}
</style></head>
<body><main class="bd-main" role="main"><div class="bd-content"><div class="bd-article-container">
<article class="bd-article">{body}</article></div></div></main></body></html>
"""


def browser() -> str:
    """Path of Chromium: $CHROMIUM, or the first that is installed.

    Raises:
        BookError: there is none.
    """
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None or shutil.which(found) is None:
        named = f"$CHROMIUM is {found}, which is no program" if found else "none was found"
        raise BookError(
            f"A PDF is printed by Chromium, and {named}. Install it (Debian and Ubuntu: apt-get install chromium) or "
            "set CHROMIUM=/path/to/it. Any browser's print command gives the same look, one page of the book at a time."
        )
    return found


class Whole:
    """The pages of a rendered book on the way to becoming one."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, heads = folder, []
        self.articles: dict[str, Tag] = {}
        for name in names:
            path = folder / f"{name}.html"
            if not path.exists():
                raise BookError(f"{path} is not there: run `make book` first")
            page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            heads.append((name, page.head))
            self.articles[name] = page.find("article", class_="bd-article")
            for tag in self.articles[name].select(".tableofcontents-wrapper, .toctree-wrapper"):
                drop_contents(tag)  # the whole has contents of its own
            leave_out_folds(self.articles[name])
        self.head = self._head(heads)
        self.taken: set[str] = set()
        self.renamed = {name: self._own_ids(name) for name in names}
        for name in names:
            self._relink(name)
            move_answers(self.articles[name], name)

    def _own_ids(self, name: str) -> dict[str, str]:
        """New ids for those that an earlier page has; what a page calls ``x`` and another, too, becomes ``name--x``."""
        new = {"": f"page--{name.replace('/', '-')}"}
        for tag in self.articles[name].find_all(id=True):
            old = tag["id"]
            if old in self.taken:
                new[old] = tag["id"] = f"{posixpath.basename(name)}--{old}"
            self.taken.add(tag["id"])
        for tag in self.articles[name].find_all(lambda one: any(key in one.attrs for key in REFERS)):
            for key in set(REFERS) & set(tag.attrs):
                tag[key] = " ".join(new.get(one, one) for one in tag[key].split())
        return new

    def _address(self, name: str, link: str) -> str:
        """Where a relative link of a page leads, seen from ``_build/print``."""
        parts = urlsplit(link)
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
        return posixpath.join("..", self.folder.name, inside)

    def _relink(self, name: str) -> None:
        """Lead links between pages to places in the whole, and files to where they lie."""
        for tag in self.articles[name].find_all(["a", "img", "source", "script"]):
            for key in {"href", "src"} & set(tag.attrs):
                parts = urlsplit(tag[key])
                if parts.scheme or parts.netloc:
                    continue
                to = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
                page = to.removesuffix(".html") if parts.path else name
                if page in self.articles:
                    anchor = unquote(parts.fragment)
                    tag["href"] = f"#{self.renamed[page].get(anchor, anchor)}"
                elif tag.name == "a":
                    del tag[key]  # a file beside the pages: there is none beside a PDF
                else:
                    tag[key] = self._address(name, tag[key])

    def _head(self, heads: list[tuple[str, Tag]]) -> str:
        """Style sheets and scripts of all pages, each once."""
        found: dict[str, None] = {}
        for name, head in heads:
            for tag in head.find_all(["link", "script", "style"]):
                address = tag.get("href") or tag.get("src")
                if tag.name == "link" and "stylesheet" not in (tag.get("rel") or ()):
                    continue
                if tag.name == "script" and (FOR_HANDS.search(f"/{address}") if address else "MathJax" not in tag.text):
                    continue
                if address:
                    tag["href" if tag.name == "link" else "src"] = self._address(name, address)
                found[str(tag)] = None
        return "\n".join(found)

    def outline(self, name: str) -> list[tuple[int, str, str]]:
        """Level (0: the page, 1: its sections), anchor and words of what the contents name of a page."""
        found = [(0, self.renamed[name][""], text_of(self.articles[name].find("h1")))]
        for heading in self.articles[name].find_all("h2"):
            above = heading if heading.get("id") else heading.find_parent("section", id=True)
            found += [(1, above["id"], text_of(heading))] if above else []
        return found


def drop_contents(box: Tag) -> None:
    """Take a list of pages out, and with it the section that holds nothing else than a heading below the title."""
    section = box.find_parent("section")
    box.decompose()
    inside = section.find_all(True, recursive=False) if section is not None else []
    if inside and all(tag.name in ("h2", "h3", "h4", "span") for tag in inside):
        section.decompose()


def leave_out_folds(article: Tag) -> None:
    """Put the title of each folded table or list in its place: two reports would fill 170 pages with single rows."""
    for box in article.select("details.bnn-fold"):
        title = BeautifulSoup("", "html.parser").new_tag("p", **{"class": "bnn-left-out"})
        title.string = f"Only on the screen: {box.summary.get_text(strip=True)}"
        box.replace_with(title)


def text_of(heading: Tag) -> str:
    """A heading's words, without the sign of its link; formulas stay as they are."""
    copy = BeautifulSoup(str(heading), "html.parser")
    for link in copy.find_all("a", class_="headerlink"):
        link.decompose()
    return " ".join(copy.get_text().split())


def move_answers(article: Tag, name: str) -> None:
    """Put the hints and solutions of a chapter's exercises behind everything else in it."""
    soup = BeautifulSoup("", "html.parser")
    end, exercise = soup.new_tag("section", **{"class": "bnn-answers"}), None
    for box in article.select(".exercise, .hint, .solution"):
        classes = box["class"]
        if "exercise" in classes:
            exercise = box
            continue
        if exercise is None or any("solution" in (one.get("class") or ()) for one in box.parents):
            continue  # a hint to something else, or a part of a solution
        if "hint" in classes:
            number = exercise.find(class_="caption-number")
            of = number.get_text(strip=True) if number else "the exercise"
            box.find(class_="admonition-title").string = f"Hint for {of}"
        box["class"] = [one for one in classes if one not in ("dropdown", "toggle", "toggle-hidden")]
        end.append(box.extract())
    if not end.contents:
        return
    heading = soup.new_tag("h2", id=f"answers--{name.replace('/', '-')}")
    heading.string = "Hints and solutions"
    end.insert(0, heading)
    article.append(end)


def contents(whole: Whole, project: Project, pages: dict[str, int]) -> str:
    """The table of contents; ``pages`` has the page of each anchor."""
    made = ['<nav class="bnn-contents bnn-document"><h1>Contents</h1>']
    for caption, names in parts(project):
        made.append(f'<p class="bnn-part">{caption}</p>')
        for level, anchor, words in (line for name in names for line in whole.outline(name)):
            number = f"<span>{pages.get(anchor, '')}</span>"
            made.append(f'<a class="bnn-level-{level}" href="#{anchor}"><span>{html.escape(words)}</span>{number}</a>')
    return "".join([*made, "</nav>"])


def parts(project: Project) -> list[tuple[str, list[str]]]:
    """Captions of the parts and the documents in each, without the landing page."""
    if "parts" not in project.toc:
        return [("", project.printed[1:])]
    named = [(part.get("caption", ""), documents(part)) for part in project.toc["parts"]]
    printed = [(caption, [name for name in names if name in project.printed]) for caption, names in named]
    return [(caption, names) for caption, names in printed if names]


def documents(part: dict) -> list[str]:
    """Names of the documents of a part, those below others included."""
    found = []
    for one in [*part.get("chapters", []), *part.get("sections", [])]:
        found += [one["file"], *documents(one)]
    return found


def assemble(whole: Whole, project: Project, pages: dict[str, int]) -> str:
    """The whole book as one page; ``pages`` are the numbers for its contents, as far as they are known."""
    first, *others = project.printed
    title = text_of(whole.articles[first].find("h1"))
    body = [f'<div id="{whole.renamed[first][""]}">{whole.articles[first].decode_contents()}</div>']
    body.append(contents(whole, project, pages))
    for name in others:
        inside = whole.articles[name].decode_contents()
        body.append(f'<div class="bnn-document" id="{whole.renamed[name][""]}">{inside}</div>')
    return LAYOUT.format(title=html.escape(title), head=whole.head, body="\n".join(body))


@contextlib.contextmanager
def printer():
    """A function that prints a page with Chromium: ``(page, pdf)``.

    Raises:
        BookError: there is no Chromium, or it failed; the message holds what it said.
    """
    path = browser()
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError as error:
        raise BookError("Chromium is driven by Playwright, which is not installed: pip install playwright") from error

    def print_page(page: Path, pdf: Path) -> None:
        tab = chromium.new_page(viewport={"width": 1280, "height": 1000})
        tab.set_default_timeout(0)  # a busy machine may take minutes
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-typeset]", state="attached")  # set by print.js
        tab.pdf(path=pdf, prefer_css_page_size=True, print_background=True)
        tab.close()

    try:
        with sync_playwright() as api:
            chromium = api.chromium.launch(executable_path=path, timeout=0)
            yield print_page
            chromium.close()
    except Error as error:
        raise BookError(f"{path} could not print the book: {error.message}") from error


def places(pdf: PdfReader) -> dict[str, tuple[int, float | None]]:
    """Page, from 1, and height on it of each anchor of a PDF."""
    found = {}
    for name, place in pdf.named_destinations.items():
        found[unquote(name.removeprefix("/"))] = (pdf.get_destination_page_number(place) + 1, float(place.top))
    return found


def add_bookmarks(whole: Whole, project: Project, draft: Path, pdf: Path) -> None:
    """Write the printed draft with bookmarks, which viewers show beside it when they open it."""
    writer, known = PdfWriter(clone_from=draft), places(PdfReader(draft))
    known[whole.renamed[project.printed[0]][""]] = (1, None)  # nothing links to the landing page
    above = None
    for level, anchor, words in (line for name in project.printed for line in whole.outline(name)):
        if anchor not in known:
            continue  # the landing page's own sections, which the contents leave out
        page, top = known[anchor]
        item = writer.add_outline_item(words, page - 1, above if level else None, fit=Fit.xyz(top=top))
        above = item if not level else above
    writer.page_mode = "/UseOutlines"
    writer.write(pdf)


def make_pdf(project: Project) -> Path:
    """Print the rendered book into ``_build/book.pdf`` and return its path.

    Raises:
        BookError: no pages, no Chromium, or Chromium failed.
    """
    if not (project.html / "index.html").exists():
        raise BookError(f"{project.html} holds no book: run `make book` first")
    folder, pdf = project.build / "print", project.build / "book.pdf"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page, draft = folder / "book.html", folder / "draft.pdf"
    whole, pages = Whole(project.html, project.printed), {}
    with printer() as print_page:
        for _ in range(2):
            page.write_text(assemble(whole, project, pages), encoding="utf-8")
            print_page(page, draft)
            pages = {anchor: number for anchor, (number, _) in places(PdfReader(draft)).items()}
    add_bookmarks(whole, project, draft, pdf)
    draft.unlink()
    return pdf


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m book pdf", description="Print the rendered book as one PDF.")
    parser.parse_args(arguments)
    try:
        pdf = make_pdf(Project(Path.cwd()))
    except BookError as error:
        print(f"The PDF was not made. {error}", file=sys.stderr)
        return 1
    print(f"{pdf} ({pdf.stat().st_size / 1e6:.1f} MB)")
    return 0

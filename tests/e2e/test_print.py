"""The book on paper and as EPUB: whole, with contents and the numbers of the pages, nothing cut, nothing that runs."""

import json
import posixpath
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pypdf import PdfReader
from pypdf.generic import IndirectObject

from book.editions import print as printing
from book.editions.epub import Parts
from book.editions.project import Project
from book.editions.whole import Whole, assemble

WIDTH = 672  # pixels of text on A4 between the margins of print.css, at 96 to the inch
# What reaches beyond the paper on either side.
CUT = """() => [...document.querySelectorAll(".bd-article :is(mjx-container, table, pre, img, svg, figure)")]
  .filter((e) => e.checkVisibility() && !e.closest("mjx-container mjx-container, mjx-assistive-mml"))
  .map((e) => [e, (e.querySelector(":scope > mjx-math") ?? e).getBoundingClientRect()])
  .filter(([, box]) => box.width > 1 && (box.right > innerWidth + 1 || box.left < -1))
  .map(([e, box]) => `${Math.round(box.left)} to ${Math.round(box.right)}: ${e.outerHTML.slice(0, 150)}`)"""
HIDDEN_TEXT = """() => [...document.querySelectorAll(".bd-article pre")]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.slice(0, 80))"""

# Words of tables below 8 points, and notes above the text; an exponent is smaller in any print.
TINY = """() => [...document.querySelectorAll(".bd-article table :is(th, td, p, small, code, span, a)")]
  .filter((e) => e.checkVisibility() && !e.closest("mjx-container, sup, sub"))
  .filter((e) => parseFloat(getComputedStyle(e).fontSize) < 8 / 0.75 - 0.01)
  .map((e) => `${getComputedStyle(e).fontSize}: ${e.outerHTML.slice(0, 100)}`)"""
NOTES = ".bd-article :is(small, figcaption, caption, aside, .bnn-caption, .admonition) *"
LOUD = """(notes) => [...document.querySelectorAll(notes)]
  .filter((e) => e.checkVisibility() && !e.closest("h1, h2, h3, h4, mjx-container"))
  .map((e) => [e, parseFloat(getComputedStyle(e).fontSize)])
  .filter(([, size]) => size > parseFloat(getComputedStyle(document.documentElement).fontSize))
  .map(([e, size]) => `${size}: ${e.outerHTML.slice(0, 100)}`)"""

# Boxes around code that do not break: they leave the end of a page empty, gray and with a green edge.
HOLLOW = """() => [...document.querySelectorAll(".bd-article :is(.cell_input, .cell_input div)")]
  .map((e) => [e, getComputedStyle(e)])
  .filter(([e, style]) => e.checkVisibility() && (style.breakInside !== "auto" || style.display !== "block"))
  .map(([e]) => e.outerHTML.slice(0, 100))"""


@pytest.fixture(scope="module")
def project(small_book) -> Project:
    return Project(small_book.parents[1])


def made(project: Project, kind: str) -> Path:
    """The book as one file of a kind, as the command of the same name makes it."""
    command = [sys.executable, "-m", "book", kind]  # in its own process: this one's Playwright is taken
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(project.build / f"book.{kind}") in done.stdout
    return project.build / f"book.{kind}"


@pytest.fixture(scope="module")
def pdf(chromium, project) -> PdfReader:
    return PdfReader(made(project, "pdf"))


def words(pdf: PdfReader) -> list[str]:
    """The text of each page."""
    return [" ".join(page.extract_text().split()) for page in pdf.pages]


def test_it_has_contents_bookmarks_and_page_numbers(pdf):
    text = words(pdf)
    marks = {mark.title: pdf.get_destination_page_number(mark) for mark in pdf.outline if not isinstance(mark, list)}
    titles = ["A book for the tests", "1. A chapter for the tests", "2. A chapter that asks", "Notation"]
    titles += ["Bibliography", "Status of this build"]
    assert list(marks) == titles
    sections = [mark.title for one in pdf.outline if isinstance(one, list) for mark in one]
    assert "Hints and solutions" in sections
    contents = next(page for page in text if " Contents " in f" {page} ")
    for title in titles[1:]:
        assert title in text[marks[title]]
        assert f"{title} {marks[title] + 1}" in contents
    for number, page in enumerate(text[1:], start=2):
        assert page.endswith(f" {number}") or page.startswith(f"{number} ")
    assert pdf.metadata.title == "A book for the tests"
    assert {tuple(round(float(side) / 72 * 25.4) for side in page.mediabox[2:]) for page in pdf.pages} == {(210, 297)}


def test_a_screen_reader_finds_headings_tables_and_lists(pdf):
    catalog = pdf.trailer["/Root"]
    assert catalog["/MarkInfo"]["/Marked"] and catalog["/Lang"] == "en"
    kinds, left = set(), [catalog["/StructTreeRoot"]]
    while left:
        node = left.pop().get_object()
        for child in node if isinstance(node, list) else [node]:
            if isinstance(child, dict):
                kinds.add(child.get("/S"))
                left += [child["/K"]] if "/K" in child else []
            elif isinstance(child, IndirectObject):
                left.append(child)
    assert {"/H1", "/H2", "/P", "/Table", "/TH", "/TD", "/L", "/Link", "/Figure"} <= kinds


def test_hints_and_solutions_come_after_the_exercises(pdf, project):
    order = ["What is", "Compute", "Hints and solutions", "Hint for Exercise 1.1", "Every factor is zero."]
    order += ["Solution to Exercise 1.1", "Zero, whatever the degree.", "Solution to Exercise 1.2"]
    whole = Whole(project)
    text = " ".join(whole.articles["chapters/01_fixture"].get_text().split())
    places = [text.rindex(part) for part in order]
    assert places == sorted(places)
    assert text.count("Zero, whatever the degree.") == 1
    printed = " ".join(words(pdf))
    assert all(part in printed for part in order)


@pytest.mark.parametrize("book", ["built_book", "small_book"])
def test_nothing_is_wider_than_the_paper(request, open_page, tmp_path, book):
    html = request.getfixturevalue(book)
    project = Project(html.parents[1])
    # Beside the pages, whose pictures it shows.
    page = html.parent / "print" / "measured.html"
    page.parent.mkdir(exist_ok=True)
    page.write_text(assemble(Whole(project), project), encoding="utf-8")
    shown = open_page(page)
    shown.wait_for_selector("html[data-typeset]", state="attached")
    shown.set_viewport_size({"width": WIDTH, "height": 1000})
    shown.emulate_media(media="print")
    assert shown.evaluate(CUT) == []
    assert shown.evaluate(HIDDEN_TEXT) == []
    assert shown.evaluate(TINY) == []
    assert shown.evaluate(LOUD, NOTES) == []
    assert shown.evaluate(HOLLOW) == []
    assert shown.faults == []
    page.unlink()


def test_wide_tiny_and_loud_things_would_be_seen(open_page, tmp_path):
    """The measures themselves."""
    page = tmp_path / "wide.html"
    cell, note = '<td style="font-size: 7.9pt">b</td>', '<small style="font-size: 2rem"><b>c</b></small>'
    code = '<div class="cell_input" style="break-inside: avoid">d</div>'
    page.write_text(f'<div class="bd-article"><pre style="width: 900px">a</pre><table>{cell}</table>{note}{code}</div>')
    shown = open_page(page, width=WIDTH)
    assert len(shown.evaluate(CUT)) == 1
    assert len(shown.evaluate(TINY)) == 1
    assert len(shown.evaluate(LOUD, NOTES)) == 1
    assert len(shown.evaluate(HOLLOW)) == 1


def test_paper_is_light_whatever_the_mode(open_page, small_book):
    page = open_page(small_book / "chapters/01_fixture.html", dark=True)
    dark = "getComputedStyle(document.querySelector('.bd-article .exercise')).color"
    screen = page.evaluate(dark)
    page.emulate_media(media="print")
    page.wait_for_function("document.documentElement.dataset.theme === 'light'")
    assert page.evaluate(dark) != screen
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("h1").filter(visible=True).count() == 1
    page.emulate_media(media="screen")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert page.evaluate(dark) == screen


def test_without_chromium_the_command_says_what_to_do(project, monkeypatch, capsys):
    monkeypatch.chdir(project.root)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert printing.main([]) == 1
    assert "apt-get install chromium" in capsys.readouterr().err
    monkeypatch.setenv("CHROMIUM", "/no/such/program")
    assert printing.main([]) == 1
    assert "/no/such/program, which is no program" in capsys.readouterr().err


def test_without_pages_the_command_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert printing.main([]) == 1
    assert "run `make book` first" in capsys.readouterr().err


XHTML, OPF = "{http://www.w3.org/1999/xhtml}", "{http://www.idpf.org/2007/opf}"
MATHML = "{http://www.w3.org/1998/Math/MathML}"


@pytest.fixture(scope="module")
def epub(chromium, project) -> zipfile.ZipFile:
    return zipfile.ZipFile(made(project, "epub"))


@pytest.fixture(scope="module")
def pages(epub) -> dict[str, ElementTree.Element]:
    """The parsed pages by the name of their file; what is not well formed is no page."""
    return {
        name.removeprefix("book/"): ElementTree.fromstring(epub.read(name))
        for name in epub.namelist()
        if name.endswith(".xhtml")
    }


def test_a_reading_program_recognizes_it_and_finds_every_file(epub, pages):
    first = epub.infolist()[0]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    assert epub.read(first) == b"application/epub+zip"
    package = ElementTree.fromstring(epub.read("book/book.opf"))
    listed = {item.get("id"): item.get("href") for item in package.iter(f"{OPF}item")}
    inside = {name.removeprefix("book/") for name in epub.namelist() if name.startswith("book/")} - {"book.opf"}
    assert set(listed.values()) == inside and len(listed) == len(inside)
    spine = [listed[one.get("idref")] for one in package.iter(f"{OPF}itemref")]
    assert spine[:3] == ["book-index.xhtml", "contents.xhtml", "chapters-01_fixture.xhtml"]
    assert spine[-1] == "book-status.xhtml" and set(spine) == set(pages)
    assert all(item.get("media-type") for item in package.iter(f"{OPF}item"))


def test_links_and_pictures_lead_to_what_is_inside(epub, pages):
    ids = {name: {one.get("id") for one in page.iter()} for name, page in pages.items()}
    assert len([one for page in pages.values() for one in page.iter(f"{XHTML}img")]) > 1
    for name, page in pages.items():
        for one in page.iter():
            address = one.get("href") or one.get("src") or ""
            file, _, anchor = address.partition("#")
            if not address or "://" in address or address.startswith("mailto:"):
                continue
            assert posixpath.join("book", file) in epub.namelist(), address
            assert not anchor or anchor in ids[file], f"{name}: {address}"


def test_numbers_are_those_of_the_pages(project, pages):
    found = json.loads((project.html / ".labels.json").read_text())["labels"]
    checked = 0
    for label, at in found.items():
        page = pages[f"{at['page'].replace('/', '-')}.xhtml"]
        places = [one for one in page.iter() if one.get("id") == at["anchor"]]
        if at["kind"] == "section" or not places:
            continue
        assert at["text"] in " ".join("".join(places[0].itertext()).split()), label
        checked += 1
    assert checked > 3


def test_formulas_are_mathml_with_their_tex_and_nothing_runs(pages):
    formulas = [one for page in pages.values() for one in page.iter(f"{MATHML}math")]
    assert formulas and all(one.get("alttext") and len(one) for one in formulas)
    for name, page in pages.items():
        tags = {one.tag.removeprefix(XHTML) for one in page.iter()}
        assert not tags & {"script", "style", "form", "input", "button", "noscript", "mjx-container"}, name
        assert "\\(" not in "".join(page.itertext()), name


def test_it_is_read_on_a_phone_without_scripts(epub, tmp_path, browser):
    epub.extractall(tmp_path)
    context = browser.new_context(viewport={"width": 390, "height": 800}, java_script_enabled=False)
    page = context.new_page()
    for path in sorted((tmp_path / "book").glob("*.xhtml")):
        page.goto(path.as_uri())
        assert page.locator("h1").first.is_visible(), path.name
    context.close()


def test_a_picture_that_is_written_into_a_page_becomes_a_file_of_its_kind():
    parts = Parts.__new__(Parts)
    parts.files = {}
    for source, suffix, content in (
        ("data:image/webp;base64,UklGRg==", ".webp", b"RIFF"),
        ("data:image/svg+xml,%3Csvg/%3E", ".svg", b"<svg/>"),
    ):
        name = parts._picture(re.search('src="(.+)"', f'src="{source}"'))[5:-1]
        assert name.endswith(suffix) and parts.files[name] == content

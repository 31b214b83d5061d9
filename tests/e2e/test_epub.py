"""The book as EPUB: whole, well formed, with the numbers of the pages, formulas as MathML, and nothing that runs."""

import json
import posixpath
import re
import subprocess
import sys
import zipfile
from xml.etree import ElementTree

import pytest

from book.editions.epub import Parts
from book.editions.project import Project

XHTML, OPF = "{http://www.w3.org/1999/xhtml}", "{http://www.idpf.org/2007/opf}"
MATHML = "{http://www.w3.org/1998/Math/MathML}"


@pytest.fixture(scope="module")
def project(small_book) -> Project:
    return Project(small_book.parents[1])


@pytest.fixture(scope="module")
def epub(chromium, project) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "book", "epub"]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(project.build / "book.epub") in done.stdout
    return zipfile.ZipFile(project.build / "book.epub")


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

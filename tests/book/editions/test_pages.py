"""The book of this tree: it builds, every cell ran, and the rendered pages have no faults."""

import re
import subprocess
import sys

import pytest

from book.editions.build import executed_before
from book.editions.check import check
from book.editions.project import Project, notebook_key, read_notebook

pytestmark = pytest.mark.slow  # the first of these tests to run builds the book


def test_the_rendered_book_has_no_faults(built_book, root):
    assert check(root) == []


def test_every_chapter_was_executed_from_the_present_sources(built_book, root):
    project = Project(root)
    shared = project.shared_key("smoke")
    for name in project.notebooks:
        key = notebook_key(read_notebook(root / name), shared + project.study_key(name))
        assert executed_before(project, name, key) is not None, f"{name} has no executed copy of the present state"


def test_a_second_build_has_nothing_to_do(built_book, root):
    done = subprocess.run([sys.executable, "-m", "book", "build"], cwd=root, capture_output=True, text=True, check=True)
    assert "to execute: 0" in done.stdout and "Pages: unchanged" in done.stdout
    assert re.search(r"Open \S+_build/html/index\.html", done.stdout)


def test_mathjax_lies_beside_the_pages(built_book):
    assert (built_book / "_static/mathjax/tex-chtml.js").stat().st_size > 1_000_000
    assert list((built_book / "_static/mathjax/output/chtml/fonts/woff-v2").glob("*.woff"))
    # The whole of MathJax would be 24 MB.
    sizes = (path.stat().st_size for path in (built_book / "_static/mathjax").rglob("*") if path.is_file())
    assert sum(sizes) < 4_000_000


def test_the_first_page_leads_to_the_landing_page(built_book):
    assert "book/index.html" in (built_book / "index.html").read_text()


def test_every_reference_is_well_formed_and_listed_once(root):
    text = (root / "book/references.bib").read_text()
    keys = re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)
    assert len(keys) == len(set(keys)) > 0
    folders = ("book", "chapters", "bnnlib")
    read = [path for folder in folders for end in ("md", "ipynb", "py") for path in (root / folder).rglob(f"*.{end}")]
    cited = "".join(path.read_text(encoding="utf-8") for path in read)
    assert [key for key in keys if key not in cited] == []
    for entry in re.split(r"\n(?=@)", text):
        assert re.search(r"^  title = \{", entry, re.MULTILINE), entry
        assert re.search(r"^  author = \{", entry, re.MULTILINE), entry
        assert re.search(r"^  year = \{(19|20)\d\d\}", entry, re.MULTILINE), entry

"""A learner's notebook alone in a folder says what it needs, or finds it; no page shows an address to fill in."""

import ast
import inspect
import io
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document

from book.editions._ext import theme
from book.editions.learner import companion
from book.editions.learner.write import first_cell
from book.editions.project import Project

# Optional: each is asked for inside the one function that needs it.
ELSEWHERE = {"dask", "distributed", "lightning_fabric", "onnxruntime", "onnx", "onnxscript", "pandas", "joblib"}
# and what comes with ipywidgets, matplotlib, PyTorch
ELSEWHERE |= {"IPython", "ivon", "triton", "matplotlib_inline", "contourpy", "cycler", "filelock"}
ADDRESSES = re.compile(r"ADDRESS|example\.(?:com|org)|[Yy]our-(?:name|org|user)|OWNER|USERNAME|<user(?:name)?>")


def run(folder, code: str) -> subprocess.CompletedProcess:
    """Run code in a folder, with what is installed and without this checkout, which is installed as editable."""
    installed = [place for place in sys.path if place.endswith("site-packages")]
    command = [sys.executable, "-I", "-S", "-c", f"import sys\nsys.path += {installed}\n{code}"]
    environment = os.environ | {"PIP_NO_INDEX": "1"}  # nothing is ever installed
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def archive(root) -> bytes:
    return companion.archive(Project(root), {"chapters/00_one.ipynb": "{}"})


@pytest.fixture
def code(tmp_path) -> str:
    """The first code cell, where no address is known, and a check of what it found."""
    return companion.start(tmp_path)


def test_alone_it_says_what_to_do_in_one_sentence(tmp_path, code):
    done = run(tmp_path, code)
    assert done.returncode
    (told,) = re.findall(r"^FileNotFoundError: (.*)$", done.stderr, re.MULTILINE)
    assert told == (
        f"This notebook runs on {companion.NAME}.zip, which the download button of its page gives: put it into "
        f"{tmp_path}, then run this cell again."
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", [".", f"{companion.NAME}/chapters", companion.NAME])
def test_beside_the_archive_or_in_its_folder_it_finds_all(tmp_path, code, archive, where):
    if where == ".":
        (tmp_path / f"{companion.NAME}.zip").write_bytes(archive)
    else:
        zipfile.ZipFile(io.BytesIO(archive)).extractall(tmp_path)
    show = "\nfrom book.lab import store\nimport bnnlib, chapters.shared\nprint(bnnlib.__file__, store.home())"
    done = run(tmp_path / where, code + show)
    home = (tmp_path / companion.NAME).resolve()
    assert done.stdout.split() == [str(home / "bnnlib/__init__.py"), str(home / "data")], done.stderr


@pytest.mark.slow
def test_what_pip_cannot_install_is_named(tmp_path, archive):
    (tmp_path / f"{companion.NAME}.zip").write_bytes(archive)
    asked = {"no_such_module": "no-such-module @ file:///nowhere/no_such_module-1-py3-none-any.whl"}
    source = inspect.getsource(companion.prepare)
    done = run(tmp_path, f"{source}\nprepare({companion.NAME!r}, None, {asked})")
    assert "pip could not install ['no-such-module" in done.stderr and "install them otherwise" in done.stderr


@pytest.mark.slow
def test_with_an_address_it_fetches_the_archive(tmp_path, archive, code):
    release = tmp_path / "releases/latest/download"
    release.mkdir(parents=True)
    (release / f"{companion.NAME}.zip").write_bytes(archive)
    (tmp_path / "_config.yml").write_text(f"repository:\n  url: {tmp_path.as_uri()}/\n")
    (tmp_path / "empty").mkdir()
    assert f"fetches it from {tmp_path.as_uri()}" in first_cell(tmp_path)
    done = run(tmp_path / "empty", companion.start(tmp_path) + "\nimport book.display; print('found')")
    assert done.stdout == "found\n", done.stderr


@pytest.mark.slow
def test_the_archive_is_the_same_for_the_same_content_and_holds_no_source_of_a_chapter(archive, root):
    assert companion.archive(Project(root), {"chapters/00_one.ipynb": "{}"}) == archive
    held = {name.removeprefix(f"{companion.NAME}/") for name in zipfile.ZipFile(io.BytesIO(archive)).namelist()}
    assert {name for name in held if name.endswith(".ipynb")} == {"chapters/00_one.ipynb"}
    assert {path.relative_to(root).as_posix() for path in (root / "data/results").glob("*.json")} <= held
    assert len(archive) < 8_000_000  # every page offers it


@pytest.mark.slow
def test_what_it_installs_is_all_that_is_imported(archive):
    asked = set()
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        for name in files.namelist():
            if name.endswith(".py"):
                for node in ast.walk(ast.parse(files.read(name))):
                    found = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                    found += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
                    asked |= {one.partition(".")[0] for one in found}
    own = {"bnnlib", "book", "chapters", "benchmarks", "tests", *sys.stdlib_module_names}
    assert asked - own - ELSEWHERE == set(companion.NEEDED)


def test_buttons_that_launch_follow_from_the_address(tmp_path, monkeypatch):
    assert f"{companion.NAME}.zip" == theme.ARCHIVE
    monkeypatch.setattr(theme, "ROOT", tmp_path)
    settings, config = tmp_path / "_config.yml", SimpleNamespace(html_theme_options={})
    settings.write_text("title: A book\n")
    theme.use_address(None, config)
    assert config.html_theme_options == {}
    settings.write_text("repository:\n  url: https://a/b\n")
    theme.use_address(None, config)
    assert config.html_theme_options["repository_url"] == "https://a/b"
    assert config.html_theme_options["launch_buttons"] == theme.LAUNCH


def test_the_neighbors_of_a_page_are_no_reports():
    order = ["a", "book/reports/a", "book/reports/a_2", "b", "book/reports/b"]
    around = zip(order, [None, *order], [*order[1:], None], strict=False)
    builder = SimpleNamespace(relations={one: [None, before, after] for one, before, after in around})
    builder.render_partial = lambda title: {"title": title}
    app = SimpleNamespace(builder=builder, env=SimpleNamespace(titles=dict(zip(order, order, strict=True))))
    found = {}
    for page, (_, before, after) in builder.relations.items():
        context = {"prev": before and {"title": before}, "next": after and {"title": after}, "pathto": str}
        theme.pass_reports(app, page, "", context, None)
        found[page] = [context[side] and context[side]["title"] for side in ("prev", "next")]
    assert found["a"] == [None, "b"] and found["b"] == ["a", None]
    assert found["book/reports/a"] == ["a", "book/reports/a_2"]  # goes on by itself


def test_the_version_stands_at_the_foot_of_every_page(root):
    config = SimpleNamespace(html_theme_options={"extra_footer": "Free."})
    theme.say_version(None, config)
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert config.html_theme_options["extra_footer"] == f"Free. Version {version}."


def test_the_link_of_a_solution_begins_with_its_first_word():
    link = nodes.reference("", " Exercise 1.1 (One)", refuri="#one")
    title, elsewhere = nodes.title("", "Solution to", link), nodes.paragraph("", "see", link.deepcopy())
    document = new_document("page")
    document += [title, elsewhere]
    theme.part_words(None, document, "page")
    assert [one.astext() for one in document.findall(nodes.reference)] == ["Exercise 1.1 (One)", " Exercise 1.1 (One)"]
    assert title.astext().split() == ["Solution", "to", "Exercise", "1.1", "(One)"]


def test_nothing_that_a_reader_sees_holds_an_address_to_fill_in(root):
    seen = [*root.glob("*.md"), *root.glob("book/*.md"), root / "_config.yml", root / "bnnlib/README.md"]
    seen += [root / "data/README.md", *root.glob("chapters/*.ipynb"), *(root / ".github").rglob("*.yml")]
    assert {str(path): found[0] for path in seen if (found := ADDRESSES.search(path.read_text()))} == {}
    assert "](" not in first_cell(root) and not ADDRESSES.search(first_cell(root) + companion.start(root))

"""A build that goes on from what Sphinx has read leaves what a build from nothing leaves, and warns of the same."""

import re
import shutil

import pytest

from book.editions import render
from book.editions.project import BookError, Project, locked

CARD = 'number = {0}\ntitle = "{1}"\nnotebook = "{1}.ipynb"\nsource = "none"\nprefix = "{1}"\n'
GLOSSARY = """# Words

```{glossary}
Gate
  Opens.
```

See {ref}`first-part`, {eq}`first-sum`, {numref}`first-figure`.
"""
FIRST = """# First

It cites {{cite:t}}`{work}` and the {{term}}`Gate`.

({label})=
## {section}

{text}

$$
1 + 1 = 2
$$ (first-sum)

```{{exercise}} Add
:label: first-exercise
What is 1 + 1?
```

```{{solution}} first-exercise
Two.
```
"""
DOTS = {  # pictures of one dot
    "black": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==",
    "white": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==",
}


READING, WRITING = "reading sources", "writing output"


class Pages:
    """A small book whose first chapter changes."""

    def __init__(self, scratch, make_notebook):
        self.make = make_notebook
        scratch.write("book/words.md", GLOSSARY)
        for number, name in ((3, "first"), (4, "second")):
            scratch.write(f"chapters/{name}/card.toml", CARD.format(number, name))
            scratch.write(f"chapters/{name}.ipynb", {})
        scratch.list("first", "second")
        toc = scratch.root / "_toc.yml"
        toc.write_text(toc.read_text().replace("- file: book/status", "- file: book/status\n  - file: book/words"))
        self.project = Project(scratch.root)
        self.project.build.mkdir()

    def render(self, text="Words.", section="A part", dot="black", work="bai2020efficient", label="first-part"):
        """Render with this first chapter; returns the names of the documents that were read and written."""
        figure = {"mystnb": {"figure": {"name": "first-figure", "caption": "A dot."}, "image": {"alt": "A dot."}}}
        prose = FIRST.format(text=text, section=section, work=work, label=label)
        first = self.make(("text", prose), ("figure", "1", figure))
        data = {"image/png": DOTS[dot]}
        first["cells"][1]["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
        second = self.make(("text", "# Second\n\n{eq}`first-sum` and {ref}`first-exercise`\n"))
        chapters = {"chapters/first.ipynb": first, "chapters/second.ipynb": second}
        render.stage(self.project, chapters, {"book/status.md": "# Status\n"})
        render.render(self.project)
        log = re.sub(r"\x1b\[[0-9;]*m", "", (self.project.build / "render.log").read_text())
        return [set(re.findall(rf"{verb}\.\.\. \[ *\d+%\] (\S+)", log)) for verb in (READING, WRITING)]

    def files(self) -> dict[str, bytes]:
        """All files of the book."""
        html = self.project.html
        return {str(path.relative_to(html)): path.read_bytes() for path in html.rglob("*") if path.is_file()}


@pytest.fixture
def pages(scratch, make_notebook) -> Pages:
    return Pages(scratch, make_notebook)


ALL = {"book/index", "book/words", "book/status", "book/bibliography", "chapters/first", "chapters/second"}
OTHER = {"text": "Other terms.", "section": "One more", "dot": "white", "work": "blundell2015weight"}


@pytest.mark.slow  # Sphinx begins several times
def test_what_changed_is_read_and_the_book_equals_one_from_nothing(pages):
    assert pages.render() == [ALL, ALL]
    # The page of the contents holds the tree of all titles, so Sphinx writes it with every document.
    assert pages.render("Some other, verbose words.") == [{"chapters/first"}, {"chapters/first", "book/index"}]
    excerpts = pages.files()["_static/excerpts.js"].decode()
    assert "verbose" in excerpts and "Opens." in excerpts
    assert pages.render(**OTHER) == [{"chapters/first"}, ALL]
    went_on = pages.files()
    assert "One more" in went_on["book/words.html"].decode()
    assert len([name for name in went_on if name.startswith("_images/")]) == 1
    shutil.rmtree(pages.project.sphinx)
    assert pages.render(**OTHER) == [ALL, ALL]
    from_nothing = pages.files()
    assert sorted(went_on) == sorted(from_nothing)
    assert [name for name in went_on if went_on[name] != from_nothing[name]] == []


@pytest.mark.slow  # Sphinx begins several times
def test_a_page_that_was_not_touched_is_warned_of_as_often_as_it_is_at_fault(pages):
    pages.render()
    before = pages.files()
    for _ in range(2):
        with pytest.raises(BookError, match=r"book/words\.md.*first-part"):
            pages.render(label="another-part")
        assert pages.files() == before and not pages.project.sphinx.exists()


@pytest.mark.parametrize(
    "name", ["book/editions/_ext/labels.py", "_config.yml", "requirements.txt", "book/_static/book.css", "_toc.yml"]
)
def test_any_change_but_of_a_text_starts_from_nothing(scratch, monkeypatch, name):
    began_with = []

    def sphinx(project, folder, inherited):
        began_with.append((folder / "_build").exists())
        (folder / "_build" / "html").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(render, "jupyter_book", sphinx)

    def made() -> None:
        project = Project(scratch.root)
        render.stage(project, {}, {"book/status.md": f"# Status {len(began_with)}\n"})
        render.made_pages(project)

    (scratch.root / "_build").mkdir()
    made()
    made()
    path = scratch.root / name
    path.write_text(path.read_text() + "\n# changed\n")
    made()
    (scratch.root / "_build/sphinx" / render.WHOLE).unlink()  # as a build leaves it that was killed
    made()
    assert began_with == [False, True, False, False]


def test_a_sphinx_that_outlived_its_builder_is_waited_for(scratch):
    fcntl = pytest.importorskip("fcntl")
    project = Project(scratch.root)
    project.build.mkdir()
    with locked(project.build / render.LOCK) as inherited, (project.build / render.LOCK).open("w") as other:
        assert inherited
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

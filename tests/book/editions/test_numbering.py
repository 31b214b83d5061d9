"""Numbers in the pages come from the chapters' cards, whatever the order and the gaps in the table of contents."""

import json
import re
from types import SimpleNamespace

import pytest

from book.editions import render
from book.editions._ext import labels
from book.editions.project import Project

CARD = 'number = {number}\ntitle = "{name}"\nnotebook = "{name}.ipynb"\nsource = "none"\nprefix = "{prefix}"\n'
PROSE = """# Chapter {prefix}

See {{eq}}`{prefix}-sum`, {{numref}}`{prefix}-figure`, {{numref}}`{prefix}-printed`, {{numref}}`{prefix}-written`,
{{prf:ref}}`{prefix}-theorem`, {{ref}}`{prefix}-exercise`, and of another chapter {{eq}}`{other}-sum`,
{{numref}}`{other}-figure`.

## A section

$$
1 + 1 = 2
$$ ({prefix}-sum)

```{{prf:theorem}}
:label: {prefix}-theorem
It is so.
```

```{{list-table}} Written.
:name: {prefix}-written
* - 1
```

```{{exercise}} Add
:label: {prefix}-exercise
What is 1 + 1?
```

```{{solution}} {prefix}-exercise
Two.
```
"""
PICTURE = {"data": {"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'/>"}}
TABLE = {"data": {"text/html": '<p>Printed <b>twice</b>.</p><div class="bnn-table"><table></table></div>'}}
PIVOT = {"data": {"text/html": '<p>Beside each other.</p><div class="bnn-table bnn-pivot"><table></table></div>'}}
LIST = {"data": {"text/html": '<div class="bnn-table"><table></table></div>'}}


@pytest.fixture(scope="module")
def pages(lasting_scratch, make_notebook):
    """Text of the rendered pages of three chapters: 7 with the prefix g, then 0 with a, then one without a card."""
    scratch, chapters = lasting_scratch, {}
    for name, prefix, other in (("07_g", "g", "a"), ("00_a", "a", "g"), ("99_x", "x", "g")):
        figure = {"mystnb": {"figure": {"name": f"{prefix}-figure", "caption": "Drawn."}, "image": {"alt": "Nothing."}}}
        named = {"mystnb": {"table": {"name": f"{prefix}-printed"}}}
        cells = [("figure", "1", figure), ("named", "1", named), ("nameless", "1"), ("list", "1")]
        made = make_notebook(("text", PROSE.format(prefix=prefix, other=other)), *cells)
        for cell, shown in zip(made["cells"][1:], (PICTURE, TABLE, PIVOT, LIST), strict=True):
            cell["outputs"] = [{"output_type": "display_data", "metadata": {}, **shown}]
        chapters[f"chapters/{name}.ipynb"] = made
        scratch.write(f"chapters/{name}.ipynb", made)
    for number, name, prefix in ((7, "07_g", "g"), (0, "00_a", "a")):
        scratch.write(f"chapters/{prefix}/card.toml", CARD.format(number=number, name=name, prefix=prefix))
    scratch.list("07_g", "00_a", "99_x")
    project = Project(scratch.root)
    project.build.mkdir()
    render.stage(project, chapters, {"book/status.md": "# Status\n"})
    render.render(project)
    found = [*project.html.rglob("*.html"), *(project.html / "_sources").rglob("*.ipynb")]
    return {path.name: path.read_text() for path in found}


def numbered(page: str) -> list[str]:
    """What captions and titles of boxes begin with, in order."""
    return [found.strip() for found in re.findall(r'caption-number">([^<]*)<', page)]


def linked(page: str, anchor: str) -> set[str]:
    """What the page's links to an anchor say."""
    found = re.findall(rf'<a class="reference internal" href="[^"]*#{anchor}">(.*?)</a>', page)
    return {re.sub("<[^>]+>", "", text).strip() for text in found}


@pytest.mark.slow
def test_everything_in_a_chapter_has_the_number_of_its_card(pages):
    for number, prefix, other, theirs in ((7, "g", "a", 0), (0, "a", "g", 7)):
        page = pages[f"0{number}_{prefix}.html"]
        words = ("Theorem {}.1", "Table {}.1", "Exercise {}.1", "Figure {}.1", "Table {}.2", "Table {}.3")
        assert numbered(page) == [word.format(number) for word in words]
        assert f'<span class="eqno">({number}.1)' in page
        assert linked(page, f"equation-{prefix}-sum") == {f"({number}.1)"}
        assert linked(page, f"{prefix}-figure") == {f"Figure {number}.1"}
        assert linked(page, f"{prefix}-written") == {f"Table {number}.1"}
        assert linked(page, f"{prefix}-printed") == {f"Table {number}.2"}
        assert linked(page, f"{prefix}-theorem") == {f"Theorem {number}.1"}
        assert f"Exercise {number}.1" in linked(page, f"{prefix}-exercise")  # from the text and from the solution
        assert any(f"Exercise {number}.1 (Add)" in text for text in linked(page, f"{prefix}-exercise"))
        assert linked(page, f"equation-{other}-sum") == {f"({theirs}.1)"}
        assert linked(page, f"{other}-figure") == {f"Figure {theirs}.1"}
        assert f'<span class="section-number">{number}. </span>Chapter {prefix}' in page and "<h2>A section<" in page
        assert "<title>" + f"{number}. Chapter {prefix}" in page
        assert "<b>twice</b>" in page
        assert page.count('class="bnn-caption"') == 2  # what has no caption is not numbered

    contents = re.findall(r'class="toctree-l1[^"]*"><a[^>]*>([^<]*)<', pages["bibliography.html"])
    assert contents == ["7. Chapter g", "0. Chapter a", "Chapter x", "Status", "Bibliography"]


@pytest.mark.slow
def test_the_learners_edition_has_the_numbers_of_the_page(pages):
    cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads(pages["07_g.ipynb"])["cells"]}
    assert cells["figure-caption"] == "**Figure 7.1.** Drawn."
    assert cells["named-tables"] == "**Table 7.2** is the one above."
    assert cells["nameless-tables"] == "**Table 7.3** is the one above." and "list-tables" not in cells
    assert cells["text"].startswith(
        "# Chapter g\n\nSee (7.1), Figure 7.1, Table 7.2, Table 7.1,\nTheorem 7.1, Exercise 7.1, "
        "and of another chapter [(0.1)](00_a.ipynb),\n[Figure 0.1](00_a.ipynb)."
    )
    for text in ("1 + 1 = 2 \\tag{7.1}", "> **Theorem 7.1.**", "**Table 7.1.** Written.", "> **Exercise 7.1 (Add).**"):
        assert text in cells["text"]


@pytest.mark.slow
def test_what_has_no_card_counts_by_itself(pages):
    words = ["Theorem 1", "Table 1", "Exercise 1", "Figure 1", "Table 2", "Table 3"]
    assert numbered(pages["99_x.html"]) == words
    assert linked(pages["99_x.html"], "equation-x-sum") == {"(1)"}
    assert linked(pages["99_x.html"], "equation-g-sum") == {"(7.1)"}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"doi": "10.1/x", "url": "https://example.org"}, "https://doi.org/10.1/x"),
        ({"eprint": "1234.5678", "archiveprefix": "arXiv"}, "https://arxiv.org/abs/1234.5678"),
        ({"url": "https://example.org"}, "https://example.org"),
        ({}, None),
    ],
)
def test_where_a_work_can_be_read(fields, where):
    assert labels.address(SimpleNamespace(fields=fields)) == where


def test_entries_keep_only_the_escapes_that_every_markdown_knows():
    assert labels.plain(r"44\(1\):283, 2005\. Of $L\_0$ and \*.") == r"44(1):283, 2005. Of $L_0$ and \*."

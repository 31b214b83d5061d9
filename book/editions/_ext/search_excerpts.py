"""Sphinx extension: search results by section and with an excerpt, also from a folder without a server.

Sphinx fetches every page that it found to quote from it, which a browser refuses for files. Here the text of all
sections and exercises lies in ``_static/excerpts.js``, which the search page alone loads; ``book/_static/search.js``
shows it.
"""

import html
import json
import re
import unicodedata
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx_exercise.nodes import is_exercise_node

KEPT = "search.json"  # beside what Sphinx keeps: texts and index entries of all pages
NOT_QUOTED = (nodes.math_block, nodes.comment, nodes.image)
UNSPOKEN = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.DOTALL)
COMMAND = re.compile(r"\\([a-zA-Z]+)\s*")


def plain(tex: str) -> str:
    """A short formula as text: Greek letters as such, other commands left out."""

    def letter(match: re.Match) -> str:
        name = match[1]
        case = "CAPITAL" if name[0].isupper() else "SMALL"
        try:
            return unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}")
        except KeyError:
            return ""

    return re.sub(r"[{}$]|\\.", "", COMMAND.sub(letter, tex))


def entries(doctree: nodes.document, title: str, exercise: dict[str, tuple[int, ...]]) -> list[list[str]]:
    """Anchor, title and text of each section, exercise (with its number by id) and name of the library, in order."""
    found: list[list[str]] = [["", title, ""]]

    def walk(node: nodes.Node, entry: list[str]) -> None:
        for child in node.children:
            # The body of an exercise is a section, too, without a title.
            if isinstance(child, nodes.section) and isinstance(child.children[0], nodes.title):
                name = child.children[0].astext()
                top = isinstance(node, nodes.document) and len(found) == 1
                if not top:
                    found.append([child["ids"][0], name, ""])
                walk(child, found[0] if top else found[-1])
            elif is_exercise_node(child):
                number = ".".join(map(str, exercise.get(child["ids"][0], ())))
                found.append([child["ids"][0], f"Exercise {number}{child.children[0].astext()}", ""])
                walk(child, found[-1])
            elif isinstance(child, addnodes.desc):
                found.append([child[0]["ids"][0], child[0]["fullname"], ""])
                walk(child[-1], found[-1])
            elif isinstance(child, nodes.title) or isinstance(child, NOT_QUOTED):
                continue
            elif isinstance(child, nodes.math):
                entry[2] += plain(child.astext())
            elif isinstance(child, nodes.raw):
                entry[2] += f" {html.unescape(UNSPOKEN.sub(' ', child.astext()))} "
            elif isinstance(child, nodes.Text):
                entry[2] += child.astext()
            else:
                walk(child, entry)
                entry[2] += "" if isinstance(child, nodes.Inline) else " "

    walk(doctree, found[0])
    return [[anchor, name, " ".join(text.split())] for anchor, name, text in found]


def collect(app, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Keep the text of a page that is about to be written; let the search page load all of it."""
    if doctree is not None:
        number = ".".join(map(str, app.env.toc_secnumbers.get(pagename, {}).get("", ())))
        title = f"{number}. {app.env.titles[pagename].astext()}" if number else app.env.titles[pagename].astext()
        exercise = app.env.toc_fignumbers.get(pagename, {}).get("exercise", {})
        app.bnn_excerpts[pagename] = entries(doctree, title, exercise)
    elif pagename == "search":
        app.add_js_file("excerpts.js", loading_method="defer")
        app.add_js_file("search.js", loading_method="defer")


def start(app) -> None:
    """Go on from the last build: Sphinx writes only the pages that have changed."""
    kept = Path(app.doctreedir) / KEPT
    last = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"texts": {}, "entries": {}}
    app.bnn_excerpts, app.bnn_entries = last["texts"], last["entries"]


def complete(app) -> list:
    """Mend the index that Sphinx goes on from: it forgets the index entries of the pages that it does not write, and
    keeps words that are on no page any more.
    """
    if (indexer := getattr(app.builder, "indexer", None)) is not None:
        found = {page: [tuple(one) for one in some] for page, some in app.bnn_entries.items()} | indexer._index_entries
        indexer._index_entries = {page: some for page, some in sorted(found.items()) if page in app.env.found_docs}
        app.bnn_entries = indexer._index_entries
        for words in (indexer._mapping, indexer._title_mapping):
            for word in [word for word, pages in words.items() if not pages]:
                del words[word]
    return []  # of pages to add


def write(app, error) -> None:
    if error is None and app.builder.format == "html":
        there = {page: texts for page, texts in sorted(app.bnn_excerpts.items()) if page in app.env.found_docs}
        text = json.dumps(there, ensure_ascii=False, separators=(",", ":"))
        kept = json.dumps({"texts": there, "entries": app.bnn_entries}, ensure_ascii=False)
        (Path(app.doctreedir) / KEPT).write_text(kept, encoding="utf-8")
        (Path(app.outdir) / "_static" / "excerpts.js").write_text(f"const EXCERPTS = {text};\n", encoding="utf-8")


def setup(app) -> dict:
    app.connect("builder-inited", start)
    app.connect("html-page-context", collect)
    app.connect("html-collect-pages", complete)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}

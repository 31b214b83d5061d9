"""Sphinx extension: what references to other pages lead to, for ``book/_static/hover.js`` to show beside them.

The script copies equations, figures, tables and theorems from the page itself. What lies on another page, which a
browser does not let it read from a folder, is in ``_static/previews.js``, loaded with the first use: equations, terms
of the glossary and figures, by page and id. Of a citation its line of the bibliography is shown, and of a number of the
store its runs: both are the titles of links.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform

KEPT = "previews.json"  # beside what Sphinx keeps: previews of all pages


def previews(builder, doctree: nodes.document) -> dict[str, str]:
    """HTML by id of all on a page that others show."""
    found = {}
    for node in doctree.findall(lambda one: isinstance(one, nodes.math_block | nodes.term | nodes.figure)):
        if not node["ids"]:
            continue
        content = node.parent[-1] if isinstance(node, nodes.term) else node
        if isinstance(node, nodes.figure):  # of an explorer only what it shows in words
            content = node.copy()
            content += [part.deepcopy() for kind in (nodes.image, nodes.caption) if (part := node.next_node(kind))]
        html = builder.render_partial(content.deepcopy())["fragment"].strip()
        html = html.removeprefix("<dd>").removesuffix("</dd>")  # it is no part of a list there
        found.update(dict.fromkeys(node["ids"], html))
    return found


class KeepTitles(SphinxTransform):
    """The title of a link in Markdown, which MyST forgets where the link leads to a label."""

    default_priority = 870  # before MyST's ResolveAnchorIds

    def apply(self, **_) -> None:
        for link in self.document.findall(nodes.reference):
            if link.get("id_link") and link.get("reftitle"):
                holder = nodes.inline("", "", *link.children, titled=link["reftitle"])
                link.children = []
                link += holder


def put_titles(app, doctree: nodes.document, pagename: str) -> None:
    for link in doctree.findall(nodes.reference):
        for holder in link.findall(lambda node: isinstance(node, nodes.inline) and "titled" in node):
            link["reftitle"] = holder["titled"]


def start(app) -> None:
    """Go on from the last build: Sphinx writes only the pages that have changed."""
    kept = Path(app.doctreedir) / KEPT
    app.bnn_previews = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}


def collect(app, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    if doctree is not None and app.builder.name == "html":
        app.bnn_previews[pagename] = previews(app.builder, doctree)


def write(app, error) -> None:
    if error is None and app.builder.name == "html":
        there = {page: one for page, one in sorted(app.bnn_previews.items()) if one and page in app.env.found_docs}
        text = json.dumps(there, ensure_ascii=False, separators=(",", ":"))
        (Path(app.doctreedir) / KEPT).write_text(text, encoding="utf-8")
        (Path(app.outdir) / "_static" / "previews.js").write_text(f"window.bnnPreviews = {text};\n", encoding="utf-8")


def setup(app) -> dict:
    app.add_transform(KeepTitles)
    app.connect("doctree-resolved", put_titles)
    app.connect("builder-inited", start)
    app.connect("html-page-context", collect)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}

"""Sphinx extension: number the tables that cells print, together with those written in Markdown.

An output in HTML that begins with a paragraph and goes on with an element whose first class is ``bnn-table`` is a
table, and the paragraph its caption. It is referred to by the name in the cell's metadata, ``{"mystnb": {"table":
{"name": "..."}}}``, and ``{numref}`name` ``.
"""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

CAPTIONED = re.compile(r"\s*<p[^>]*>(?P<caption>.*?)</p>\s*(?P<table><\w+[^>]*class=\"bnn-table[ \"].*)", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


class ResultTable(nodes.General, nodes.Element):
    """A printed table; ``caption`` holds HTML."""


def words_of(node: ResultTable) -> str:
    """The caption without markup, by which Sphinx tells captioned tables from others."""
    return TAG.sub("", node["caption"])


class FindResultTables(SphinxTransform):
    """Wrap each printed table in a node that counts."""

    default_priority = 400  # before Sphinx collects labels

    def apply(self, **_) -> None:
        for output in list(self.document.findall(nodes.raw)):
            bundle = output.parent.parent if output.parent is not None else None
            if not (isinstance(bundle, nodes.container) and bundle.get("nb_element") == "mime_bundle"):
                continue
            found = CAPTIONED.fullmatch(output.astext()) if output.get("format") == "html" else None
            if found is None:
                continue
            output.replace_self(nodes.raw("", found["table"], **output.attributes))
            table = ResultTable("", caption=found["caption"], names=[])
            if name := self.name_of(bundle):
                table["names"].append(nodes.fully_normalize_name(name))
                self.document.note_explicit_target(table, table)
            else:
                self.document.set_id(table)
            bundle.replace_self(table)
            table += bundle

    @staticmethod
    def name_of(bundle: nodes.container) -> str | None:
        """What the cell calls its table."""
        node = bundle
        while node is not None and node.get("nb_element") != "cell_code":
            node = node.parent
        return node["cell_metadata"].get("mystnb", {}).get("table", {}).get("name") if node is not None else None


def visit_table(writer, node: ResultTable) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="bnn-numbered"))
    writer.body.append('<p class="bnn-caption">')
    writer.add_fignumber(node)
    writer.body.append(f'<span class="caption-text">{node["caption"]}</span>')
    writer.add_permalink_ref(node, "Link to this table")
    writer.body.append("</p>")


def depart_table(writer, node: ResultTable) -> None:
    writer.body.append("</div>")


def setup(app) -> dict:
    app.add_enumerable_node(ResultTable, "table", words_of, html=(visit_table, depart_table))
    app.add_transform(FindResultTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

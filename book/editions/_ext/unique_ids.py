"""Sphinx extension: drop the fixed ids that sphinx-exercise and sphinx-proof give to every body and every proof.

A page with two exercises would hold the same id twice, which is invalid HTML and confuses assistive technology. Nothing
links to them.
"""

from docutils import nodes

REPEATED = {"exercise-content", "solution-content", "proof-content", "proof"}


def drop_repeated_ids(app, doctree: nodes.document, docname: str) -> None:
    for node in doctree.findall(nodes.Element):
        if REPEATED & set(node.get("ids", ())):
            node["ids"] = [name for name in node["ids"] if name not in REPEATED]


def setup(app) -> dict:
    app.connect("doctree-resolved", drop_repeated_ids)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Sphinx extension: number the chapters, and in each of them its figures, tables, equations, theorems and exercises.

A chapter's number is the one of its card, wherever `_toc.yml` puts it: Figure 3.2 is the second of chapter 3. The build
hands the numbers over in ``chapter_numbers.json`` (document -> number) beside `_toc.yml`. Documents without a number,
which are the front and the back matter, count by themselves: Table 1.

Sphinx numbers within "numbered" toctrees by position and from 1 in each part; so there are none here, and the collector
that counts is another.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.environment.collectors.toctree import TocTreeCollector

NUMBERS = "chapter_numbers.json"


def chapter_numbers(source: Path) -> dict[str, int]:
    """Number of each chapter by document name; empty for sources that no build has laid out."""
    path = source / NUMBERS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


class ChapterCollector(TocTreeCollector):
    """Sphinx's collector with the numbers of the cards."""

    def assign_section_numbers(self, env) -> list[str]:
        """Give every chapter its number; returns the documents that had another."""
        before, env.toc_secnumbers = env.toc_secnumbers, {}
        for docname, number in chapter_numbers(Path(env.srcdir)).items():
            if docname not in env.tocs:
                continue
            # The first entry is the chapter's title, named "" by Sphinx; sections go by their titles.
            title, *sections = env.tocs[docname].findall(nodes.reference)
            env.toc_secnumbers[docname] = {title["anchorname"]: (number,)}
            env.toc_secnumbers[docname] |= {section["anchorname"]: () for section in sections}
            title["secnumber"] = env.titles[docname]["secnumber"] = (number,)
        return [docname for docname, found in env.toc_secnumbers.items() if found != before.get(docname)]


def setup(app) -> dict:
    # In place of Sphinx's own, which would number everything otherwise first and call every document changed.
    for listener in list(app.events.listeners["env-get-updated"]):
        if isinstance(collector := getattr(listener.handler, "__self__", None), TocTreeCollector):
            collector.disable(app)
    app.add_env_collector(ChapterCollector)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}

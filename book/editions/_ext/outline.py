"""Sphinx extension: a build that goes on from the last one leaves what a build from nothing leaves.

Sphinx writes the pages whose source has changed. A page also shows something of others: their titles and numbers, the
texts of references to them, the works they cite. This is the outline; when it has changed, every page is written again.
Pictures and downloads that no page has any more go.
"""

import hashlib
import json
from pathlib import Path

from docutils import nodes
from labels import citations, labels

COPIED = {"_images": "images", "_downloads": "dlfiles"}  # folder of the book, and where Sphinx lists what is in it


def titles(env) -> dict[str, list[str]]:
    """Titles of the pages, as markup, and of their sections, with all numbers."""
    return {
        page: [str(title), str(env.longtitles.get(page)), str(env.tocs.get(page)), str(env.toc_secnumbers.get(page))]
        for page, title in sorted(env.titles.items())
    }


def outline(app, env) -> str:
    """Hash of all that a page can show of another one."""
    standard = env.get_domain("std")
    exercises = getattr(env, "sphinx_exercise_registry", {})
    shown = {
        "titles": titles(env),
        "labels": labels(env),
        "names": sorted([str(name), str(place)] for name, place in standard.objects.items()),
        "anchors": sorted([label, *place] for label, place in standard.anonlabels.items()),
        "exercises": sorted([label, *plain(entry)] for label, entry in exercises.items()),
        "citations": citations(app),
    }
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def plain(entry: dict) -> list[str]:
    """What an entry of a registry says, without the nodes that it holds."""
    return [f"{name}: {value}" for name, value in entry.items() if not isinstance(value, nodes.Node)]


def find_changed(app, env) -> list[str]:
    """All documents, if the outline is another than at the last build; Sphinx keeps it with the environment."""
    before, env.bnn_outline = getattr(env, "bnn_outline", None), outline(app, env)
    return [] if env.bnn_outline == before else sorted(env.found_docs)


def leave_out(app, error) -> None:
    """Delete the copies of files that no document names any more."""
    if error is not None or app.builder.format != "html":
        return
    for folder, listed in COPIED.items():
        wanted = {name for _, name in getattr(app.env, listed).values()}
        for path in (Path(app.outdir) / folder).rglob("*"):
            if path.is_file() and path.relative_to(Path(app.outdir) / folder).as_posix() not in wanted:
                path.unlink()


def setup(app) -> dict:
    app.connect("env-get-updated", find_changed, priority=900)
    app.connect("build-finished", leave_out)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

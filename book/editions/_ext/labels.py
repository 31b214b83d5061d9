"""Sphinx extension: write down what the pages call everything that can be referred to, for the other editions.

``.labels.json`` beside the pages holds {"labels": {label: {kind, text, page, anchor}}, "citations": {key: {authors,
year, url, entry}} in the order of the bibliography, "pages": {name: title}, "printed": {page: {number of a cell: texts
of the tables that it prints}}}. Texts are those of a reference on a page,
such as "Figure 3.2", "(3.5)", "Theorem 3.1", so that no edition counts for itself.
"""

import json
import re
from pathlib import Path

import pybtex.plugin
from docutils import nodes

FILE = ".labels.json"
LINK = re.compile(r'(<a href="#equation-[^"]+">)([\w:.-]+)(?=</a>)')


def numbers(env) -> dict[tuple[str, str], tuple[str, str]]:
    """{(page, id): (kind, number)} of all that is counted."""
    return {
        (page, name): (kind, ".".join(map(str, number)))
        for page, kinds in env.toc_fignumbers.items()
        for kind, ids in kinds.items()
        for name, number in ids.items()
    }


def named(env) -> dict[str, dict]:
    """Figures, tables, listings, exercises and sections, as {numref} and {ref} show them."""
    standard, counted, formats = env.get_domain("std"), numbers(env), env.config.numfig_format
    found = {}
    for label, (page, anchor) in standard.anonlabels.items():
        if page not in env.titles or "/" in label:  # Sphinx's own index, and solutions, which nobody can refer to
            continue
        title = str(standard.labels[label][2]) if label in standard.labels else ""
        kind, text = "section", title
        if (page, anchor) in counted and counted[page, anchor][0] in formats:
            kind, number = counted[page, anchor]
            text = formats[kind].replace("%s", number).format(number=number, name=title)
        if text:
            found[label] = {"kind": kind, "text": text, "page": page, "anchor": anchor}
    return found


def equations(env) -> dict[str, dict]:
    """Labeled equations, as {eq} shows them."""
    counted, found = numbers(env), {}
    for label, (page, number) in env.get_domain("math").equations.items():
        anchor = f"equation-{nodes.make_id(label)}"
        _, shown = counted.get((page, anchor), ("", number))
        found[label] = {"kind": "equation", "text": f"({shown})", "page": page, "anchor": anchor}
    return found


def printed(env) -> dict[str, dict[int, list[str]]]:
    """The numbered tables that cells print, by page and number of the cell."""
    counted, form, found = numbers(env), env.config.numfig_format["table"], {}
    for page in [page for page, kinds in env.toc_fignumbers.items() if "table" in kinds]:
        for cell in env.get_doctree(page).findall(nodes.container):
            if cell.get("nb_element") != "cell_code":
                continue
            ids = [name for node in cell.findall(nodes.Element) for name in node["ids"]]
            tables = [counted[page, name][1] for name in ids if counted.get((page, name), ("",))[0] == "table"]
            if tables:
                found.setdefault(page, {})[cell["cell_index"]] = [form.replace("%s", number) for number in tables]
    return found


def proofs(env) -> dict[str, dict]:
    """Theorems and their like, as {prf:ref} shows them."""
    counted, found = numbers(env), {}
    for label, entry in getattr(env, "proof_list", {}).items():
        kind, page = entry["realtype"], entry["docname"]
        _, number = counted.get((page, label), ("", ""))
        found[label] = {"kind": kind, "text": f"{kind.title()} {number}".strip(), "page": page, "anchor": label}
    return found


def labels(env) -> dict[str, dict]:
    """All that can be referred to, by label."""
    return dict(sorted({**named(env), **equations(env), **proofs(env)}.items()))


def address(entry) -> str | None:
    """Where a work can be read."""
    fields = entry.fields
    if "doi" in fields:
        return f"https://doi.org/{fields['doi']}"
    if "eprint" in fields and fields.get("archiveprefix", "arXiv").lower() == "arxiv":
        return f"https://arxiv.org/abs/{fields['eprint']}"
    return fields.get("url")


def plain(markdown: str) -> str:
    """Without pybtex's escapes of every sign that some Markdown may know: "\\(" would begin a formula."""
    text = re.sub(r"\\([^\w\s*_`\[\]])", r"\1", markdown.replace("\n", " "))
    return re.sub(r"\$[^$]+\$", lambda formula: formula[0].replace(r"\_", "_"), text)


def citations(app) -> dict[str, dict]:
    """Cited works, as {cite:t} shows them, and their line in the bibliography as Markdown."""
    domain = app.env.get_domain("cite")
    markdown = pybtex.plugin.find_plugin("pybtex.backends", "markdown")()
    found = {}
    for citation in domain.citations:
        shown = domain.resolve_xref(app.env, app.config.root_doc, app.builder, "t", citation.key, nodes.Text(""), None)
        authors, year = re.fullmatch(r"(.+) \[(.+)\]", shown.astext()).groups()
        entry = plain(citation.formatted_entry.text.render(markdown))
        found[citation.key] = {"authors": authors, "year": year, "url": address(citation.entry), "entry": entry}
    return found


def number_links(app, doctree: nodes.document, docname: str) -> None:
    """Links to equations in printed tables show the number, which no cell knows, and not the label."""
    known = equations(app.env)
    for node in list(doctree.findall(nodes.raw)):
        if "#equation-" in (text := node.astext()):
            shown = LINK.sub(lambda link: link[0] if link[2] not in known else link[1] + known[link[2]]["text"], text)
            node.replace_self(nodes.raw("", shown, **node.attributes))


def write_labels(app, error) -> None:
    """Write the file after a successful HTML build."""
    if error is not None or app.builder.name != "html":
        return
    env = app.env
    pages = {name: title.astext() for name, title in sorted(env.titles.items())}
    content = {"labels": labels(env), "citations": citations(app), "pages": pages, "printed": printed(env)}
    (Path(app.outdir) / FILE).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def setup(app) -> dict:
    app.connect("doctree-resolved", number_links)
    app.connect("build-finished", write_labels)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

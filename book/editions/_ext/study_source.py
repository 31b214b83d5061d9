"""Sphinx extension: under a cell that uses functions of its chapter's study, links to their code.

The code lies where sphinx.ext.viewcode puts that of the library, one page a module, and from there a link leads back to
the first page that uses the function. Modules are read, not imported: a changed sentence should not cost their imports.
"""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.pycode import ModuleAnalyzer

ROOT = Path(__file__).resolve().parents[3]
STUDIES = "chapters"


def analyzed(module: str) -> ModuleAnalyzer | None:
    """The code of a module and where its functions and classes stand; None for what is no module."""
    below = ROOT.joinpath(*module.split("."))
    path = next((one for one in (below.with_suffix(".py"), below / "__init__.py") if one.exists()), None)
    if path is None:
        return None
    analyzer = ModuleAnalyzer.for_file(str(path), module)
    analyzer.find_tags()
    return analyzer


def home(name: str) -> tuple[str, str] | None:
    """(module, name) of the definition that a dotted name of the studies stands for."""
    module, _, own = name.rpartition(".")
    if module.split(".")[0] != STUDIES:
        return None
    if (analyzer := analyzed(module)) is None:
        return home(module)  # a method, say
    if own in analyzer.tags:
        return module, own
    return next((home(path) for known, path in imports(ast.parse(analyzer.code)).items() if known == own), None)


def imports(tree: ast.Module) -> dict[str, str]:
    """Dotted names by the names under which a module or cell imports them."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {one.asname or one.name: f"{node.module}.{one.name}" for node in found for one in node.names}


def uses(tree: ast.Module, known: dict[str, str]) -> list[tuple[str, str]]:
    """Definitions of the studies that a cell uses, in its order."""
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        first, *rest = ast.unparse(node).split(".")
        if first in known and (definition := home(".".join([known[first], *rest]))):
            found.setdefault(definition, (node.lineno, node.col_offset))
    return sorted(found, key=found.get)


def find(app, doctree: nodes.document) -> None:
    """Put the links under the cells of a chapter."""
    page, known, seen = app.env.docname, {}, []
    for cell in doctree.findall(lambda one: isinstance(one, nodes.container) and one.get("nb_element") == "cell_code"):
        source = next((node for node in cell.children if node.get("nb_element") == "cell_code_source"), None)
        try:
            tree = ast.parse(source.astext() if source else "")
        except SyntaxError:  # a command of IPython's
            continue
        known |= imports(tree)
        if not (found := uses(tree, known)):
            continue
        line = nodes.paragraph("", "Source: ", classes=["bnn-source"])
        for module, name in found:
            place = app.builder.get_relative_uri(page, f"_modules/{module.replace('.', '/')}")
            link = nodes.reference("", name, internal=True, refuri=f"{place}#{name}")
            if (module, name) not in seen:
                link["ids"].append(f"{module}.{name}")
                seen.append((module, name))
            line += [link, nodes.Text(", ")]
        line.pop()
        cell.insert(cell.index(source) + 1, line)
    if seen:
        app.env.bnn_sources = {**getattr(app.env, "bnn_sources", {}), page: seen}


def forget(app, env, page: str) -> None:
    getattr(env, "bnn_sources", {}).pop(page, None)


def tell(app, env) -> None:
    """Hand the modules in use to viewcode, which otherwise knows those of the reference."""
    modules = env._viewcode_modules = getattr(env, "_viewcode_modules", {})
    for module in [module for module in modules if module.split(".")[0] == STUDIES]:
        del modules[module]
    for page, found in sorted(getattr(env, "bnn_sources", {}).items()):
        for module, name in found:
            if module not in modules:
                analyzer = analyzed(module)
                modules[module] = analyzer.code, analyzer.tags, {}, module
            modules[module][2].setdefault(name, page)


def code_of(app, module: str) -> tuple[str, dict] | None:
    analyzer = analyzed(module) if module.split(".")[0] == STUDIES else None
    return (analyzer.code, analyzer.tags) if analyzer else None


def leave_out(app, error) -> None:
    """Delete the pages of modules that nothing uses any more."""
    if error is None and app.builder.name == "html":
        for path in (Path(app.outdir) / "_modules").rglob("*.html"):
            module = ".".join(path.relative_to(Path(app.outdir) / "_modules").with_suffix("").parts)
            if module != "index" and not app.env._viewcode_modules.get(module):
                path.unlink()


def setup(app) -> dict:
    app.connect("doctree-read", find)
    app.connect("env-purge-doc", forget)
    app.connect("env-updated", tell)
    app.connect("viewcode-find-source", code_of)
    app.connect("build-finished", leave_out)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}

"""Sphinx extension: the reference of a package of bnnlib, from its code.

The directive ``api`` names a package and, a line each, topics as ``Title: module module``. A topic holds the public
names that these modules define. The page gets the package's docstring, the summaries by topic, then the modules'
docstrings and the entries. A public name that no topic holds is an error.

Docstrings are plain text for `help`: single backticks, sections as Google writes them, equations by their labels. Here
backticks become code and links, and labels the numbers of the equations, which must be in the book.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.pycode import ModuleAnalyzer

LIBRARY = "bnnlib"
CODE = re.compile(r"(``[^`]+``|`[^`]+`)")
NAME = re.compile(r"[A-Za-z_][\w.]*")
LABEL = re.compile(r"\(([a-z]{2,5}-[a-z0-9-]+)\)")
SIGNS = re.compile(r"[\\*|]|(?<=\w)_(?!\w)")  # what reStructuredText would take for markup
SECTION = re.compile(r"[A-Z]\w+:$")


def public_names(module: ModuleType) -> list[str]:
    """The names that a package exports; of a module without a list, what it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in own if not name.startswith("_")]


def parsed(lines: list[str]) -> dict[str, list[str]]:
    """Modules by topic."""
    return {title.strip(): modules.split() for title, _, modules in (line.rpartition(":") for line in lines)}


def assigned(package: ModuleType, topics: dict[str, list[str]]) -> dict[str, list[str]]:
    """Public names by topic, in the order in which the modules define them."""
    left, found = dict.fromkeys(public_names(package)), {}
    for title, modules in (topics or {"": [""]}).items():
        found[title] = []
        for module in (of(package, name) for name in modules):
            for known, value in vars(module).items():
                home = getattr(value, "__module__", module.__name__)
                if known in left and (home == module.__name__ or not home.startswith(LIBRARY)):
                    found[title].append(known)
                    del left[known]
    if left:
        raise ValueError(f"{package.__name__}: no topic of its page holds {', '.join(left)}")
    return found


def of(package: ModuleType, name: str) -> ModuleType:
    """A module of a topic: within the package, by its whole name, or the package itself."""
    inside = name if name.startswith(f"{LIBRARY}.") else f"{package.__name__}.{name}"
    return importlib.import_module(inside if name else package.__name__)


def own_members(kind: type) -> list[str]:
    """Public methods and properties with a docstring of bnnlib, apart from those of public base classes."""
    found: dict[str, None] = {}
    for one in kind.__mro__:
        if not one.__module__.startswith(LIBRARY) or (one is not kind and not one.__name__.startswith("_")):
            continue
        for name, value in vars(one).items():
            method = inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
            if method and not name.startswith("_") and value.__doc__ and vars(kind).get(name, value) is value:
                found[name] = None
    return list(found)


def first_home(package: ModuleType, name: str) -> str:
    """The package, the first by name, whose page describes what several export under one name."""
    library = importlib.import_module(LIBRARY)
    for found in sorted(one.name for one in pkgutil.iter_modules(library.__path__) if not one.name.startswith("_")):
        other = sys.modules.get(f"{LIBRARY}.{found}")
        if other and name in public_names(other) and getattr(other, name) is getattr(package, name):
            return other.__name__
    return package.__name__


def public_bases(kind: type) -> list[type]:
    """Base classes, where those that the library keeps to itself stand for their own bases."""

    def shown(one: type) -> list[type]:
        package = sys.modules.get(".".join(one.__module__.split(".")[:2]))
        if one.__module__.startswith(LIBRARY) and one.__name__ not in public_names(package):
            return [base for above in one.__bases__ for base in shown(above)]
        return [one]

    return list(dict.fromkeys(base for one in kind.__bases__ for base in shown(one) if base is not object))


def entry(package: ModuleType, name: str) -> list[str]:
    """The directive for one public name."""
    value, full_name, home = getattr(package, name), f"{package.__name__}.{name}", first_home(package, name)
    if inspect.isclass(value):
        what = "exception" if issubclass(value, BaseException) else "class"
        if home != package.__name__:
            return [f".. py:{what}:: {name}", "", f"   The same as :py:obj:`{home}.{name}`.", ""]
        options = ["   :show-inheritance:"] if public_bases(value) else []
        if members := own_members(value):
            options += [f"   :members: {', '.join(members)}", "   :member-order: bysource"]
        return [f".. auto{what}:: {full_name}", *options, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {full_name}", ""]
    return [f".. autodata:: {full_name}", "   :no-value:", ""]


def marked_up(lines: list[str]) -> list[str]:
    """A docstring in reStructuredText, apart from its sections, which napoleon reads next."""
    made, inside, block = [], "", ""
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        before = next((one for one in reversed(lines[:number]) if one.strip()), "")
        if not line.strip():
            inside = "" if inside == "example" else inside
            made.append(line)
            continue
        if line.lstrip().startswith(">>> "):
            inside = "example"
        elif inside == "code" and not indent:
            inside = ""
        elif not inside and indent >= 4 and not made[-1].strip() and before == before.lstrip() and not block:
            made += [".. code-block:: python", ""]
            inside = "code"
        block = line if SECTION.match(line) else block
        made.append(line if inside else spelled(line))
    return made


def spelled(line: str) -> str:
    """A line of plain text with its code, names and equations as roles."""

    def code(text: str) -> str:
        text = text.strip("`")
        return f":py:obj:`{text}`" if NAME.fullmatch(text) else f"``{text}``"

    def prose(text: str) -> str:
        return LABEL.sub(r":eq:`\1`", SIGNS.sub(lambda sign: f"\\{sign[0]}", text))

    parts = CODE.split(line)
    for number, part in enumerate(parts):
        if number % 2:
            before, after = parts[number - 1][-1:], parts[number + 1][:1]
            parts[number] = ("\\ " if before.isalnum() else "") + code(part) + ("\\ " if after.isalnum() else "")
    return "".join(part if number % 2 else prose(part) for number, part in enumerate(parts))


class Api(Directive):
    """``.. api:: package`` with its topics as content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        root = str(Path(__file__).resolve().parents[3])
        if root not in sys.path:
            sys.path.insert(0, root)
        package = importlib.import_module(self.arguments[0])
        try:
            topics = parsed(list(self.content))
            names = assigned(package, topics)
        except (ImportError, ValueError) as error:
            raise self.error(str(error)) from error
        self.state.document.settings.smart_quotes = False  # a quoted word is a value of an argument
        holder = nodes.section()
        holder.document = self.state.document
        lines = StringList(self.lines(package, topics, names), source=self.state.document.current_source)
        self.state.nested_parse(lines, 0, holder, match_titles=1)
        return holder.children

    def lines(self, package: ModuleType, topics: dict[str, list[str]], names: dict[str, list[str]]) -> list[str]:
        whole = package.__name__
        anchor = {title: f"{whole}.{'.'.join(modules)}".replace(".", "-") for title, modules in topics.items()}
        made = [f".. py:module:: {whole}", "", *described(package), ""]
        for title, found in names.items():
            heading = [f".. rubric:: :ref:`{title} <{anchor[title]}>`", ""] if title else []
            made += [*heading, ".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in found), ""]
        for title, found in names.items():
            if title:
                made += [f".. _{anchor[title]}:", "", title, "-" * len(title), ""]
                for name in topics[title]:
                    made += [*described(of(package, name)), ""]
            for name in found:
                made += entry(package, name)
        return made


def described(module: ModuleType) -> list[str]:
    return marked_up((module.__doc__ or "").strip().split("\n"))


def mark_up(app, what: str, name: str, value: object, options, lines: list[str]) -> None:
    if what == "data":  # what the module that sets a constant says above it
        package, _, own = name.rpartition(".")
        modules = [one for one in sys.modules if one.startswith(f"{package}.") and own in vars(sys.modules[one])]
        docs = (ModuleAnalyzer.for_module(one).find_attr_docs().get(("", own)) for one in modules)
        lines[:] = next(filter(None, docs), [])
    if name.startswith(LIBRARY) and str(getattr(value, "__module__", LIBRARY)).startswith(LIBRARY):
        lines[:] = marked_up(lines)
    elif what in ("class", "exception", "function"):  # of another library, under a name of this one as well
        del lines[1:]


def show_public_bases(app, name: str, value: type, options, bases: list) -> None:
    bases[:] = public_bases(value)


def finish(app, doctree: nodes.document) -> None:
    """Types in the fields of a docstring lead to a name of the same package, and never to a namesake elsewhere; and
    dashes are dashes where quotation marks stay as they are.
    """
    for node in doctree.findall(addnodes.pending_xref):
        if node.get("refdomain") == "py" and node.hasattr("refspecific"):
            del node["refspecific"]
    for entry in doctree.findall(addnodes.desc):
        for text in list(entry.findall(nodes.Text)):
            if text.startswith(" -- "):
                text.parent.replace(text, nodes.Text(f" – {text[4:]}"))


def source_once(app, package: str, name: str) -> str | None:
    """An entry that names another one as the same has no source of its own: viewcode looks in the package, in vain."""
    known = sys.modules.get(package)
    alike = known is not None and hasattr(known, name) and package.startswith(LIBRARY)
    return package if alike and first_home(known, name) != package else None


def setup(app) -> dict:
    app.add_directive("api", Api)
    app.connect("viewcode-follow-imported", source_once)
    app.connect("autodoc-process-docstring", mark_up, priority=400)  # before napoleon
    app.connect("autodoc-process-bases", show_public_bases)
    app.connect("doctree-read", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

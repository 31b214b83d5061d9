"""Sphinx extension: what the theme and Jupyter Book leave to us, from files beside the pages to buttons on them.

- MathJax, 2 MB of it, lies beside the pages, so that they need no network; sphinx-mathjax-offline brings all 24 MB.
- Font Awesome, 1.5 MB of script a page, goes: ``book/_static/icons.css`` shows its few icons as masks in the color of
  their buttons. Files that no page ever loads go, too.
- sphinx-exercise and sphinx-proof give the same id to every body and every proof, to which nothing links: it goes. So
  does the space with which the link from a solution to its exercise begins.
- A page says of its SVG figures (`book.display.vector`) how large they were drawn, and which panels can stand below
  each other on a phone, for ``book/_static/fit.js``: it cannot read its pictures when it is opened from a folder.
- A chapter has a second download, its notebook with all that it runs on; with a repository's address in `_config.yml`
  there are buttons that launch it, from the branch ``notebooks``, which the workflow "release" fills.
- "Next" leads from a chapter to the next one, not to the report below it.
- The version stands at the foot of every page, by which a mistake can be reported.
"""

import importlib.util
import re
import shutil
from pathlib import Path

import yaml
from docutils import nodes

ROOT = Path(__file__).parents[3]
# Of MathJax: one script, its fonts, and the TeX extensions that \require or autoload fetches by name.
MATHJAX = ("tex-chtml.js", "output/chtml/fonts/woff-v2", "input/tex/extensions")
NEVER_LOADED = ("**/*.map", "locales", "*webpack-macros.html", "vendor", "scripts/fontawesome.js*")
SCRIPT = re.compile(r'\s*<script src="[^"]*fontawesome\.js[^"]*"></script>')
FONTS = re.compile(r"@font-face\{[^}]*fontawesome[^}]*\}|\.fa-[^{}]*:before\{content:[^}]*\}")
REPEATED = {"exercise-content", "solution-content", "proof-content", "proof"}
IMAGE = re.compile(r'<img (?P<before>[^>]*)src="(?P<src>[^"]*_images/(?P<name>[^"]+\.svg))"(?P<after>[^>]*?)\s*/?>')
DRAWN = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)" data-panels="([^"]*)"')
ARCHIVE = "sparse-bayes-notebooks.zip"  # as `learner.companion` names it, which Sphinx has no way to
REPORTS = "book/reports/"
LAUNCH = {
    "notebook_interface": "jupyterlab",
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
}


def pass_reports(app, page: str, template: str, context: dict, doctree) -> None:
    """A page's neighbors are no reports, which lie below their chapters and lead on by themselves."""
    for place, side in enumerate(("prev", "next"), start=1):
        other = context.get(side) and not page.startswith(REPORTS) and app.builder.relations[page][place]
        if not other or not other.startswith(REPORTS):
            continue
        while other and other.startswith(REPORTS):
            other = app.builder.relations[other][place]
        title = other and app.builder.render_partial(app.env.titles[other])["title"]
        context[side] = other and {"link": context["pathto"](other), "title": title}


def put_files(app, error) -> None:
    """After a successful HTML build: MathJax in, Font Awesome and what is never loaded out."""
    if error is not None or app.builder.format != "html":
        return
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    if found is None or found.origin is None:
        raise RuntimeError(
            "sphinx-mathjax-offline is not installed, and without it formulas need the network. Run `make venv`."
        )
    static = Path(app.outdir) / "_static"
    for name in MATHJAX:
        source, target = Path(found.origin).parent / "static" / "mathjax" / name, static / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, dirs_exist_ok=True) if source.is_dir() else shutil.copyfile(source, target)
    for path in {path for pattern in NEVER_LOADED for path in static.glob(pattern)}:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for paths, unwanted in ((Path(app.outdir).rglob("*.html"), SCRIPT), ((static / "styles").glob("*.css"), FONTS)):
        for path in paths:
            path.write_text(unwanted.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")


def drop_repeated_ids(app, doctree: nodes.document, docname: str) -> None:
    for node in doctree.findall(nodes.Element):
        if REPEATED & set(node.get("ids", ())):
            node["ids"] = [name for name in node["ids"] if name not in REPEATED]


def part_words(app, doctree: nodes.document, docname: str) -> None:
    """Take the space before an exercise's name out of the link that a solution begins with, where it is underlined."""
    for link in list(doctree.findall(nodes.reference)):
        words = link.next_node(nodes.Text)
        if words is not None and words.startswith(" ") and isinstance(link.parent, nodes.title):
            words.parent.replace(words, nodes.Text(words.lstrip()))
            link.parent.insert(link.parent.index(link), nodes.Text(" "))


def say_views(app, page: str, template: str, context: dict, doctree) -> None:
    """Give an SVG figure its size and its panels; pictures are loaded as a reader comes near them."""
    if "_images/" not in context.get("body", ""):
        return
    files = {name: Path(app.srcdir, path) for path, name in app.builder.images.items()}

    def completed(found: re.Match) -> str:
        path = files.get(found["name"])
        drawn = DRAWN.search(path.read_text(encoding="utf-8")[:4000]) if path else None
        if not drawn:
            return found[0]
        width, height, panels = drawn.groups()
        more = f'class="bnn-vector" data-panels="{panels}" style="width: {width}px; height: {height}px"'
        rest = re.sub(r'\b(style|class)="[^"]*"', "", f"{found['before']} {found['after']}")
        image = f'<img src="{found["src"]}" {more} {" ".join(rest.split())}>'
        # as Sphinx frames pictures whose width it knows: a frame that can scroll, and opens the picture alone
        return f'<a class="reference internal image-reference" href="{found["src"]}">{image}</a>'

    body = IMAGE.sub(completed, context["body"])
    context["body"] = re.sub(r'<img (?![^>]*(?:loading=|src="data:))', '<img loading="lazy" ', body)


def use_address(app, config) -> None:
    """Buttons that lead to the repository; Jupyter Book hands it on among options that those of our own replace."""
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    if address := (settings.get("repository") or {}).get("url"):
        config.html_theme_options |= {"repository_url": address, "repository_branch": "notebooks", "path_to_docs": ""}
        config.html_theme_options |= dict.fromkeys(("use_repository_button", "use_issues_button"), True)
        config.html_theme_options["launch_buttons"] = LAUNCH


def say_version(app, config) -> None:
    project = ROOT / "pyproject.toml"
    if project.exists():
        version = re.search(r'^version = "(.+)"$', project.read_text(encoding="utf-8"), re.MULTILINE)[1]
        config.html_theme_options["extra_footer"] += f" Version {version}."


def add_archive(app, page, template, context, doctree) -> None:
    """A second download below a chapter's notebook."""
    for group in context.get("header_buttons", []):
        if group.get("label") == "download-buttons" and context["sourcename"].endswith(".ipynb"):
            address = f"{context['pathto']('_sources', 1)}/{ARCHIVE}"
            whole = {"type": "link", "url": address, "text": ".zip", "icon": "fas fa-file"}
            about = {"tooltip": "Download all notebooks, with what they run on", "label": "download-archive-button"}
            group["buttons"].insert(1, whole | about)


def setup(app) -> dict:
    app.add_css_file("icons.css")
    app.connect("config-inited", use_address)
    app.connect("config-inited", say_version)
    app.connect("doctree-resolved", drop_repeated_ids)
    app.connect("doctree-resolved", part_words)
    app.connect("html-page-context", pass_reports)
    app.connect("html-page-context", add_archive, priority=600)  # after the theme's own
    app.connect("html-page-context", say_views, priority=900)
    app.connect("build-finished", put_files, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

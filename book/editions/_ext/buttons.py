"""Sphinx extension: the buttons of a chapter: its notebook with all that it runs on, and where it can be run at once.

The theme makes buttons that launch from the repository's address; without one there are none. They lead to the branch
``notebooks``, which the workflow "release" fills with the unpacked archive: the sources are not made to be run alone.
"""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
ARCHIVE = "sparse-bayes-notebooks.zip"  # as `learner.companion` names it, which Sphinx has no way to
LAUNCH = {
    "notebook_interface": "jupyterlab",
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
}


def use_address(app, config) -> None:
    """Buttons that lead to the repository, where `_config.yml` names one.

    Jupyter Book hands the address on among the theme's options, which those of our own replace.
    """
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    if address := (settings.get("repository") or {}).get("url"):
        config.html_theme_options |= {
            "repository_url": address,
            "repository_branch": "notebooks",
            "path_to_docs": "",
            "launch_buttons": LAUNCH,
            "use_repository_button": True,
            "use_issues_button": True,
        }


def say_version(app, config) -> None:
    """The version at the foot of every page, by which a mistake can be reported."""
    project = ROOT / "pyproject.toml"
    if project.exists():
        version = re.search(r'^version = "(.+)"$', project.read_text(encoding="utf-8"), re.MULTILINE)[1]
        config.html_theme_options["extra_footer"] += f" Version {version}."


def add_archive(app, page, template, context, doctree) -> None:
    """A second download below a chapter's notebook."""
    for group in context.get("header_buttons", []):
        if group.get("label") == "download-buttons" and context["sourcename"].endswith(".ipynb"):
            whole = {
                "type": "link",
                "url": f"{context['pathto']('_sources', 1)}/{ARCHIVE}",
                "text": ".zip",
                "tooltip": "Download all notebooks, with what they run on",
                "icon": "fas fa-file",
                "label": "download-archive-button",
            }
            group["buttons"].insert(1, whole)


def setup(app) -> dict:
    app.connect("config-inited", use_address)
    app.connect("config-inited", say_version)
    app.connect("html-page-context", add_archive, priority=600)  # after the theme's own
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

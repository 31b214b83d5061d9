"""Sphinx extension: put the part of MathJax that the book uses beside the pages, so that they need no network.

The PyPI package sphinx-mathjax-offline brings MathJax; its own extension would copy all 24 MB, of which 2 MB are ever
loaded.
"""

import importlib.util
import shutil
from pathlib import Path

# One script, its fonts, and the TeX extensions that \require or autoload fetches by name.
NEEDED = ("tex-chtml.js", "output/chtml/fonts/woff-v2", "input/tex/extensions")


def mathjax_folder() -> Path:
    """Where the installed package keeps MathJax.

    Raises:
        RuntimeError: the package is not installed.
    """
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    if found is None or found.origin is None:
        raise RuntimeError(
            "sphinx-mathjax-offline is not installed, and without it formulas need the network. Run `make venv`."
        )
    return Path(found.origin).parent / "static" / "mathjax"


def copy_mathjax(app, error) -> None:
    """Copy the needed files after a successful HTML build."""
    if error is not None or app.builder.format != "html":
        return
    source, target = mathjax_folder(), Path(app.outdir) / "_static" / "mathjax"
    for name in NEEDED:
        path = source / name
        if path.is_dir():
            shutil.copytree(path, target / name, dirs_exist_ok=True)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)


def setup(app) -> dict:
    app.connect("build-finished", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

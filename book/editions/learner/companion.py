"""What a learner's notebook runs on, as one archive: the notebooks, the library, the studies and the stored results.

It is no wheel: `book` and `chapters` are too common as names to be installed beside packages of other people.
An unpacked folder is also what Binder and a branch of a repository need, and its library is that of the results.
"""

import inspect
import io
import json
from pathlib import Path

import yaml

from book.editions.project import Project, files_below, pack

NAME = "sparse-bayes-notebooks"
# Beside these only what tests and special runs ask for is imported, and only when it is called.
NEEDED = {
    "torch": "torch>=2.6",
    "numpy": "numpy>=1.26",
    "scipy": "scipy",
    "sklearn": "scikit-learn>=1.6",
    "matplotlib": "matplotlib>=3.8",
    "seaborn": "seaborn",
    "ipywidgets": "ipywidgets",
    "tqdm": "tqdm",
}
# Binder's machines have no GPU and little room: 200 MB instead of 2.7 GB.
CPU = "--extra-index-url https://download.pytorch.org/whl/cpu"
FOLDERS = ("bnnlib", "book/lab", "book/display", "chapters", "data/results")
FILES = ("book/__init__.py", "book/__main__.py", "book/studies.py", "book/forks.py", "LICENSE", "LICENSE-TEXT.md")
TOLD = f"""\
Sparse Bayesian deep learning: the chapters as notebooks, and all that they call.

pip install -r requirements.txt jupyterlab
jupyter lab chapters

The first code cell of a notebook finds this folder, and installs packages that are missing.
Code: Apache-2.0 (LICENSE). Text, figures and results: CC BY 4.0 (LICENSE-TEXT.md).
This folder is {NAME}.zip; every page of the book gives it.
"""


def address(root: Path) -> str | None:
    """Where the repository is, as `_config.yml` says; None while it does not."""
    path = root / "_config.yml"
    found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return ((found.get("repository") or {}).get("url") or "").rstrip("/") or None


def prepare(name: str, address: str | None, needed: dict[str, str]) -> None:
    """Find what this notebook calls, and install packages that are missing."""
    import importlib.util
    import subprocess
    import sys
    from pathlib import Path
    from urllib.request import urlretrieve
    from zipfile import ZipFile

    here, archive = Path.cwd(), Path(f"{name}.zip")
    parts = ("bnnlib", "book/display", "chapters/shared")
    places = [place for place in (here, here.parent, here / name) if all((place / part).is_dir() for part in parts)]
    if not places and not all(importlib.util.find_spec(part) for part in ("bnnlib", "book", "chapters")):
        if address and not archive.exists():
            urlretrieve(f"{address}/releases/latest/download/{archive}", archive)
        if not archive.exists():
            raise FileNotFoundError(
                f"This notebook runs on {archive}, which the download button of its page gives: "
                f"put it into {here}, then run this cell again."
            )
        ZipFile(archive).extractall()
        places = [here / name]
    if places and str(places[0]) not in sys.path:
        sys.path.insert(0, str(places[0]))
    missing = [package for part, package in needed.items() if not importlib.util.find_spec(part)]
    if missing and subprocess.call([sys.executable, "-m", "pip", "install", "-q", *missing]):
        raise ModuleNotFoundError(f"pip could not install {missing}: install them otherwise, then run this cell again.")
    importlib.invalidate_caches()


def start(root: Path) -> str:
    """The first code cell of every notebook."""
    needed = "".join(f'\n        "{part}": "{package}",' for part, package in NEEDED.items())
    known = address(root)
    given = f'    "{NAME}",\n    {json.dumps(known) if known else None},\n    {{{needed}\n    }},'
    return f"{inspect.getsource(prepare)}\n\nprepare(\n{given}\n)"


def archive(project: Project, notebooks: dict[str, str]) -> bytes:
    """The archive with the learner's notebooks, texts by path; byte by byte the same for the same content."""
    files = {path: (project.root / path).read_bytes() for path in FILES if (project.root / path).is_file()}
    for folder in FOLDERS:
        for path in files_below(project.root / folder):
            if path.suffix != ".ipynb":
                files[path.relative_to(project.root).as_posix()] = path.read_bytes()
    files |= {path: text.encode() for path, text in notebooks.items()}
    wanted = "".join(f"{one}\n" for one in NEEDED.values())
    made_here = {"README.txt": TOLD, "requirements.txt": wanted, "binder/requirements.txt": f"{CPU}\n{wanted}"}
    files |= {path: text.encode() for path, text in made_here.items()}
    made = io.BytesIO()
    pack(made, ((f"{NAME}/{path}", content) for path, content in sorted(files.items())))
    return made.getvalue()

"""A browser, and the pages that it opens: the book of this tree, and a small one that uses everything once."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import alone, build
from tests.e2e.jupyter import Lab, serving
from tests.e2e.pages import UNSET, watch

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in Path(item.path).parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def small_book(root, tmp_path_factory) -> Path:
    """Rendered pages of the book in fixtures/, made with this tree's builder, library and configuration.

    It is built once for all workers.
    """
    with alone(tmp_path_factory, "small-book") as tree:
        if not (tree / "_build" / "html" / "index.html").exists():
            build_small(root, tree)
    return tree / "_build" / "html"


def build_small(root: Path, tree: Path) -> None:
    for name in ("book", "bnnlib"):
        # The real pages refer to the real chapters.
        ignored = shutil.ignore_patterns("__pycache__", "*.md")
        shutil.copytree(root / name, tree / name, ignore=ignored, dirs_exist_ok=True)
    for name in ("_config.yml", "requirements.txt", "book/status.md"):
        shutil.copyfile(root / name, tree / name)
    shutil.copytree(HERE / "fixtures", tree, dirs_exist_ok=True)
    build(tree)


@pytest.fixture(scope="session")
def axe():
    """The look for what keeps people out; None where its package is not installed."""
    try:
        from tests.e2e import axe
    except pytest.skip.Exception:
        return None
    return axe


@pytest.fixture
def open_page(browser):
    """``open_page(path, width=..., dark=..., **context)`` -> a page whose ``faults`` list fills as it works.

    Without `formulas` it opens in a third of the time.
    """
    contexts = []

    def opened(where: Path, width: int = 1280, dark: bool = False, formulas: bool = True, **options):
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme, **options)
        context.set_default_timeout(0)  # a page may be slow on a busy machine; pytest's own limit ends what hangs
        contexts.append(context)
        if not formulas:
            context.add_init_script(UNSET)
        page = context.new_page()
        page.faults = watch(page)
        page.goto(where.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def lab(root, tmp_path_factory) -> Iterator[Lab]:
    """A JupyterLab with this tree's library and book, as `make author` starts it."""
    with serving(tmp_path_factory.mktemp("lab"), root, f"--config={root}/book/editions/author_config.py") as running:
        yield running


@pytest.fixture
def open_in_lab(lab, browser):
    """``open_in_lab(notebook, name=...)`` -> the page of a copy of the notebook in JupyterLab, ready to run."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(0)
    yield lambda notebook, name=None: lab.open(notebook, context, name)
    context.close()

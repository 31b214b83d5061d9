"""A notebook's code in IPython without a kernel: forked from a server that has imported what all notebooks do."""

import os
from concurrent.futures import ProcessPoolExecutor

from book import forks


def printed(cells: list[str], folder: str, **environment: str) -> list[str]:
    """What each cell prints, run in a process of their own.

    Args:
        cells: their sources.
        folder: where they run.
        environment: variables that differ from those of this process's start.

    Raises:
        Exception: what a cell raises.
    """
    context = forks.context("torch._dynamo", "matplotlib.pyplot", "seaborn", "IPython", "ipywidgets", "bnnlib")
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(_run, cells, folder, environment).result()


def _run(cells: list[str], folder: str, environment: dict[str, str]) -> list[str]:
    os.chdir(folder)
    os.environ.update(environment)
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell, said = InteractiveShell.instance(), []
    for cell in cells:
        with capture_output() as shown:
            done = shell.run_cell(cell)
        done.raise_error()
        said.append(shown.stdout)
    return said

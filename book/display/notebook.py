"""The theme in a notebook: matplotlib's settings, and in which formats IPython shows a figure."""

import os

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from book.display.style import RC
from book.display.vector import svg_of


def use_style() -> None:
    """Switch matplotlib, and the notebook's inline figures if there is a notebook, to the book's theme."""
    mpl.rcParams.update(RC)
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    # pyplot would draw each figure once more after its cell, just before IPython draws, shows and closes it
    plt.switch_backend(mpl.rcParams["backend"])  # this hooks pyplot into IPython, now or at the first figure
    plt.uninstall_repl_displayhook()
    # twice the screen's resolution; version strings would make every rebuild look like a change
    set_matplotlib_formats("retina", metadata={"Software": None})
    if os.environ.get("BNN_STATIC"):  # as the book is built, see book.editions.execute
        shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, svg_of)

"""Figures of the book: one theme, and explorers that work with a kernel and without.

Nothing below this floor imports it, and it needs the `book` extra (matplotlib, Pillow, ipywidgets).
"""

from bnnlib.figures.explorer import Control, Explorer, explore
from bnnlib.figures.style import (
    PALETTE,
    annotate,
    figure,
    line_styles,
    panel_letters,
    save,
    sparse_markers,
    style_context,
    use_style,
)

__all__ = [
    "PALETTE",
    "Control",
    "Explorer",
    "annotate",
    "explore",
    "figure",
    "line_styles",
    "panel_letters",
    "save",
    "sparse_markers",
    "style_context",
    "use_style",
]

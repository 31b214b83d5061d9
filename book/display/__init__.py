"""Figures of the book: one theme, explorers that work with a kernel and without, and self-checking exercises."""

from book.display.explorer import Control, Explorer, explore
from book.display.forest import forest
from book.display.gallery import failures
from book.display.style import (
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
    "failures",
    "figure",
    "forest",
    "line_styles",
    "panel_letters",
    "save",
    "sparse_markers",
    "style_context",
    "use_style",
]

"""Figures of the book: one theme, explorers that work with a kernel and without, and self-checking exercises."""

from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.gallery import failures
from book.display.picture import Band, Bars, Line, Panel, Picture, Points, Rule, Text, span
from book.display.style import PALETTE, annotate, figure, line_styles, panel_letters, sparse_markers, style_context
from book.display.vector import use_style

__all__ = [
    "PALETTE",
    "Band",
    "Bars",
    "Control",
    "Explorer",
    "Line",
    "Panel",
    "Picture",
    "Points",
    "Rule",
    "Text",
    "annotate",
    "curves",
    "failures",
    "figure",
    "line_styles",
    "panel_letters",
    "span",
    "sparse_markers",
    "style_context",
    "use_style",
]

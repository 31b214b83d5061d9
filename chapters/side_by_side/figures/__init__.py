"""Pictures of the chapter side by side."""

from chapters.side_by_side.figures.explorers import (
    selection,
    selection_explorer,
    size,
    size_explorer,
    time,
    time_explorer,
)
from chapters.side_by_side.figures.results import differences, failed, luck, shifts, step_costs, trials

__all__ = [
    "differences",
    "failed",
    "luck",
    "selection",
    "selection_explorer",
    "shifts",
    "size",
    "size_explorer",
    "step_costs",
    "time",
    "time_explorer",
    "trials",
]

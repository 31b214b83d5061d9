"""Pictures of the chapter side by side."""

from chapters.side_by_side.figures.explorers import selection_explorer, size_explorer, time_explorer
from chapters.side_by_side.figures.results import differences, failed, luck, shifts, step_costs, trials

"""Pictures of the chapter on foundations."""

from chapters.foundations.figures.explorers import growing_explorer
from chapters.foundations.figures.method import bands, chains, gradient_spread, idea, scores, weight_space
from chapters.foundations.figures.results import inclusion, sparsity

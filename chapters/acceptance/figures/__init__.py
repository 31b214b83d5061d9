"""Pictures of the chapter on the Metropolis-Hastings view."""

from chapters.acceptance.figures.explorers import pair_explorer
from chapters.acceptance.figures.method import learned, scatter, walk
from chapters.acceptance.figures.results import learning_pays, six_histograms, six_seeds

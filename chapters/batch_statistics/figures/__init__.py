"""Pictures of the chapter on stochastic batch normalization."""

from chapters.batch_statistics.figures.explorers import batch_size_explorer, batch_size_study
from chapters.batch_statistics.figures.method import bound, statistics, tables
from chapters.batch_statistics.figures.noise import margins, noise_explorer
from chapters.batch_statistics.figures.results import entropy_cdf, parts

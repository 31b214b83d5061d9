"""Pictures of the chapter on stochastic batch normalization."""

from chapters.batch_statistics.figures.explorers import (
    SHOWN,
    BatchSizeStudy,
    area,
    batch_size,
    batch_size_controls,
    batch_size_explorer,
    batch_size_in_words,
    batch_size_study,
)
from chapters.batch_statistics.figures.method import bound, probability, statistics, tables, three_values
from chapters.batch_statistics.figures.noise import margins, noise_explorer, shaken, shaken_in_words
from chapters.batch_statistics.figures.results import (
    CONTROL,
    EXPERIMENTS,
    METHODS,
    UNKNOWN,
    entropy_cdf,
    entropy_curves,
    look,
    parts,
)

__all__ = [
    "CONTROL",
    "EXPERIMENTS",
    "METHODS",
    "SHOWN",
    "UNKNOWN",
    "BatchSizeStudy",
    "area",
    "batch_size",
    "batch_size_controls",
    "batch_size_explorer",
    "batch_size_in_words",
    "batch_size_study",
    "bound",
    "entropy_cdf",
    "entropy_curves",
    "look",
    "margins",
    "noise_explorer",
    "parts",
    "probability",
    "shaken",
    "shaken_in_words",
    "statistics",
    "tables",
    "three_values",
]

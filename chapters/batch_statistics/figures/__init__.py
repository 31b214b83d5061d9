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
from chapters.batch_statistics.figures.method import bound, probability, statistics, tables, three_values, virtual_batch
from chapters.batch_statistics.figures.results import (
    CONTROL,
    EXPERIMENTS,
    METHODS,
    UNKNOWN,
    calibration,
    entropy_cdf,
    entropy_curves,
    look,
    stored_statistics,
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
    "calibration",
    "entropy_cdf",
    "entropy_curves",
    "look",
    "probability",
    "statistics",
    "stored_statistics",
    "tables",
    "three_values",
    "virtual_batch",
]

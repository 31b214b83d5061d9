"""Pictures of the chapter on the adaptive variational optimizer."""

from chapters.adaptive_optimizer.figures.explorers import threshold_explorer
from chapters.adaptive_optimizer.figures.images import sparse_errors
from chapters.adaptive_optimizer.figures.method import curvature, early, groups, idea, noise, scale
from chapters.adaptive_optimizer.figures.results import parts, traces

"""Pictures of the chapter on the implicit Metropolis-Hastings algorithm."""

from chapters.implicit_acceptance.figures.explorers import CONFIDENCE, settle, settled_explorer
from chapters.implicit_acceptance.figures.method import bound_ladder, clouds, ring_maps, state_bars
from chapters.implicit_acceptance.figures.results import (
    failing_ring,
    image_curves,
    image_sheets,
    narrowing,
    over_iterations,
    rejection_curves,
    toy_curves,
)

__all__ = [
    "CONFIDENCE",
    "bound_ladder",
    "clouds",
    "failing_ring",
    "image_curves",
    "image_sheets",
    "narrowing",
    "over_iterations",
    "rejection_curves",
    "ring_maps",
    "settle",
    "settled_explorer",
    "state_bars",
    "toy_curves",
]

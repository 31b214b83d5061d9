"""Pictures of the chapter on the implicit Metropolis-Hastings algorithm."""

from chapters.implicit_acceptance.figures.explorers import CONFIDENCE, settle, settled_explorer
from chapters.implicit_acceptance.figures.method import bound_ladder, clouds, ring_maps, state_bars
from chapters.implicit_acceptance.figures.results import (
    failing_ring,
    image_curves,
    image_sheets,
    narrowing,
    rejection_curves,
    toy_curves,
)

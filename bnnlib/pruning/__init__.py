"""Pruning schedules and masks."""

from bnnlib.pruning.magnitude import magnitude_mask
from bnnlib.pruning.schedules import agp_sparsity, lottery_ticket_sparsities

__all__ = ["agp_sparsity", "lottery_ticket_sparsities", "magnitude_mask"]

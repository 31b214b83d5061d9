"""Pruning schedules, masks and the two pruning methods that the book compares with."""

from bnnlib.pruning.agp import AGPPruner
from bnnlib.pruning.lottery import lottery_ticket
from bnnlib.pruning.magnitude import magnitude_mask
from bnnlib.pruning.masks import Masks, prunable_weights
from bnnlib.pruning.schedules import agp_sparsity, lottery_ticket_sparsities

__all__ = [
    "AGPPruner",
    "Masks",
    "agp_sparsity",
    "lottery_ticket",
    "lottery_ticket_sparsities",
    "magnitude_mask",
    "prunable_weights",
]

"""Pruning schedules, masks, and the methods that prune by rank: by magnitude, signal-to-noise or inclusion."""

from bnnlib.pruning.agp import AGPPruner
from bnnlib.pruning.lottery import lottery_ticket
from bnnlib.pruning.magnitude import magnitude_mask
from bnnlib.pruning.magnitude_pruner import MagnitudePruner
from bnnlib.pruning.masks import Masks, prunable_weights
from bnnlib.pruning.ranking import global_masks, prune_ranked, rank_mask, to_deterministic, weight_scores
from bnnlib.pruning.schedules import agp_sparsity, lottery_ticket_sparsities, overall_to_prunable, smooth_sparsity

__all__ = [
    "AGPPruner",
    "MagnitudePruner",
    "Masks",
    "agp_sparsity",
    "global_masks",
    "lottery_ticket",
    "lottery_ticket_sparsities",
    "magnitude_mask",
    "overall_to_prunable",
    "prunable_weights",
    "prune_ranked",
    "rank_mask",
    "smooth_sparsity",
    "to_deterministic",
    "weight_scores",
]

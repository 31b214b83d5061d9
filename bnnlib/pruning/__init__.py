"""Pruning schedules, masks, the methods that prune by rank, and the physical export of what is left."""

from bnnlib.pruning.compress.file import load_compressed, save_compressed
from bnnlib.pruning.compress.layers import SelectedLinear
from bnnlib.pruning.compress.network import blocked_units, compress
from bnnlib.pruning.compress.onnx_export import export_onnx
from bnnlib.pruning.compress.report import compression_report
from bnnlib.pruning.csr import CSRConv2d, CSRLinear, load_csr, save_csr, to_csr
from bnnlib.pruning.magnitude_pruner import MagnitudePruner
from bnnlib.pruning.masks import Masks, prunable_weights
from bnnlib.pruning.ranking import global_masks, prune_ranked, rank_mask, to_deterministic, weight_scores
from bnnlib.pruning.rivals import AGPPruner, GroupLasso
from bnnlib.pruning.schedules import agp_sparsity, lottery_ticket_sparsities, smooth_sparsity

__all__ = [
    "AGPPruner",
    "CSRConv2d",
    "CSRLinear",
    "GroupLasso",
    "MagnitudePruner",
    "Masks",
    "SelectedLinear",
    "agp_sparsity",
    "blocked_units",
    "compress",
    "compression_report",
    "export_onnx",
    "global_masks",
    "load_compressed",
    "load_csr",
    "lottery_ticket_sparsities",
    "prunable_weights",
    "prune_ranked",
    "rank_mask",
    "save_compressed",
    "save_csr",
    "smooth_sparsity",
    "to_csr",
    "to_deterministic",
    "weight_scores",
]

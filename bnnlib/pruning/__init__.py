"""Masks, the methods that prune by rank, and the physical export of what is left."""

from bnnlib.pruning.compress.file import load_compressed, save_compressed
from bnnlib.pruning.compress.layers import SelectedLinear
from bnnlib.pruning.compress.network import blocked_units, compress
from bnnlib.pruning.compress.onnx_export import export_onnx
from bnnlib.pruning.compress.report import compression_report
from bnnlib.pruning.csr import CSRConv2d, CSRLinear, load_csr, save_csr, to_csr
from bnnlib.pruning.magnitude_pruner import MagnitudePruner
from bnnlib.pruning.masks import Masks, prunable_weights
from bnnlib.pruning.ranking import global_masks, prune_ranked, rank_mask, to_deterministic, weight_scores
from bnnlib.pruning.report import csr_report

__all__ = [
    "CSRConv2d",
    "CSRLinear",
    "MagnitudePruner",
    "Masks",
    "SelectedLinear",
    "blocked_units",
    "compress",
    "compression_report",
    "csr_report",
    "export_onnx",
    "global_masks",
    "load_compressed",
    "load_csr",
    "prunable_weights",
    "prune_ranked",
    "rank_mask",
    "save_compressed",
    "save_csr",
    "to_csr",
    "to_deterministic",
    "weight_scores",
]

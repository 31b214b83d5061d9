"""Pictures of the chapter on variational spike-and-slab networks."""

from chapters.spike_slab.figures.method import (
    balance,
    gate_densities,
    gradient_comparison,
    lambda_frame,
    rates,
    reparameterization,
    spike_and_slab,
)
from chapters.spike_slab.figures.results import (
    IRRELEVANT,
    MOST_INPUTS,
    RELEVANT,
    epochs,
    lambda_sweep,
    selected_edges,
    selected_network,
    sweep_curve,
    unpack,
)

__all__ = [
    "IRRELEVANT",
    "MOST_INPUTS",
    "RELEVANT",
    "balance",
    "epochs",
    "gate_densities",
    "gradient_comparison",
    "lambda_frame",
    "lambda_sweep",
    "rates",
    "reparameterization",
    "selected_edges",
    "selected_network",
    "spike_and_slab",
    "sweep_curve",
    "unpack",
]

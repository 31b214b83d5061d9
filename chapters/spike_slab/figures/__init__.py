"""Pictures of the chapter on variational spike-and-slab networks."""

from chapters.spike_slab.figures.explorers import (
    balance,
    gate_bias_explorer,
    gate_gradients,
    lambda_explorer,
    rates_explorer,
)
from chapters.spike_slab.figures.method import (
    gate_densities,
    gradient_comparison,
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
    "gate_bias_explorer",
    "gate_densities",
    "gate_gradients",
    "gradient_comparison",
    "lambda_explorer",
    "lambda_sweep",
    "rates_explorer",
    "reparameterization",
    "selected_edges",
    "selected_network",
    "spike_and_slab",
    "sweep_curve",
    "unpack",
]

"""Pictures of the chapter on variational spike-and-slab networks."""

from chapters.spike_slab.figures.explorers import gate_bias_explorer, lambda_explorer, weight_explorer
from chapters.spike_slab.figures.forest import forest
from chapters.spike_slab.figures.method import learned_gates, predictive_band
from chapters.spike_slab.figures.results import epochs, lambda_sweep, selected_edges

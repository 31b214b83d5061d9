"""Optimizers: Adam for Bayesian layers, the adaptive variational one, and spike and slab on groups beside it."""

from bnnlib.optim.adam import Adam
from bnnlib.optim.adaptive_variational import AdaptiveVariational
from bnnlib.optim.group_spike_slab import GroupSpikeSlab

__all__ = ["Adam", "AdaptiveVariational", "GroupSpikeSlab"]

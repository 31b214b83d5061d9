"""Optimizers: the adaptive variational one, and spike and slab on groups of weights beside it."""

from bnnlib.optim.adaptive_variational import AdaptiveVariational
from bnnlib.optim.group_spike_slab import GroupSpikeSlab

__all__ = ["AdaptiveVariational", "GroupSpikeSlab"]

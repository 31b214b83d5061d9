"""Optimizers: the adaptive variational one, IVON, and spike and slab on groups."""

from bnnlib.optim.adaptive_variational import AdaptiveVariational
from bnnlib.optim.group_spike_slab import GroupSpikeSlab
from bnnlib.optim.ivon import IVON

__all__ = ["IVON", "AdaptiveVariational", "GroupSpikeSlab"]

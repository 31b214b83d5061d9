"""Posteriors of weights, a family a file, for parameters with any leading dimensions.

A family has the settings, the draws, what is active, and the divergence with its gradient. What gives it a shape are
the layers of `bnnlib.nn` and the stacks of `bnnlib.replicates`.
"""

from bnnlib.posteriors.base import Posterior, Random
from bnnlib.posteriors.gaussian import Gaussian
from bnnlib.posteriors.gaussian_spike_slab import GaussianSpikeSlab, ScaleMixture
from bnnlib.posteriors.horseshoe import Horseshoe
from bnnlib.posteriors.sparse_vd import SparseVD
from bnnlib.posteriors.spike_slab import SpikeSlab

__all__ = [
    "Gaussian",
    "GaussianSpikeSlab",
    "Horseshoe",
    "Posterior",
    "Random",
    "ScaleMixture",
    "SparseVD",
    "SpikeSlab",
]

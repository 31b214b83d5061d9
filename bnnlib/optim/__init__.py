"""Samplers as `torch.optim.Optimizer`s, their schedules and draws, and the priors that are learned while they run."""

from bnnlib._checks import DivergedError
from bnnlib.optim.adaptive_prior import SpikeSlabGaussianLaplacePrior
from bnnlib.optim.adaptive_variational import AdaptiveVariational
from bnnlib.optim.base import Sampler
from bnnlib.optim.diagnostics import effective_sample_size, split_r_hat
from bnnlib.optim.group_spike_slab import GroupSpikeSlab
from bnnlib.optim.samples import SampleStore
from bnnlib.optim.schedules import annealed, constant, cyclical, polynomial
from bnnlib.optim.sghmc import SGHMC
from bnnlib.optim.sgld import SGLD

__all__ = [
    "SGHMC",
    "SGLD",
    "AdaptiveVariational",
    "DivergedError",
    "GroupSpikeSlab",
    "SampleStore",
    "Sampler",
    "SpikeSlabGaussianLaplacePrior",
    "annealed",
    "constant",
    "cyclical",
    "effective_sample_size",
    "polynomial",
    "split_r_hat",
]

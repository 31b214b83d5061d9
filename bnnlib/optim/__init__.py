"""Samplers as `torch.optim.Optimizer`s, their schedules, and the priors that are learned while they run."""

from bnnlib.optim.adaptive_prior import SpikeSlabGaussianLaplacePrior
from bnnlib.optim.base import DivergedError, Sampler, rms_preconditioner
from bnnlib.optim.schedules import annealed, constant, cyclical, polynomial
from bnnlib.optim.sghmc import SGHMC
from bnnlib.optim.sgld import SGLD

__all__ = [
    "SGHMC",
    "SGLD",
    "DivergedError",
    "Sampler",
    "SpikeSlabGaussianLaplacePrior",
    "annealed",
    "constant",
    "cyclical",
    "polynomial",
    "rms_preconditioner",
]

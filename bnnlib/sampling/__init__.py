"""Samplers: by noisy gradients, with learned priors beside them, and by Metropolis-Hastings, with learned proposals."""

from bnnlib._checks import DivergedError
from bnnlib.sampling.adaptive_prior import SpikeSlabGaussianLaplacePrior
from bnnlib.sampling.base import Sampler
from bnnlib.sampling.densities import DiagonalGaussian, FullGaussian, RealNVP
from bnnlib.sampling.diagnostics import effective_sample_size, split_r_hat
from bnnlib.sampling.discriminators import (
    GenerativeProposal,
    IndependentDiscriminator,
    MarkovDiscriminator,
    PairDiscriminator,
    discriminator_loss,
)
from bnnlib.sampling.hmc import HamiltonianMonteCarlo, WarmUp, warm_up
from bnnlib.sampling.implicit import ImplicitChains, implicit_metropolis_hastings
from bnnlib.sampling.kernels import Kernel, Trace, metropolis_hastings, sample
from bnnlib.sampling.latent import LatentProposal, PointProposal
from bnnlib.sampling.learn import Learned, learn_proposal
from bnnlib.sampling.proposals import Independent, Markov, Proposal, RandomWalk
from bnnlib.sampling.samples import SampleStore
from bnnlib.sampling.schedules import polynomial
from bnnlib.sampling.sghmc import SGHMC
from bnnlib.sampling.sgld import SGLD

__all__ = [
    "SGHMC",
    "SGLD",
    "DiagonalGaussian",
    "DivergedError",
    "FullGaussian",
    "GenerativeProposal",
    "HamiltonianMonteCarlo",
    "ImplicitChains",
    "Independent",
    "IndependentDiscriminator",
    "Kernel",
    "LatentProposal",
    "Learned",
    "Markov",
    "MarkovDiscriminator",
    "PairDiscriminator",
    "PointProposal",
    "Proposal",
    "RandomWalk",
    "RealNVP",
    "SampleStore",
    "Sampler",
    "SpikeSlabGaussianLaplacePrior",
    "Trace",
    "WarmUp",
    "discriminator_loss",
    "effective_sample_size",
    "implicit_metropolis_hastings",
    "learn_proposal",
    "metropolis_hastings",
    "polynomial",
    "sample",
    "split_r_hat",
    "warm_up",
]

"""Metropolis-Hastings chains, thousands in one batch, and the proposals that they learn."""

from bnnlib.mcmc.densities import DiagonalGaussian, FullGaussian, RealNVP
from bnnlib.mcmc.discriminators import (
    GenerativeProposal,
    IndependentDiscriminator,
    MarkovDiscriminator,
    PairDiscriminator,
    discriminator_loss,
    train_discriminator,
)
from bnnlib.mcmc.estimators import Estimate, acceptance_rate_of, mean_of
from bnnlib.mcmc.hmc import HamiltonianMonteCarlo, WarmUp, warm_up
from bnnlib.mcmc.implicit import ImplicitChains, ScoredChains, accept_scored, implicit_metropolis_hastings
from bnnlib.mcmc.kernels import Kernel, MetropolisHastings, Trace, metropolis_hastings, sample
from bnnlib.mcmc.latent import Inversion, LatentProposal, PointProposal, invert
from bnnlib.mcmc.learn import Learned, learn_proposal
from bnnlib.mcmc.proposals import Independent, Markov, Proposal, RandomWalk

__all__ = [
    "DiagonalGaussian",
    "Estimate",
    "FullGaussian",
    "GenerativeProposal",
    "HamiltonianMonteCarlo",
    "ImplicitChains",
    "Independent",
    "IndependentDiscriminator",
    "Inversion",
    "Kernel",
    "LatentProposal",
    "Learned",
    "Markov",
    "MarkovDiscriminator",
    "MetropolisHastings",
    "PairDiscriminator",
    "PointProposal",
    "Proposal",
    "RandomWalk",
    "RealNVP",
    "ScoredChains",
    "Trace",
    "WarmUp",
    "accept_scored",
    "acceptance_rate_of",
    "discriminator_loss",
    "implicit_metropolis_hastings",
    "invert",
    "learn_proposal",
    "mean_of",
    "metropolis_hastings",
    "sample",
    "train_discriminator",
    "warm_up",
]

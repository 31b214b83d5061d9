"""Metropolis-Hastings chains, thousands in one batch, and the proposals that they learn."""

from bnnlib.mcmc.adversarial import learn_adversarial_proposal
from bnnlib.mcmc.densities import DiagonalGaussian, FullGaussian, RealNVP
from bnnlib.mcmc.estimators import Estimate, acceptance_rate_of, mean_of, total_variation_of
from bnnlib.mcmc.hmc import HamiltonianMonteCarlo, WarmUp, warm_up
from bnnlib.mcmc.kernels import Kernel, MetropolisHastings, Trace, metropolis_hastings, sample
from bnnlib.mcmc.learn import Learned, learn_proposal
from bnnlib.mcmc.proposals import Independent, Markov, Proposal, RandomWalk

__all__ = [
    "DiagonalGaussian",
    "Estimate",
    "FullGaussian",
    "HamiltonianMonteCarlo",
    "Independent",
    "Kernel",
    "Learned",
    "Markov",
    "MetropolisHastings",
    "Proposal",
    "RandomWalk",
    "RealNVP",
    "Trace",
    "WarmUp",
    "acceptance_rate_of",
    "learn_adversarial_proposal",
    "learn_proposal",
    "mean_of",
    "metropolis_hastings",
    "sample",
    "total_variation_of",
    "warm_up",
]

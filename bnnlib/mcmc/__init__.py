"""Metropolis-Hastings: discriminators in place of densities, and chains that run as one batch."""

from bnnlib.mcmc.calibration import CalibratedDiscriminator, calibrate, isotonic_regression
from bnnlib.mcmc.discriminators import (
    GenerativeProposal,
    IndependentDiscriminator,
    MarkovDiscriminator,
    PairDiscriminator,
    discriminator_loss,
    train_discriminator,
)
from bnnlib.mcmc.implicit import ImplicitChains, ScoredChains, accept_scored, implicit_metropolis_hastings
from bnnlib.mcmc.latent import Inversion, LatentProposal, PointProposal, invert

__all__ = [
    "CalibratedDiscriminator",
    "GenerativeProposal",
    "ImplicitChains",
    "IndependentDiscriminator",
    "Inversion",
    "LatentProposal",
    "MarkovDiscriminator",
    "PairDiscriminator",
    "PointProposal",
    "ScoredChains",
    "accept_scored",
    "calibrate",
    "discriminator_loss",
    "implicit_metropolis_hastings",
    "invert",
    "isotonic_regression",
    "train_discriminator",
]

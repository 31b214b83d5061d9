"""Many small networks trained as one stacked batch: replicates of a simulation, or the settings of a grid."""

from bnnlib.replicates.fit import GaussianLikelihood, fit_stacked, gaussian_nll
from bnnlib.replicates.horseshoe import StackedHorseshoe, StackedInputHorseshoe
from bnnlib.replicates.layout import Layout
from bnnlib.replicates.network import StackedMLP
from bnnlib.replicates.posteriors import (
    StackedDeterministic,
    StackedGaussian,
    StackedGaussianSpikeSlab,
    StackedPosterior,
    StackedSparseVD,
    StackedSpikeSlab,
)

__all__ = [
    "GaussianLikelihood",
    "Layout",
    "StackedDeterministic",
    "StackedGaussian",
    "StackedGaussianSpikeSlab",
    "StackedHorseshoe",
    "StackedInputHorseshoe",
    "StackedMLP",
    "StackedPosterior",
    "StackedSparseVD",
    "StackedSpikeSlab",
    "fit_stacked",
    "gaussian_nll",
]

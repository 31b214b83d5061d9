"""Bayesian layers that stand in for `torch.nn.Linear` and `torch.nn.Conv2d`, and what one does with models of them."""

from bnnlib._native import NativeWarning
from bnnlib._noise import use_generator
from bnnlib._redraw import redraw
from bnnlib.nn.base import (
    BayesianLayer,
    StochasticLayer,
    bayesian_layers,
    held_weights,
    mean_weights,
    selected_weights,
)
from bnnlib.nn.batch_moments import match_moments, to_stochastic_batch_norm
from bnnlib.nn.calls import UncalledWarning
from bnnlib.nn.convert import bayesian_share, to_bayesian
from bnnlib.nn.ensembles import predict_dropout, predict_ensemble
from bnnlib.nn.gaussian import GaussianConv2d, GaussianLinear
from bnnlib.nn.gaussian_spike_slab import (
    GaussianSpikeSlabConv2d,
    GaussianSpikeSlabLinear,
    ScaleMixtureConv2d,
    ScaleMixtureLinear,
)
from bnnlib.nn.horseshoe import HorseshoeLinear
from bnnlib.nn.laplace import LaplaceNetwork, to_laplace
from bnnlib.nn.objective import (
    elbo_loss,
    kl_divergence,
    kl_gradient,
    minibatch_weights,
    parameter_groups,
    percent_active,
)
from bnnlib.nn.parameters import ParameterPosterior
from bnnlib.nn.predict import predict
from bnnlib.nn.sparse_vd import SparseVDConv2d, SparseVDLinear
from bnnlib.nn.spike_slab import SpikeSlabConv2d, SpikeSlabLinear
from bnnlib.nn.stochastic_batch_norm import StochasticBatchNorm1d, StochasticBatchNorm2d
from bnnlib.nn.structured_pruning import StructuredBayesianPruning, drawn_together
from bnnlib.nn.unit_noise import insert_unit_noise, percent_active_units, unit_counts
from bnnlib.nn.virtual_batch import predict_virtual_batch

__all__ = [
    "BayesianLayer",
    "GaussianConv2d",
    "GaussianLinear",
    "GaussianSpikeSlabConv2d",
    "GaussianSpikeSlabLinear",
    "HorseshoeLinear",
    "LaplaceNetwork",
    "NativeWarning",
    "ParameterPosterior",
    "ScaleMixtureConv2d",
    "ScaleMixtureLinear",
    "SparseVDConv2d",
    "SparseVDLinear",
    "SpikeSlabConv2d",
    "SpikeSlabLinear",
    "StochasticBatchNorm1d",
    "StochasticBatchNorm2d",
    "StochasticLayer",
    "StructuredBayesianPruning",
    "UncalledWarning",
    "bayesian_layers",
    "bayesian_share",
    "drawn_together",
    "elbo_loss",
    "held_weights",
    "insert_unit_noise",
    "kl_divergence",
    "kl_gradient",
    "match_moments",
    "mean_weights",
    "minibatch_weights",
    "parameter_groups",
    "percent_active",
    "percent_active_units",
    "predict",
    "predict_dropout",
    "predict_ensemble",
    "predict_virtual_batch",
    "redraw",
    "selected_weights",
    "to_bayesian",
    "to_laplace",
    "to_stochastic_batch_norm",
    "unit_counts",
    "use_generator",
]

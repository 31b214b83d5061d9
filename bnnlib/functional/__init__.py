"""Pure functions on tensors: the equations that the library computes, each written once."""

from bnnlib.functional.adaptive_variational import injected_scale, positive_precision_step
from bnnlib.functional.draws import gaussian_draw, gaussian_kl_sum, spike_slab_draw
from bnnlib.functional.gaussian import gaussian_kl, gaussian_kl_grad, softplus_inverse, softplus_scale
from bnnlib.functional.gaussian_spike_slab import (
    MixturePrior,
    closed_form_inclusion,
    expected_precision,
    inclusion_log_odds,
    mixture_prior,
    scale_mixture_grad_sample,
    scale_mixture_kl_sample,
    scale_mixture_log_density,
    spike_slab_profile_grad,
    spike_slab_profile_penalty,
)
from bnnlib.functional.group_spike_slab import (
    group_mean_square,
    group_range,
    group_size,
    group_slab_log_odds,
    group_slab_probability,
    group_threshold,
)
from bnnlib.functional.horseshoe import half_cauchy_kl, half_cauchy_kl_sum
from bnnlib.functional.importance import input_inclusion, path_importance, path_inclusion, scaled_importance
from bnnlib.functional.metropolis_hastings import (
    acceptance_probability,
    acceptance_rate_loss,
    bounded_logit,
    conditional_cross_entropy,
    log_acceptance_ratio,
    markov_cross_entropy,
    symmetric_kl_loss,
    upper_bound_loss,
)
from bnnlib.functional.predictive import mixture_quantile
from bnnlib.functional.spike_slab import log_odds, logistic_noise, spike_slab_kl, spike_slab_kl_grad, spike_slab_kl_sum
from bnnlib.functional.ssgl import (
    expected_precisions,
    optimal_inclusion,
    optimal_sigma,
    slab_log_odds,
    slab_log_odds_coefficients,
    slab_probability,
)
from bnnlib.functional.stochastic_batch_norm import (
    StatisticMoments,
    batch_norm,
    batch_statistics,
    moment_weights,
    sample_statistics,
    welford_update_,
)
from bnnlib.functional.theory import (
    inclusion_probability_for,
    num_network_parameters,
    theoretical_inclusion_probability,
)
from bnnlib.functional.variational_dropout import log_alpha, sparse_vd_kl, sparse_vd_kl_sum, sparse_vd_variance

__all__ = [
    "MixturePrior",
    "StatisticMoments",
    "acceptance_probability",
    "acceptance_rate_loss",
    "batch_norm",
    "batch_statistics",
    "bounded_logit",
    "closed_form_inclusion",
    "conditional_cross_entropy",
    "expected_precision",
    "expected_precisions",
    "gaussian_draw",
    "gaussian_kl",
    "gaussian_kl_grad",
    "gaussian_kl_sum",
    "group_mean_square",
    "group_range",
    "group_size",
    "group_slab_log_odds",
    "group_slab_probability",
    "group_threshold",
    "half_cauchy_kl",
    "half_cauchy_kl_sum",
    "inclusion_log_odds",
    "inclusion_probability_for",
    "injected_scale",
    "input_inclusion",
    "log_acceptance_ratio",
    "log_alpha",
    "log_odds",
    "logistic_noise",
    "markov_cross_entropy",
    "mixture_prior",
    "mixture_quantile",
    "moment_weights",
    "num_network_parameters",
    "optimal_inclusion",
    "optimal_sigma",
    "path_importance",
    "path_inclusion",
    "positive_precision_step",
    "sample_statistics",
    "scale_mixture_grad_sample",
    "scale_mixture_kl_sample",
    "scale_mixture_log_density",
    "scaled_importance",
    "slab_log_odds",
    "slab_log_odds_coefficients",
    "slab_probability",
    "softplus_inverse",
    "softplus_scale",
    "sparse_vd_kl",
    "sparse_vd_kl_sum",
    "sparse_vd_variance",
    "spike_slab_draw",
    "spike_slab_kl",
    "spike_slab_kl_grad",
    "spike_slab_kl_sum",
    "spike_slab_profile_grad",
    "spike_slab_profile_penalty",
    "symmetric_kl_loss",
    "theoretical_inclusion_probability",
    "upper_bound_loss",
    "welford_update_",
]

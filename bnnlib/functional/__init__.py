"""Pure functions on tensors: every coded equation of the book lives here once."""

from bnnlib.functional.gaussian import (
    gaussian_kl,
    gaussian_kl_grad,
    gaussian_kl_sum,
    gaussian_weight,
    softplus_inverse,
)
from bnnlib.functional.horseshoe import half_cauchy_kl
from bnnlib.functional.sgmcmc import sghmc_baoab_step, sghmc_euler_step, sgld_step
from bnnlib.functional.spike_slab import (
    bernoulli_kl,
    gumbel_softmax_gate,
    log_odds,
    logistic_noise,
    spike_slab_inverse_cdf,
    spike_slab_kl,
    spike_slab_kl_grad,
    spike_slab_kl_sum,
    spike_slab_weight,
)
from bnnlib.functional.ssgl import (
    expected_precisions,
    optimal_inclusion,
    optimal_sigma,
    slab_log_odds,
    slab_log_odds_coefficients,
    slab_probability,
    ssgl_log_density,
    ssgl_penalty,
    ssgl_penalty_gradient,
)
from bnnlib.functional.theory import (
    bic_inclusion_probability,
    estimation_error_rate,
    inclusion_probability_for,
    num_network_parameters,
    squared_hellinger,
    theoretical_inclusion_probability,
    variational_error_rate,
)
from bnnlib.functional.variational_dropout import log_alpha, sparse_vd_kl, sparse_vd_kl_grad

__all__ = [
    "bernoulli_kl",
    "bic_inclusion_probability",
    "estimation_error_rate",
    "expected_precisions",
    "gaussian_kl",
    "gaussian_kl_grad",
    "gaussian_kl_sum",
    "gaussian_weight",
    "gumbel_softmax_gate",
    "half_cauchy_kl",
    "inclusion_probability_for",
    "log_alpha",
    "log_odds",
    "logistic_noise",
    "num_network_parameters",
    "optimal_inclusion",
    "optimal_sigma",
    "sghmc_baoab_step",
    "sghmc_euler_step",
    "sgld_step",
    "slab_log_odds",
    "slab_log_odds_coefficients",
    "slab_probability",
    "softplus_inverse",
    "sparse_vd_kl",
    "sparse_vd_kl_grad",
    "spike_slab_inverse_cdf",
    "spike_slab_kl",
    "spike_slab_kl_grad",
    "spike_slab_kl_sum",
    "spike_slab_weight",
    "squared_hellinger",
    "ssgl_log_density",
    "ssgl_penalty",
    "ssgl_penalty_gradient",
    "theoretical_inclusion_probability",
    "variational_error_rate",
]

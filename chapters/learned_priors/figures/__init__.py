"""Pictures of the chapter on sampling with learned priors."""

from chapters.learned_priors.figures.prior import (
    CONTROLS,
    PUBLISHED,
    components,
    crossover,
    idea,
    penalty,
    penalty_in_words,
    published_name,
    shrinkage,
    which_is_wider,
)
from chapters.learned_priors.figures.results import (
    REGRESSION_METHODS,
    REGRESSION_SETTINGS,
    RESNET_METHODS,
    RIVALS,
    UCI_RIVALS,
    UCI_SETS,
    regression,
    resnet20,
    uci_differences,
)
from chapters.learned_priors.figures.samplers import (
    SCHEMES,
    discretization_bias,
    gaussian_variance,
    stochastic_approximation,
)
from chapters.learned_priors.figures.slab import (
    em_chains,
    slab_traces,
    steps,
    steps_explorer,
    steps_in_words,
)

__all__ = [
    "CONTROLS",
    "PUBLISHED",
    "REGRESSION_METHODS",
    "REGRESSION_SETTINGS",
    "RESNET_METHODS",
    "RIVALS",
    "SCHEMES",
    "UCI_RIVALS",
    "UCI_SETS",
    "components",
    "crossover",
    "discretization_bias",
    "em_chains",
    "gaussian_variance",
    "idea",
    "penalty",
    "penalty_in_words",
    "published_name",
    "regression",
    "resnet20",
    "shrinkage",
    "slab_traces",
    "steps",
    "steps_explorer",
    "steps_in_words",
    "stochastic_approximation",
    "uci_differences",
    "which_is_wider",
]

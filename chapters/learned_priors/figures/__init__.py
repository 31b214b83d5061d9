"""Pictures of the chapter on sampling with learned priors."""

from chapters.learned_priors.figures.prior import CONTROLS, PUBLISHED, idea, penalty, penalty_in_words
from chapters.learned_priors.figures.results import regression, resnet20, uci_differences
from chapters.learned_priors.figures.samplers import discretization_bias, gaussian_variance, stochastic_approximation
from chapters.learned_priors.figures.slab import slab_traces, steps_explorer

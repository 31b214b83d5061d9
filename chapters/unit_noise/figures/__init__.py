"""Pictures of the chapter on structured bayesian pruning."""

from chapters.unit_noise.figures.explorers import noise_explorer, trade_explorer
from chapters.unit_noise.figures.method import densities, gradient_spread, printed_forms, stability
from chapters.unit_noise.figures.results import fixed_mean, lenet, random_labels, vgg, vgg_curves

"""Pictures of the chapter on inclusion probabilities in closed form."""

from chapters.closed_form.figures.explorers import inclusion_explorer, unseen_explorer
from chapters.closed_form.figures.method import gradient_statistics, gradient_variance, idea, ranking
from chapters.closed_form.figures.pruned import removed, uci
from chapters.closed_form.figures.results import selection, simulated

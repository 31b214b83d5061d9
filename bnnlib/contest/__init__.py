"""One interface over all methods of the book and their usual rivals, for comparisons on equal terms.

    problem = Problem(x, y, x_validation, y_validation, kind="regression", batch_size=128)
    predictor = METHODS["spike_slab"].fit(network, problem, steps=2000, seed=0)
    predictor.predict(x_test).mean(dim=0), predictor.sparsity, predictor.selected

A method of your own is a function from (network, problem, steps, seed, settings) to a `Predictor`, see `Method`.
"""

from bnnlib.contest.method import Method, Range, UnsuitableError
from bnnlib.contest.methods import METHODS
from bnnlib.contest.predictor import Predictor
from bnnlib.contest.problem import GaussianNoise, Problem, adam, descend, log_predictive, predictive_nll

__all__ = [
    "METHODS",
    "GaussianNoise",
    "Method",
    "Predictor",
    "Problem",
    "Range",
    "UnsuitableError",
    "adam",
    "descend",
    "log_predictive",
    "predictive_nll",
]

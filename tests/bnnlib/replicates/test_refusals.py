"""Bad input of every part of a stack is refused in words that name it."""

import math

import torch

from bnnlib import replicates as R
from tests.refused import refusals

LAYOUT = R.Layout((2, 1), 3)
WEIGHT = LAYOUT.kaiming_uniform(None)
X, Y = torch.ones(50, 3, 2), torch.ones(50, 3, 1)


def fit(x=X, y=Y, **settings):
    stack = R.StackedMLP(R.StackedDeterministic(LAYOUT, WEIGHT))
    R.fit_stacked(stack, x, y, **{"epochs": 1, "batch_size": 16, "learning_rate": 0.01, **settings})


REFUSED = [
    (lambda: R.Layout((3,), 2), "at least an input and an output"),
    (lambda: R.Layout((3, 0, 1), 2), "a layer width is 0"),
    (lambda: R.Layout((3, 1), 0), "replicates is 0"),
    (lambda: R.StackedSpikeSlab(LAYOUT, WEIGHT, [0.1, 0.2]), "2 values, but there are 3 replicates"),
    (lambda: R.StackedSpikeSlab(LAYOUT, WEIGHT, [0.1, 0.2, 1.0]), r"prior_inclusion_probability is .*strictly between"),
    (lambda: R.StackedGaussian(LAYOUT, WEIGHT, -1.0), "prior_scale is -1"),
    (lambda: R.StackedMLP(R.StackedGaussian(LAYOUT, WEIGHT), "swish"), "activation is 'swish'"),
    *[(lambda n=n, b=b: R.GaussianLikelihood(2, **{n: b}), f"{n} is .*finite and above 0")
      for n in ("initial_scale", "minimum") for b in (0.0, -1.0, math.nan)],
    (lambda: R.GaussianLikelihood(0), "replicates is 0"),
    (lambda: fit(X[:, :2], Y[:, :2]), r"x has shape \(50, 2, 2\).*\(n, 3, inputs\)"),
    (lambda: fit(X[..., :1]), r"\(50, 3, 1\).* has 2 inputs and 1 outputs: x must be \(n, 3, 2\)"),
    *[(lambda loss=loss: fit(y=Y.expand(-1, -1, 2), loss=loss), r"y \(50, 3, 2\).* and y \(n, 3, 1\)")
      for loss in (R.gaussian_nll, R.GaussianLikelihood(3))],
    (lambda: R.StackedGaussian(LAYOUT, WEIGHT[0]), r"weight has shape \(3,\), .*\(replicates, parameters\) = \(3, 3\)"),
    *[(lambda n=n: fit(**{n: 0}), f"{n} is 0") for n in ("epochs", "batch_size", "learning_rate")],
]  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)

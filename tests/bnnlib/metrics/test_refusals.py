"""Bad input of every metric is refused in words that name it."""

import math

import torch

from bnnlib import metrics
from bnnlib.metrics import (
    apply_temperature,
    auroc,
    central_interval,
    coverage,
    fit_temperature,
    predictive_entropy,
    rmse,
)
from chapters.batch_statistics.formulas import entropy_cdf
from tests.refused import refusals

NAN, INF = math.nan, math.inf
TWO, ONE = torch.tensor([[0.5, 0.5], [0.9, 0.1]]), torch.tensor([0])
BOTH = torch.tensor([0, 1])


def zeros(*shape):
    return torch.zeros(shape)


def t(*values):
    return torch.tensor(values)


REFUSED = {
    "classification": [
        (lambda: metrics.accuracy(zeros(2, 3, 4), zeros(2).long()), r"\(n, classes\)"),
        (lambda: metrics.accuracy(TWO[:1], t(2)), "classes 0 to 1"),
        (lambda: metrics.accuracy(TWO[:1], t(0.0)), "integer class numbers"),
        (lambda: metrics.nll(TWO, ["no", "yes"]), "labels holds str.*return_inverse", TypeError),
        (lambda: metrics.nll(t([2.0, -1.0]), ONE), "softmax"),
        (lambda: metrics.nll(t([0.5, NAN]), ONE), "NaN"),
        (lambda: metrics.brier(t([0.5, 0.4]), ONE), "sum to 1"),
        (lambda: metrics.ece(TWO[:1], ONE, 0), "num_bins"),
    ],
    "regression": [
        (lambda: rmse(zeros(3), zeros(3, 1)), r"\(3,\).*\(3, 1\)"),
        (lambda: rmse(zeros(0), zeros(0)), "empty"),
        (lambda: rmse(t(NAN), zeros(1)), "1 NaN or infinite"),
        (lambda: rmse(zeros(1), t(INF)), "target has 1 NaN"),
        (lambda: coverage(zeros(1, 3), zeros(3)), "at least two draws"),
        (lambda: coverage(zeros(1, 3), zeros(3), dim=0), r"\(1, 3\), but an interval needs two along dimension 0"),
        (lambda: central_interval(zeros(0, 3)), "an interval needs two"),
        (lambda: central_interval(zeros(5, 3), level=95), "level is 95, but .*if you have percents, divide by 100"),
        (lambda: coverage(zeros(5, 3), zeros(4)), r"\(5, 3\).*\(4,\)"),
        (lambda: coverage(torch.full((5, 3), NAN), zeros(3)), "draws has 15 NaN"),
        (lambda: coverage(zeros(5, 3), zeros(3), 1.0), "level is 1"),
        (lambda: coverage(zeros(5, 3), zeros(3), 0.95, -1.0), "noise_scale is -1"),
        (lambda: metrics.crps(zeros(0, 3), zeros(3)), r"draws have shape \(0, 3\).*S > 0"),
        (lambda: metrics.crps(torch.tensor(0.0), zeros(1)), r"draws have shape \(\).*S > 0"),
    ],
    "selection": [
        (lambda: metrics.false_positive_rate(zeros(3), zeros(3).bool()), "Boolean mask"),
        (lambda: metrics.false_positive_rate(*[torch.ones(3).bool()] * 2), "every input is relevant"),
        (lambda: metrics.false_negative_rate(*[zeros(3).bool()] * 2), "no input is relevant"),
    ],
    "temperature": [
        (lambda: fit_temperature(TWO, BOTH), 'given="probabilities"'),
        (lambda: fit_temperature(2 * TWO, BOTH, given="probabilities"), "sum to 1"),
        (lambda: fit_temperature(TWO, BOTH, given="odds"), "given is 'odds'.*logits, probabilities"),
        (lambda: fit_temperature(TWO, t(0, 2)), "classes 0 to 1"),
        (lambda: fit_temperature(t([NAN, 1.0]), ONE), "1 NaN"),
        (lambda: apply_temperature(TWO, 1.0), 'given="probabilities"'),
        (lambda: apply_temperature(-TWO, 0.0), "temperature is 0"),
        (lambda: apply_temperature(-TWO[0], 1.0), r"\(n, classes\)"),
        (lambda: apply_temperature(t([INF, 1.0]), 1.0), "infinite"),
    ],
    "uncertainty": [
        (lambda: predictive_entropy(torch.full((3,), 1 / 3)), r"\(3,\).*\(n, classes\)"),
        (lambda: predictive_entropy(zeros(0, 3)), "n > 0"),
        (lambda: predictive_entropy(t([2.0, -1.0])), "softmax"),
        (lambda: predictive_entropy(t([NAN, 1.0])), "1 NaN"),
        (lambda: entropy_cdf(zeros(3, 2), zeros(2)), r"entropy has shape \(3, 2\)"),
        (lambda: entropy_cdf(zeros(3), zeros(0)), r"grid has shape \(0,\)"),
        (lambda: entropy_cdf(t(NAN), zeros(2)), "entropy has 1 NaN"),
        (lambda: auroc(zeros(0), zeros(2)), r"unknown_scores has shape \(0,\)"),
        (lambda: auroc(zeros(2), zeros(2, 1)), r"known_scores has shape \(2, 1\)"),
        (lambda: auroc(t(NAN, 1.0), zeros(2)), "unknown_scores has 1 NaN"),
        (lambda: metrics.entropy_split(torch.full((3, 4), 0.25)), "do not average"),
        (lambda: metrics.entropy_split(zeros(0, 3, 4)), r"\(0, 3, 4\).*at least one draw"),
    ],
}
test_bad_input_is_refused = refusals(REFUSED)

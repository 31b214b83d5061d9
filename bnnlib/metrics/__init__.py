"""Measures of fit, calibration, uncertainty, selection and generation.

Every share is in percent, every log-likelihood in nats. Arrays, columns of tables and lists serve as tensors.
"""

from bnnlib.metrics.classification import accuracy, brier, ece, nll
from bnnlib.metrics.regression import central_interval, coverage, crps, rmse
from bnnlib.metrics.selection import false_discovery_rate, false_negative_rate, false_positive_rate
from bnnlib.metrics.temperature import apply_temperature, fit_temperature
from bnnlib.metrics.uncertainty import auroc, entropy_split, predictive_entropy

__all__ = [
    "accuracy",
    "apply_temperature",
    "auroc",
    "brier",
    "central_interval",
    "coverage",
    "crps",
    "ece",
    "entropy_split",
    "false_discovery_rate",
    "false_negative_rate",
    "false_positive_rate",
    "fit_temperature",
    "nll",
    "predictive_entropy",
    "rmse",
]

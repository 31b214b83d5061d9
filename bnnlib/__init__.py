"""Sparse Bayesian deep learning: exact objectives, layers, samplers, pruning and stacked replicates.

The packages from the ground up: `functional` (pure functions on tensors) and `posteriors` (of weights); `nn`, `optim`,
`sampling`, `pruning`, `models`, `metrics`, `datasets` and `augmentation`; `replicates` and `train`; `estimators` for
scikit-learn, its extra. Nothing imports upward.
"""

__version__ = "0.1.0"

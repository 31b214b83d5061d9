"""Sparse Bayesian deep learning: exact objectives, layers, stacked replicates and the experiments of five papers.

The packages from the ground up: `functional` (pure functions on tensors), `nn` and `pruning` (modules), `replicates`,
`training`, `metrics` and `datasets`, then `experiments`, `store` and `figures`. Nothing imports upward.
"""

__version__ = "0.1.0"

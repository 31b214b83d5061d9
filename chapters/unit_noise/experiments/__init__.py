"""Experiments of the chapter on structured Bayesian pruning."""

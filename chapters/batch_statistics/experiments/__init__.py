"""Experiments of the chapter on stochastic batch normalization."""

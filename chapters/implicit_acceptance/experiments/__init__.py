"""Experiments of the chapter on implicit Metropolis-Hastings."""

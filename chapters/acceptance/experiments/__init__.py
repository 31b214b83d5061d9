"""Experiments of the chapter on The Metropolis-Hastings view."""

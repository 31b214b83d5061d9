"""Experiments of the chapter on The adaptive variational optimizer."""

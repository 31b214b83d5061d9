"""Experiments of the chapter on Foundations."""

"""Experiments of the chapter on inclusion probabilities in closed form."""

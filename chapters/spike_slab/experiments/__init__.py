"""Experiments of the chapter on variational spike-and-slab networks."""

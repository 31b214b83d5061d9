"""Measurements of speed against deterministic layers and against other libraries, always within one run."""

"""The lessons, and beside each its study, the only place that knows a paper's settings."""

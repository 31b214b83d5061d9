"""Experiments of the chapter that lays all methods side by side."""

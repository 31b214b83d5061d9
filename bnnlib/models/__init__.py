"""Fully connected networks by their widths, from any kind of linear layer, and dropout with a generator of its own."""

from bnnlib.models.layers import Dropout
from bnnlib.models.mlp import ACTIVATIONS, mlp

__all__ = ["ACTIVATIONS", "Dropout", "mlp"]

"""The networks of the papers: fully connected, convolutional for 28 x 28 images, residual for 32 x 32 ones."""

from bnnlib.models.cnn import Dropout, cnn_batch_norm, cnn_two_conv
from bnnlib.models.mlp import ACTIVATIONS, mlp
from bnnlib.models.resnet import ResNet, resnet, resnet20

__all__ = ["ACTIVATIONS", "Dropout", "ResNet", "cnn_batch_norm", "cnn_two_conv", "mlp", "resnet", "resnet20"]

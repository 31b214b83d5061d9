"""The networks of the papers: fully connected, convolutional for 28 x 28 images, residual and VGG for 32 x 32 ones.

Beside them generators of such images, with their critics and encoders.
"""

from bnnlib.models.layers import Dropout
from bnnlib.models.lenet import lenet5_caffe, lenet_300_100
from bnnlib.models.mlp import ACTIVATIONS, mlp
from bnnlib.models.resnet import ResNet, resnet, resnet18, resnet20
from bnnlib.models.vgg import vgg_like

__all__ = [
    "ACTIVATIONS",
    "Dropout",
    "ResNet",
    "lenet5_caffe",
    "lenet_300_100",
    "mlp",
    "resnet",
    "resnet18",
    "resnet20",
    "vgg_like",
]

"""The networks of the papers: LeNets for 28 x 28 images, residual and VGG-like ones for 32 x 32."""

from chapters.shared.networks.lenet import lenet5_caffe, lenet_300_100
from chapters.shared.networks.resnet import ResNet, resnet, resnet18, resnet20
from chapters.shared.networks.vgg import vgg_like

__all__ = ["ResNet", "lenet5_caffe", "lenet_300_100", "resnet", "resnet18", "resnet20", "vgg_like"]

"""The columns "DA-" of Table 2 of Deng et al. (2019): batch norm and augmentation, as in the published code."""

from typing import Any

import torch

from chapters.learned_priors.augmentation import RandomErasing, RandomRotation
from chapters.learned_priors.experiments.mnist_train import Network, generators
from chapters.learned_priors.networks import cnn_batch_norm
from chapters.shared.augmentation import Compose, Normalize, RandomCrop, RandomHorizontalFlip

MEAN, SCALE = 0.1307, 0.3081  # of MNIST; the published code normalizes Fashion-MNIST with them too


def build_augmented(params: dict[str, Any], method: str, replicate: int, device: torch.device) -> Network:
    """The network with batch norm before training: the same first weights for all methods of a replicate.

    Dropout 0.1 and 0.3 is a part of the published network, for the samplers too; only "Vanilla" is without.
    """
    start, generator = generators(replicate, device)
    net = cnn_batch_norm((0.0, 0.0) if method == "Vanilla" else (0.1, 0.3), generator=start)
    normalize = Normalize(MEAN, SCALE)
    if params["augment"] == "rotate":
        augment = Compose([RandomCrop(4), RandomRotation(15.0), normalize])
    else:
        augment = Compose([RandomCrop(4), RandomHorizontalFlip(), normalize, RandomErasing(0.5, value=0.4914)])
    return Network(net.to(device), params["precision"], generator, augment, normalize)

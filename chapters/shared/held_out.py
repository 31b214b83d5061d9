"""Training, held-out and test rows of an image data set."""

from __future__ import annotations

import torch
from torch import Tensor

from bnnlib import datasets

Split = dict[str, tuple[Tensor, Tensor]]


def held_out_parts(name: str, held_out: int) -> Split:
    """Rows "train", "validation" and "test" as (x, y); which ones are held out depends on the data set alone.

    Args:
        name: of the data set.
        held_out: training rows to hold out for choosing settings.
    """
    whole = datasets.load(name)
    train, validation = whole.validation_split(held_out, generator=torch.Generator().manual_seed(0))
    return {
        "train": (train.train_x, train.train_y),
        "validation": (validation.test_x, validation.test_y),
        "test": (whole.test_x, whole.test_y),
    }

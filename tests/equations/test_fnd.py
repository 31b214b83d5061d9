"""The equations of the chapter on Foundations, each checked by a number computed another way."""

import torch

from chapters.foundations.experiments.mean import mean

# Every labeled equation is tested.
UNTESTED: dict[str, str] = {}


# equation: fnd-mean
def test_the_mean_worked_out_by_hand():
    assert mean(torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])).tolist() == [3.0, 1.0]

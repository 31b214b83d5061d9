"""The equations of the chapter on The adaptive variational optimizer, each checked by a number computed another way."""

import torch

from chapters.adaptive_optimizer.experiments.mean import mean

# Every labeled equation is tested.
UNTESTED: dict[str, str] = {}


# equation: avo-mean
def test_the_mean_worked_out_by_hand():
    assert mean(torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])).tolist() == [3.0, 1.0]

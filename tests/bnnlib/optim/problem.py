"""A network and a loss that every optimizer here lowers, by closures."""

import torch
from torch import nn

from bnnlib.models import mlp
from tests.seeded import seeded

X, Y = (torch.randn(50, columns, generator=seeded(1), dtype=torch.float64) for columns in (5, 2))


def network() -> nn.Sequential:
    return mlp((5, 4, 2), "tanh", generator=seeded()).double()


def train(model, optimizer, steps):
    def closure():
        optimizer.zero_grad()
        loss = (model(X) - Y).square().mean()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def values(model) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()

"""A method that the library does not have, entered: the diagonal SWAG of Maddox et al. (2019)."""

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from bnnlib.contest import Method, Predictor, Range, descend
from bnnlib.train import Callback


class Moments(Callback):
    """Running moments of the weights over the second half of the steps."""

    def __init__(self, steps: int) -> None:
        self.first, self.count, self.mean, self.square = steps // 2, 0, 0.0, 0.0

    def on_step(self, run) -> None:
        if run.step > self.first:
            w, self.count = parameters_to_vector(run.model.parameters()).detach(), self.count + 1
            self.mean, self.square = (m + (v - m) / self.count for m, v in ((self.mean, w), (self.square, w * w)))


def train(network, problem, steps, seed, lr):
    moments, sgd = Moments(steps), torch.optim.SGD(network.parameters(), lr, momentum=0.9)
    variance = descend(network, problem, steps, seed, sgd, callbacks=[moments])

    def draws(model, x, num_samples, generator):
        scale = (moments.square - moments.mean**2).clamp_min(0.0).sqrt()
        weights = [moments.mean + scale * torch.randn(scale.shape, generator=generator) for _ in range(num_samples)]
        return torch.stack([(vector_to_parameters(w, model.parameters()), model(x))[1] for w in weights])

    return Predictor(network, problem, draws, variance)


METHOD = Method("swag", train, {"lr": Range(1e-2, 1e-3, 0.3)})

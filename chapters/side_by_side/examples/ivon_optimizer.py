"""A method from its authors' own package, entered: IVON of Shen et al. (2024), `pip install ivon-opt`."""

from contextlib import ExitStack

import torch
from ivon import IVON

from bnnlib.contest import Method, Predictor, Range, descend


def train(network, problem, steps, seed, lr, hess_init):
    optimizer, drawn = IVON(network.parameters(), lr=lr, ess=len(problem.x), hess_init=hess_init), ExitStack()

    def draw(module, inputs):  # its step wants gradients at a draw of the weights, which ends before the step
        drawn.enter_context(optimizer.sampled_params(train=True))

    hook = network.register_forward_pre_hook(draw)
    optimizer.register_step_pre_hook(lambda *_: drawn.close())
    variance = descend(network, problem, steps, seed, optimizer)
    hook.remove()

    def draws(model, x, num_samples, generator):
        outputs = []
        with torch.random.fork_rng():  # it draws from PyTorch's own generator
            torch.manual_seed(generator.initial_seed())
            for _ in range(num_samples):
                with optimizer.sampled_params():
                    outputs.append(model(x))
        return torch.stack(outputs)

    return Predictor(network, problem, draws, variance)


METHOD = Method("ivon", train, {"lr": Range(0.1, 0.01, 1.0), "hess_init": Range(1.0, 0.01, 1.0)})

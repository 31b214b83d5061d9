"""Methods that end with one set of weights, or with a few: the usual rivals of a posterior."""

import inspect
from copy import deepcopy

import torch
from torch import Tensor, nn

from bnnlib.contest.places import Layer, drawn_anew, put_beside
from bnnlib.contest.predictor import Predictor
from bnnlib.contest.problem import Problem, adam, descend, sgd
from bnnlib.models.layers import Dropout
from bnnlib.nn import match_moments, predict, predict_dropout, predict_ensemble, to_laplace, to_stochastic_batch_norm

MEMBERS = 5


def deterministic(network, problem: Problem, steps: int, seed: int, lr: float, weight_decay: float) -> Predictor:
    """Adam, ended at the lowest validation loss."""
    variance = descend(network, problem, steps, seed, adam(network, lr, weight_decay), best=True)
    return Predictor(network, problem, variance=variance)


def deterministic_sgd(network, problem: Problem, steps: int, seed: int, lr: float, weight_decay: float) -> Predictor:
    """SGD with momentum, ended at the lowest validation loss."""
    variance = descend(network, problem, steps, seed, sgd(network, lr, weight_decay), best=True)
    return Predictor(network, problem, variance=variance)


def ensemble(network, problem: Problem, steps: int, seed: int, lr: float, weight_decay: float) -> Predictor:
    """Five networks from other first weights and other batches, each with a fifth of the steps."""
    members, variances, share = [], [], max(1, steps // MEMBERS)
    for member in range(MEMBERS):
        net = deepcopy(network)
        if member:
            drawn_anew(net)
        variances.append(descend(net, problem, share, seed + 10_000 * member, adam(net, lr, weight_decay), best=True))
        members.append(net.eval())

    def draws(_: nn.Module, x: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        return inspect.unwrap(predict_ensemble)(members, x, chunk_size=4096)

    variance = sum(variances) / MEMBERS
    return Predictor(members[0], problem, draws, variance, networks=MEMBERS, cost={"steps": MEMBERS * share})


def dropout(network, problem: Problem, steps: int, seed: int, lr: float, rate: float) -> Predictor:
    """Monte Carlo dropout in front of every layer but the first."""
    put_beside(network, problem.example, lambda before: Dropout(rate), behind=False)
    variance = descend(network, problem, steps, seed, adam(network, lr), best=True)

    def draws(model: nn.Module, x: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        return inspect.unwrap(predict_dropout)(model, x, num_samples, 4096, generator)

    return Predictor(network, problem, draws, variance)


def laplace(network, problem: Problem, steps: int, seed: int, lr: float, weight_decay: float) -> Predictor:
    """Last-layer Laplace around the deterministic network, its prior precision by the evidence."""
    variance = descend(network, problem, steps, seed, adam(network, lr, weight_decay), best=True)
    posterior = to_laplace(network, (problem.x, problem.y), problem.kind)

    def draws(_: nn.Module, x: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
        return inspect.unwrap(predict)(posterior, x, num_samples, 4096, generator)

    return Predictor(network, problem, draws, variance)


def batch_norm(network, problem: Problem, steps: int, seed: int, lr: float, weight_decay: float) -> Predictor:
    """Batch norm behind every hidden layer, its averages in prediction: the control of the stochastic one."""

    def make(before: Layer) -> nn.Module:
        if isinstance(before, nn.Conv2d):
            return nn.BatchNorm2d(before.out_channels, device=before.weight.device)
        return nn.BatchNorm1d(before.out_features, device=before.weight.device)

    put_beside(network, problem.example, make, behind=True)
    variance = descend(network, problem, steps, seed, adam(network, lr, weight_decay), best=True)
    return Predictor(network, problem, variance=variance)


def stochastic_batch_norm(network, problem: Problem, steps: int, seed: int, **settings: float) -> Predictor:
    """Stochastic batch norm behind every hidden layer: its statistics are drawn in prediction."""
    trained = batch_norm(network, problem, steps, seed, **settings)
    model = to_stochastic_batch_norm(trained.model)
    order = torch.randperm(len(problem.x), generator=torch.Generator().manual_seed(seed)).to(problem.x.device)
    size = min(problem.batch_size, max(2, len(order) // 2))  # a spread needs two batches
    batches = [problem.x[rows] for rows in order.split(size) if len(rows) > 1]
    match_moments(model, batches[:100])
    return Predictor(model, problem, variance=trained.variance)

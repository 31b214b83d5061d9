"""Rivals that make a deterministic network sparse, and controls for what sparsity itself does."""

import torch

from bnnlib.contest.places import Layer, drawn_anew, layers_of
from bnnlib.contest.predictor import Predictor
from bnnlib.contest.problem import Problem, adam, descend, sgd
from bnnlib.pruning import AGPPruner, GroupLasso, Masks, compress, lottery_ticket_sparsities, rank_mask

ROUNDS = 4


def gradual_pruning(network, problem: Problem, steps: int, seed: int, lr: float, sparsity: float) -> Predictor:
    """Automated gradual pruning of Zhu and Gupta (2018), from a tenth to three quarters of the steps."""
    begin, end = max(1, steps // 10), max(2, 3 * steps // 4)
    pruner = AGPPruner(
        network, final_sparsity=sparsity, begin_step=begin, end_step=end, frequency=max(1, (end - begin) // 20)
    )
    variance = descend(network, problem, steps, seed, adam(network, lr), callbacks=[pruner], best_from=end)
    return Predictor(network, problem, variance=variance, selects=True)


def group_lasso(network, problem: Problem, steps: int, seed: int, lr: float, strength: float) -> Predictor:
    """Group lasso on units by proximal SGD, off in the last quarter."""
    return _by_group_lasso(network, problem, steps, seed, sgd(network, lr), strength)


def group_lasso_adam(network, problem: Problem, steps: int, seed: int, lr: float, strength: float) -> Predictor:
    """Group lasso on units by proximal Adam, off in the last quarter."""
    return _by_group_lasso(network, problem, steps, seed, adam(network, lr), strength)


def _by_group_lasso(network, problem: Problem, steps: int, seed: int, optimizer, strength: float) -> Predictor:
    outputs = next(reversed(layers_of(network, problem.example)), None)
    end = max(1, 3 * steps // 4)
    penalty = GroupLasso(network, strength, last_step=end, outputs=outputs)
    variance = descend(network, problem, steps, seed, optimizer, callbacks=[penalty], best_from=end)
    return Predictor(network, problem, variance=variance, selects=True)


def lottery_ticket(network, problem: Problem, steps: int, seed: int, lr: float, sparsity: float) -> Predictor:
    """Lottery ticket of Frankle and Carbin (2019): four rounds of training, pruning and return to the first weights."""
    first = {name: value.clone() for name, value in network.state_dict().items()}
    masks, variance, share = Masks(network), 0.0, max(1, steps // ROUNDS)
    shares = lottery_ticket_sparsities(sparsity, ROUNDS - 1)
    for number in range(ROUNDS):
        variance = descend(network, problem, share, seed, adam(network, lr), callbacks=[masks])
        if number < ROUNDS - 1:
            masks.update(shares[number])
            network.load_state_dict(first)
            masks.apply()
    return Predictor(network, problem, variance=variance, selects=True, cost={"steps": ROUNDS * share})


def random_pruning(network, problem: Problem, steps: int, seed: int, lr: float, sparsity: float) -> Predictor:
    """Control: weights that are out by chance before training begins."""
    masks, draws = Masks(network), torch.Generator().manual_seed(seed + 77)
    for name, mask in masks.masks.items():
        masks.masks[name] = rank_mask(torch.rand(mask.shape, generator=draws), sparsity).to(mask.device)
    masks.apply()
    variance = descend(network, problem, steps, seed, adam(network, lr), callbacks=[masks])
    return Predictor(network, problem, variance=variance)


def small_dense(network, problem: Problem, steps: int, seed: int, lr: float, sparsity: float) -> Predictor:
    """Control: a dense network of about as many weights, its hidden layers narrowed alike."""
    layers = list(layers_of(network, problem.example).values())
    total, width = sum(layer.weight.numel() for layer in layers), 1.0
    while _weights(layers, width) > (1.0 - sparsity) * total and width > 0.01:
        width *= 0.97
    with torch.no_grad():
        for layer in layers[:-1]:
            kept = _units(layer, width)
            layer.weight[kept:] = 0.0
            if layer.bias is not None:
                layer.bias[kept:] = 0.0
    small = drawn_anew(compress(network, problem.example)).train()
    variance = descend(small, problem, steps, seed, adam(small, lr), best=True)
    return Predictor(small, problem, variance=variance)


def _units(layer: Layer, width: float) -> int:
    return max(1, round(width * layer.weight.shape[0]))


def _weights(layers: list[Layer], width: float) -> int:
    """Weights of the narrowed network; each layer reads as many columns a unit as it does now."""
    total, share = 0, 1.0
    for number, layer in enumerate(layers):
        rows = layer.weight.shape[0] if number == len(layers) - 1 else _units(layer, width)
        total += round(rows * share * layer.weight[0].numel())
        share = rows / layer.weight.shape[0]
    return total

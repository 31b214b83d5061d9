"""Variational methods: a posterior of weights or of units by gradients of the ELBO."""

from torch import nn

from bnnlib.contest.method import UnsuitableError
from bnnlib.contest.places import layers_of
from bnnlib.contest.predictor import Predictor
from bnnlib.contest.problem import WARM_UP, Problem, adam, descend
from bnnlib.nn import insert_unit_noise, to_bayesian


def _descended(model: nn.Module, problem: Problem, steps: int, seed: int, lr: float, **about) -> Predictor:
    variance = descend(model, problem, steps, seed, adam(model, lr), warm_up=WARM_UP)
    return Predictor(model, problem, variance=variance, **about)


def gaussian(network, problem: Problem, steps: int, seed: int, lr: float, prior_scale: float) -> Predictor:
    """Mean-field Gaussian posterior."""
    model = to_bayesian(network, prior_scale=prior_scale)
    return _descended(model, problem, steps, seed, lr)


def spike_slab(network, problem: Problem, steps: int, seed: int, lr: float, inclusion: float) -> Predictor:
    """Dirac spike and Gaussian slab, of Bai, Song and Cheng (2020)."""
    model = to_bayesian(network, "spike_slab", prior_inclusion_probability=inclusion)
    return _descended(model, problem, steps, seed, lr, selects=True)


def gaussian_spike_slab(
    network, problem: Problem, steps: int, seed: int, lr: float, inclusion: float, spike_scale: float
) -> Predictor:
    """Two Gaussians, the inclusion probabilities in closed form."""
    model = to_bayesian(
        network, "gaussian_spike_slab", slab_scale=1.0, spike_scale=spike_scale, prior_inclusion_probability=inclusion
    )
    return _descended(model, problem, steps, seed, lr, selects=True)


def sparse_vd(network, problem: Problem, steps: int, seed: int, lr: float) -> Predictor:
    """Sparse variational dropout of Molchanov, Ashukha and Vetrov (2017)."""
    return _descended(to_bayesian(network, "sparse_vd"), problem, steps, seed, lr, selects=True)


def horseshoe(network, problem: Problem, steps: int, seed: int, lr: float) -> Predictor:
    """Horseshoe priors on units; of linear layers only."""
    if any(isinstance(layer, nn.Conv2d) for layer in layers_of(network, problem.example).values()):
        raise UnsuitableError("the library's horseshoe layers are linear, and this network has convolutions")
    return _descended(to_bayesian(network, "horseshoe"), problem, steps, seed, lr, selects=True)


def unit_noise(network, problem: Problem, steps: int, seed: int, lr: float) -> Predictor:
    """Structured Bayesian pruning: noise behind hidden layers, and on the inputs where the first layer is linear."""
    layers = layers_of(network, problem.example)
    first = next(iter(layers))
    before = [first] if isinstance(layers[first], nn.Linear) else []
    model = insert_unit_noise(network, after=list(layers)[:-1], before=before)
    return _descended(model, problem, steps, seed, lr, selects=True)

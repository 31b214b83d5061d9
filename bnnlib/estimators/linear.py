"""The sparse linear model: the candidate that every network must beat, and what predicts where none does."""

import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path
from torch import Tensor

from bnnlib.estimators.ascent import Ascent, ascend, softmax
from bnnlib.estimators.folds import Folds, Held, better
from bnnlib.estimators.likelihoods import SharedGaussian
from bnnlib.estimators.promises import Loss
from bnnlib.estimators.rows import Rows
from bnnlib.estimators.variational import Variational
from bnnlib.functional import softplus_inverse

_EXPECTED = (1, 4, 16, 64)  # inputs of the prior that are in, while they are a third at most
_LARGEST = 0.1  # lambda of a prior that selects: odds of even chances need a Bayes factor of ten
_DENSE = (0.5, 0.99)  # lambda of priors that predict and do not select
_SHARES = {False: (0.3, 1.0), True: (1.0, 4.0, 16.0, 64.0)}  # prior variance of the outputs, for numbers, for labels
_MANY = 500  # inputs from which on the dense priors are left out
_STARTS = 8  # orders of the inputs at least
_ROWS = 20_000  # a sample of so many is as good as all
# Nats that count as one between modes of labels, which are averaged for predictions: the evidence is a loose bound or
# an estimate there, and a factorized posterior at one mode is too sure. Wine and 30 rows of breast cancer gain by it.
_LOOSE = 10.0
_NEGLIGIBLE = 1e-3  # of the evidence's weights
_READ = 0.02  # probability from which on a model reads an input
_CERTAIN = 30.0  # largest log-odds that are kept


class Explored(NamedTuple):
    """What the linear model says of the data: its settings, which inputs matter, how well held-out rows are met."""

    probability: float  # lambda of the model that predicts
    scale: float  # its sigma_0
    inclusion: np.ndarray  # by evidence, of each start and input, (S, p)
    shares: np.ndarray  # of the starts in the evidence, (S,)
    held: Held


def settings(groups: int, inputs: int, labels: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """lambda, sigma_0 and whether it selects, of every setting that is tried."""
    expected = [count for count in _EXPECTED if count == 1 or count <= groups / 3]
    sparse = [min(_LARGEST, count / groups) for count in expected]
    dense = [] if inputs > _MANY else [share for share in _DENSE if share not in sparse]
    shares = _SHARES[labels]
    probability = np.repeat([*sparse, *dense], len(shares))
    scale = np.sqrt(np.tile(shares, len(sparse) + len(dense)) / (probability * inputs))
    return probability, scale, np.repeat([True] * len(sparse) + [False] * len(dense), len(shares))


def explore(rows: Rows, groups: list[np.ndarray], folds: Folds, starts: int, seed: int) -> Explored:
    """Try every setting on all rows, in several orders of the groups, and on each fold's training rows.

    The evidence says which inputs matter, averaged over the sparse settings (Carbonetto and Stephens, section 4) and
    over starts, by evidence too: each visits the inputs in another order and may end at another mode. The setting that
    predicts is that of the largest evidence, unless held-out rows are sure of another.
    """
    random, inputs = np.random.default_rng(seed), rows.x.shape[1]
    probability, scale, sparse = settings(len(groups), inputs, rows.classes > 0)
    some = rows.part(_sample(len(rows.x), random))
    orders = _orders(some, groups, _starts(starts, inputs), random)
    every = ascend(some, probability, scale, orders[0], groups)
    best = int(np.where(sparse, every.evidence, -np.inf).argmax())
    likely = sparse & (every.evidence > every.evidence[best] + math.log(_NEGLIGIBLE))
    others = [ascend(some, probability[likely], scale[likely], order, groups) for order in orders[1:]]
    fits = [Ascent(*(part[likely] for part in every)), *others]
    inclusion, shares = (np.stack(part) for part in zip(*(_averaged(fit) for fit in fits), strict=True))
    shares = np.exp(shares - shares.max())
    # held-out rows look at the most probable setting of those that select, and at all that do not
    tried = np.flatnonzero(~sparse | (np.arange(len(probability)) == best))
    helds = _held(rows, folds, probability[tried], scale[tried], groups)
    first, least = tried.tolist().index(best), int(np.argmin([held.loss() for held in helds]))
    index = least if better(helds[least], helds[first]) else first
    setting = tried[index]
    chosen = float(probability[setting]), float(scale[setting])
    return Explored(*chosen, inclusion, shares / shares.sum(), helds[index])


def _starts(least: int, inputs: int) -> int:
    return max(least, _STARTS if inputs <= _MANY else 1)


def _sample(rows: int, random: np.random.Generator) -> np.ndarray:
    return np.arange(rows) if rows <= _ROWS else np.sort(random.choice(rows, _ROWS, replace=False))


def _averaged(fit: Ascent) -> tuple[np.ndarray, float]:
    """Probability that an input has a weight to some output, averaged over settings by evidence (p,); log evidence."""
    most = fit.evidence.max()
    weights = np.exp(fit.evidence - most)
    joined = -np.expm1(np.log1p(-np.minimum(fit.inclusion, 1.0 - 1e-16)).sum(axis=1))
    return weights @ joined / weights.sum(), float(most + np.log(weights.sum()))


def _orders(rows: Rows, groups: list[np.ndarray], count: int, random: Any) -> list[np.ndarray]:
    """Orders in which groups are visited: by the lasso's coefficients under a weak penalty first, then random ones.

    Of inputs that stand in for each other the first keeps the others out, and the lasso has seen all of them together:
    where blocks of six inputs were correlated by 0.95, eight random orders ended 8 to 28 nats short of it.
    """
    x, y, classes, weights = rows
    named = np.arange(classes) if classes > 2 else np.array([1])
    target, root = y[:, None] == named if classes else y.reshape(len(y), -1), np.sqrt(weights)[:, None]
    inputs, size = root * (x - np.average(x, axis=0, weights=weights)), np.zeros(x.shape[1])
    for column in (root * (target - np.average(target, axis=0, weights=weights))).T:
        if column.any():
            penalties = np.abs(column @ inputs).max() / len(column) * np.geomspace(1.0, 0.01, 20)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # an order needs no digits
                size += np.abs(lasso_path(inputs, column, alphas=penalties, tol=1e-3)[1][:, -1])
    first = np.argsort([-size[some].sum() for some in groups], kind="stable")
    return [first, *(random.permutation(len(groups)) for _ in range(count - 1))]


def _held(rows: Rows, folds: Folds, probability, scale, groups: list[np.ndarray]) -> list[Held]:
    """Held-out rows under each setting, which every fold fits to its own training rows."""
    fits, tests = _fitted(rows, folds, probability, scale, groups), [rows.part(test) for test in folds.test]

    def held(setting: slice) -> Held:
        singles = [Ascent(*(part[setting] for part in fit)) for fit in fits]
        return Held.joined([_judged(fit, test, groups) for fit, test in zip(singles, tests, strict=True)]).tempered()

    return [held(slice(number, number + 1)) for number in range(len(probability))]


def _fitted(rows: Rows, folds: Folds, probability, scale, groups: list[np.ndarray]) -> list[Ascent]:
    """Every setting on the training rows of each fold, in an order that these alone decide."""
    trains = [rows.part(train) for train in folds.train]
    return [ascend(own, probability, scale, _orders(own, groups, 1, None)[0], groups) for own in trains]


def _judged(fit: Ascent, rows: Rows, groups: list[np.ndarray]) -> Held:
    x, y, classes, weights = rows
    mean, variance = (part[0] for part in fit.moments(x, groups))
    if not classes:
        mean, variance = (part.T.reshape(y.shape) for part in (mean, variance))
        noise = np.broadcast_to(np.square(fit.noise[0]), (len(x), fit.noise.shape[1])).reshape(y.shape)
        std = np.sqrt(variance + noise)
        nll = 0.5 * np.square((y - mean) / std) + np.log(std) + 0.5 * math.log(2 * math.pi)
        return Held(nll.reshape(len(x), -1).sum(axis=1), weights, mean, std, noise=noise)
    # a logistic function meets a normal distribution: the probit's answer (MacKay, 1992)
    logit = mean / np.sqrt(1.0 + math.pi / 8.0 * variance)
    if len(logit) == 1:
        logit = np.concatenate([0.0 * logit, logit])
    return Held.of_labels(np.log(softmax(logit[None])[0]).T, y, weights)


def fold_losses(
    rows: Rows, groups: list[np.ndarray], folds: Folds, probability: float, scale: float
) -> tuple[np.ndarray, Loss]:
    """Which inputs the folds' models of one setting read, and what they lose on held-out rows."""
    fits = _fitted(rows, folds, np.full(1, probability), np.full(1, scale), groups)

    def loss(fold: int, x: np.ndarray) -> np.ndarray:
        y = np.concatenate([rows.y[folds.test[fold]]] * len(x))
        copies = Rows(x.reshape(-1, x.shape[2]), y, rows.classes, np.ones(len(y)))
        return _judged(fits[fold], copies, groups).nll.reshape(len(x), -1)

    return np.max([fit.inclusion.max(axis=(0, 1)) for fit in fits], axis=0) > _READ, loss


class Linear(Variational):
    """A stack without hidden layers whose posterior coordinate ascent finds; `partial_fit` goes on by gradients.

    As `Variational` of "spike_slab"; `groups` are columns of inputs, which a draw has in or out together.
    """

    def __init__(self, *arguments: Any, groups: list[np.ndarray]) -> None:
        super().__init__("spike_slab", *arguments)
        self.groups = groups

    def draws(self, count: int, generator: torch.Generator) -> Iterator[tuple[list[tuple[Tensor, ...]], Tensor | None]]:
        posterior, numbers = self.stack.posterior, np.empty(self.stack.posterior.layout.sizes[0], dtype=int)
        if len(self.groups) == len(numbers):
            yield from super().draws(count, generator)
            return
        for number, some in enumerate(self.groups):
            numbers[some] = number
        with torch.no_grad():
            parts = posterior.weight, F.softplus(posterior.weight_rho), posterior.inclusion_probability
            (mean, center), (std, error), (phi, _) = (posterior.layout.layers(part.double())[0] for part in parts)
            scale = self.likelihood.scale().double() if isinstance(self.likelihood, SharedGaussian) else None
            for _ in range(count):
                even = torch.rand((*phi.shape[:2], len(self.groups)), generator=generator, dtype=torch.float64)
                weight, bias = (
                    part + scatter * torch.randn(part.shape, generator=generator, dtype=torch.float64)
                    for part, scatter in ((mean, std), (center, error))
                )
                yield [((even[:, :, numbers] < phi) * weight, bias)], scale

    def ascend(self, rows: Rows, seed: int) -> None:
        """Fit the networks of the stack to scaled rows, from starts with another order each."""
        posterior, random = self.stack.posterior, np.random.default_rng(seed)
        probability = np.full(1, float(posterior.prior_inclusion_probability))
        scale = np.full(1, float(posterior.prior_scale))
        some, count = rows.part(_sample(len(rows.x), random)), self.stack.replicates
        orders = _orders(some, self.groups, _starts(count, rows.x.shape[1]), random)
        # the rows of a sample stand for the others too
        some = some._replace(weights=len(rows.x) / len(some.x) * some.weights)
        fits = [ascend(some, probability, scale, order, self.groups) for order in orders]
        # as often as their evidence says, in order of it
        fits.sort(key=lambda fit: -fit.evidence[0])
        loose = _LOOSE if rows.classes else 1.0
        share = np.cumsum(np.exp([(fit.evidence[0] - fits[0].evidence[0]) / loose for fit in fits]))
        chosen = np.searchsorted(share / share[-1], (np.arange(count) + 0.5) / count)
        every = zip(*(fits[place] for place in chosen), strict=True)
        fit: Any = Ascent(*(torch.from_numpy(np.concatenate(part)) for part in every))  # type: ignore[arg-type]

        def flat(weight: Tensor, bias: Tensor) -> Tensor:
            return torch.cat([weight.flatten(1), bias], dim=1)

        with torch.no_grad():
            posterior.weight.copy_(flat(fit.mean, fit.bias))
            posterior.weight_rho.copy_(softplus_inverse(flat(fit.variance, fit.bias_variance).sqrt()))
            logits = torch.logit(fit.inclusion).clamp(-_CERTAIN, _CERTAIN)
            posterior.weight_logit.copy_(flat(logits, torch.full_like(fit.bias, _CERTAIN)))
            if not rows.classes:
                likelihood: Any = self.likelihood
                likelihood.log_scale.copy_(fit.noise.log())

    def unsettled(self) -> str | None:
        """Ascent ends when it has settled."""
        return None

"""Inclusion probabilities of the inputs along the prior's lambda: what `plot_path` draws."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import clone

from bnnlib.estimators.ascent import Ascent, ascend
from bnnlib.estimators.groups import members
from bnnlib.estimators.linear import _LARGEST, _MANY, _SHARES, _averaged, _sample
from bnnlib.estimators.notes import ConvergenceWarning
from bnnlib.estimators.rows import Rows
from bnnlib.estimators.threads import threads
from bnnlib.posteriors.settings import check_open

_WHOLE = np.geomspace(1e-8, 0.5, 17)  # from where log(1 / lambda), the price of an input, is 18 nats
_FEWER = np.geomspace(1e-8, 0.1, 8)  # for networks
_USUAL = 1e-3  # where a path begins at the latest
_STARTS = 3  # orders of the linear model's inputs by chance
_AGAIN = 4  # orders at most that begin with what is in at another lambda
_STEPS = 3000  # of networks: after 1,000 of 600 rows inputs that do not matter were still in
_EMPTY = 0.05  # largest probability of a lambda that begins a path


class Path(NamedTuple):
    """Probabilities along a grid of lambda."""

    probabilities: np.ndarray  # lambda, rising (L,)
    inclusion: np.ndarray  # of the inputs, (L, p)
    evidence: np.ndarray | None  # log evidence of the linear model, in nats (L,)
    hidden: tuple[int, ...]  # widths of the network, () for the linear model
    model: Any  # the estimator, with names of the inputs


def path(estimator: Any, X: Any, y: Any, probabilities: Any) -> Path:
    """Fit the estimator's model at every lambda, of a copy; None for the probabilities stands for a grid."""
    if estimator.method not in ("spike_slab", "gaussian_spike_slab"):
        raise ValueError(
            f"method={estimator.method!r} has no prior inclusion probability to go along. Take method='spike_slab' or "
            "'gaussian_spike_slab'."
        )
    hidden = getattr(estimator, "hidden_", () if isinstance(estimator.hidden, str) else estimator.hidden)
    own = clone(estimator)
    own._check_settings()
    rows, sizes = own._started(X, y, None, None)
    # among many inputs the linear model's dense settings are left out, as in a fit
    usual = _FEWER if len(hidden) else _WHOLE if sizes[0] <= _MANY else _WHOLE[_WHOLE <= _LARGEST]
    lambdas = usual if probabilities is None else _checked(probabilities)
    if len(hidden):
        inclusion, evidence = _of_networks(own, rows, (sizes[0], *hidden, sizes[-1]), lambdas)
    else:
        inclusion, evidence = _of_linear_models(rows, lambdas, members(own.groups_[own.used_]), own.seed_)
    if probabilities is None:  # without what comes before the first input
        first = max(0, int((inclusion.max(axis=1) > _EMPTY).argmax()) - 1)
        first = min(first, int(np.searchsorted(lambdas, _USUAL)))
        lambdas, inclusion = lambdas[first:], inclusion[first:]
        evidence = None if evidence is None else evidence[first:]
    # copies share the probability, as in a fit
    whole = inclusion[:, np.searchsorted(own.used_, own.original_)] / own._sharing()
    return Path(lambdas, whole, evidence, tuple(int(width) for width in hidden), own)


def _checked(probabilities: Any) -> np.ndarray:
    lambdas = np.unique(np.asarray(probabilities, dtype=float))
    if not len(lambdas):
        raise ValueError("probabilities is empty. Give values of lambda, or leave it out for a grid.")
    for probability in lambdas:
        check_open("each of probabilities", float(probability))
    return lambdas


def _of_linear_models(
    rows: Rows, probabilities: np.ndarray, groups: list[np.ndarray], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Averages over prior scales, and over starts, by evidence, as a fit averages them."""
    random, inputs = np.random.default_rng(seed), rows.x.shape[1]
    some = rows.part(_sample(len(rows.x), random))
    shares = np.array(_SHARES[rows.classes > 0])  # prior variances of the outputs, as a fit tries them
    lambdas = np.repeat(probabilities, len(shares))
    # the slab of one input that is in, or of as many as the prior expects
    scales = np.sqrt(np.tile(shares, len(probabilities)) / np.maximum(1.0, lambdas * inputs))
    settings = [slice(len(shares) * place, len(shares) * (place + 1)) for place in range(len(probabilities))]
    phi: list[Any] = []
    evidence: list[Any] = []

    def start(order: np.ndarray) -> None:
        fit = ascend(some, lambdas, scales, order, groups)
        averages = [_averaged(Ascent(*(part[group] for part in fit))) for group in settings]
        phi.append([inclusion for inclusion, _ in averages])
        evidence.append([value for _, value in averages])

    for _ in range(_STARTS if inputs <= _MANY else 1):
        start(random.permutation(len(groups)))
    # what is best for one lambda is tried for all: else correlated inputs would take turns from point to point
    best = np.asarray(phi)[np.argmax(evidence, axis=0), np.arange(len(probabilities))][
        :, [first for first, *_ in groups]
    ]
    orders = {tuple(order[: (row > 0.5).sum()]): order for row in best for order in [np.argsort(-row, kind="stable")]}
    for order in list(orders.values())[-_AGAIN:]:
        start(order)
    by_start = np.asarray(evidence)
    share = np.exp(by_start - by_start.max(axis=0))
    inclusion = np.average(np.asarray(phi), axis=0, weights=np.broadcast_to(share[:, :, None], np.shape(phi)))
    return inclusion, by_start.max(axis=0) + np.log(share.mean(axis=0))


def _of_networks(own: Any, rows: Rows, sizes: tuple[int, ...], probabilities: np.ndarray) -> tuple[np.ndarray, None]:
    """One network for each lambda, all from the same first weights, trained as one stack."""
    network = own._build(sizes, probabilities, len(probabilities))
    with torch.no_grad():
        weight = network.stack.posterior.weight
        weight.copy_(weight[:1].expand_as(weight))
    batch = own._count("batch_size")
    epochs = own._count("epochs") if own.epochs is not None else -(-_STEPS // -(-len(rows.x) // batch))
    with threads(own.n_jobs):
        network.train_on(*rows.tensors(), epochs, batch, len(rows.x), bool(own.verbose), True)
    if words := network.unsettled():
        warnings.warn(
            f"after {epochs} epochs {words}. Raise epochs of the estimator.", ConvergenceWarning, stacklevel=4
        )
    return own._joined(network.inclusion())[1], None

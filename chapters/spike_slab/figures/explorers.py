"""Explorers of variational spike-and-slab networks: the rates, the gradient of a gate, the sweep of lambda."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Band, Bars, Line, Panel, Picture, Points, Rule, network, span


def lambda_explorer(
    lambdas: Sequence[float],
    train_error: Sequence[float],
    test_error: Sequence[float],
    misfit: Sequence[float],
    divergence: Sequence[float],
    inclusion: np.ndarray,
    edges: Sequence[Iterable[tuple[int, int, int]]],
    layers: Sequence[int],
    relevant: int,
    default: int,
    names: Sequence[str] | None = None,
    static: bool | None = None,
) -> Explorer:
    """One slider over the prior inclusion probability: data fit, price in nats, gates and network move together.

    Args:
        lambdas: the prior inclusion probabilities, at least 12, rising.
        train_error, test_error: root mean square errors, one a lambda.
        misfit, divergence: expected negative log-likelihood and Kullback-Leibler divergence in nats, one a lambda.
        inclusion: largest phi of each input's outgoing weights, shape (lambdas, inputs).
        edges: for each lambda the selected weights as (layer, i, j): from unit i of that layer to unit j of the next.
        layers: number of units in each layer, inputs and outputs included.
        relevant: how many of the first inputs matter.
        default: number of the lambda that is shown first.
        names: how the slider writes the lambdas.
        static: as for `book.display.curves`.
    """
    x = np.log10(np.asarray(lambdas, dtype=float))
    train, test, price, misfit = (np.asarray(one, dtype=float) for one in (train_error, test_error, divergence, misfit))
    inclusion, edges = np.asarray(inclusion, dtype=float), [list(one) for one in edges]
    lengths = {len(one) for one in (x, train, test, price, misfit, inclusion, edges)}
    if len(lengths) > 1:
        raise ValueError(
            f"there are {len(x)} lambdas and sequences of lengths {sorted(lengths)}: give one entry a lambda"
        )
    names = [f"{value:.1e}" for value in lambdas] if names is None else list(names)
    across = {"xlabel": "log₁₀ λ", "xlim": span(x)}
    inputs = np.arange(1, inclusion.shape[1] + 1)

    def compute(k: int) -> Picture:
        here = Rule(x=x[k])
        fit = [
            here,
            Line(x, train, "training", 0),
            Line(x, test, "new data", 1),
            Points([x[k]], [train[k]], look=0, size=10),
            Points([x[k]], [test[k]], look=1, size=10),
        ]
        nats = [
            Band(x, 0, price, "divergence", 2, 0.35),
            Band(x, price, price + misfit, "misfit", 5, 0.35),
            Line(x, price, look=2, dash=0),
            Line(x, price + misfit, look=5, dash=0),
            here,
            Points([x[k]] * 2, [price[k], price[k] + misfit[k]], look="ink", marker=0, size=7),
        ]
        gates = [
            Bars(inputs[:relevant], inclusion[k, :relevant], "relevant", 0),
            Bars(inputs[relevant:], inclusion[k, relevant:], "irrelevant", 1, hollow=True),
            Rule(y=0.5, dash=1),
        ]
        groups = {
            "from relevant inputs": [(layer, i, j) for layer, i, j in edges[k] if layer or i < relevant],
            "from irrelevant inputs": [(layer, i, j) for layer, i, j in edges[k] if not layer and i >= relevant],
        }
        words = ["inputs", *[f"hidden {i + 1}" for i in range(len(layers) - 2)], "output"]
        total = price[k] + misfit[k]
        return Picture(
            [
                Panel("data fit", fit, ylabel="RMSE", ylim=(0, span([0], train, test)[1]), **across),
                Panel("price, stacked", nats, ylabel="nats", ylim=(0, span([0], price + misfit)[1]), **across),
                Panel("gates", gates, "input", "largest φ", (0.2, inputs[-1] + 0.8), (0, 1.05), yticks=(0, 0.5, 1)),
                network("selected network", layers, groups, words),
            ],
            f"RMSE {train[k]:.3g} in training, {test[k]:.3g} on new data\n"
            f"{misfit[k]:.4g} nats misfit + {price[k]:.3g} nats divergence = {total:.4g}",
        )

    def words(k: int) -> str:
        chosen = inputs[inclusion[k] > 0.5].tolist()
        which = f" ({', '.join(map(str, chosen))})" if 0 < len(chosen) <= 8 else ""
        return (
            f"lambda = {names[k]}: root mean square error {train[k]:.2g} in training and {test[k]:.2g} on new data; "
            f"{misfit[k]:.3g} nats of misfit and {price[k]:.3g} of divergence; {len(chosen)} inputs selected{which}, "
            f"{len(edges[k])} weights."
        )

    knob = Control("Prior inclusion λ", range(len(x)), default, format=names.__getitem__)
    return curves(compute, {"k": knob}, title="From an empty network to an overfitted one", alt=words, static=static)

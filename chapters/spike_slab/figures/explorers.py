"""Explorers of variational spike-and-slab networks: one weight, the sweep of lambda, the gradient of a gate."""

import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import torch
from scipy.stats import norm

from bnnlib import functional as bF
from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.picture import Band, Bars, Line, Panel, Picture, Points, Rule, span
from chapters.spike_slab import formulas
from chapters.spike_slab.figures.networks import network

ROWS = 40  # of the lesson's example, with inputs of mean square one and noise of variance one
_WEIGHT = np.linspace(-1.6, 1.6, 161)


def lambda_explorer(
    lambdas: Sequence[float],
    train_error: Sequence[float],
    test_error: Sequence[float],
    misfit: Sequence[float],
    divergence: Sequence[float],
    inclusion: np.ndarray,
    edges: Sequence[Iterable[tuple]],
    layers: Sequence[int],
    relevant: int,
    default: int,
    names: Sequence[str] | None = None,
) -> Explorer:
    """One slider over the prior inclusion probability: data fit, price in nats, gates and network move together.

    Args:
        lambdas: the prior inclusion probabilities, at least 12, rising.
        train_error, test_error: root mean square errors, one a lambda.
        misfit, divergence: expected negative log-likelihood and Kullback-Leibler divergence in nats, one a lambda.
        inclusion: largest phi of each input's outgoing weights, shape (lambdas, inputs).
        edges: for each lambda the selected weights as (layer, i, j, ...): from unit i of that layer to unit j of the
            next, as `selected_edges` finds them.
        layers: number of units in each layer, inputs and outputs included.
        relevant: how many of the first inputs matter.
        default: number of the lambda that is shown first.
        names: how the slider writes the lambdas.
    """
    x = np.arange(len(lambdas))  # at equal distances: most of what happens lies within a few of the powers of ten
    train, test, price, misfit = (np.asarray(one, dtype=float) for one in (train_error, test_error, divergence, misfit))
    inclusion, edges = np.asarray(inclusion, dtype=float), [[edge[:3] for edge in one] for one in edges]
    lengths = {len(one) for one in (x, train, test, price, misfit, inclusion, edges)}
    if len(lengths) > 1:
        raise ValueError(
            f"there are {len(x)} lambdas and sequences of lengths {sorted(lengths)}: give one entry a lambda"
        )
    names = [f"{value:.1e}" for value in lambdas] if names is None else list(names)
    last = len(x) - 1
    told = {place: names[place] for place in (0, default // 2, default, (default + last) // 2, last)}
    across = {"xlabel": "λ", "xlim": span(x), "xticks": told}
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
    return curves(compute, {"k": knob}, title="From an empty network to an overfitted one", alt=words)


def one_weight(estimate: float | np.ndarray, prior_inclusion: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Mean and scale of the slab and phi of a weight of the lesson's example, whose slab has the scale one before.

    Args:
        estimate: the least-squares weight b, any shape.
        prior_inclusion: lambda.
    """
    variance = 1.0 / (ROWS + 1.0)
    mean = variance * ROWS * np.asarray(estimate, dtype=float)
    log_odds = bF.log_odds(prior_inclusion) + mean**2 / (2.0 * variance) + 0.5 * math.log(variance)
    return mean, math.sqrt(variance), torch.sigmoid(torch.as_tensor(log_odds)).numpy()


def weight(estimate: float, prior_inclusion: float) -> Picture:
    """The posterior of one weight, a bar of mass at zero and a slab with the rest, and phi for every estimate.

    Args:
        estimate, prior_inclusion: as of `one_weight`.
    """
    mean, scale, phi = one_weight(estimate, prior_inclusion)
    slab = norm.pdf(_WEIGHT, mean, scale)
    posterior = [
        Bars([0.0], [1.0 - phi], "spike: exactly zero", 1, width=0.09),
        Band(_WEIGHT, 0, phi * slab / slab.max(), "slab", 0, 0.35),
        Line(_WEIGHT, phi * slab / slab.max(), look=0, dash=0),
        Rule(x=estimate, dash=1, width=1),
    ]
    estimates = np.linspace(-1.05, 1.05, 106)
    heads = [
        Rule(y=0.5, dash=1, width=1),
        Line(estimates, one_weight(estimates, prior_inclusion)[2], look="ink"),
        Points([estimate], [phi], look="ink", size=12),
    ]
    halves = {"ylim": (0, 1.05), "yticks": (0, 0.5, 1)}
    return Picture(
        [
            Panel("the weight", posterior, "weight", "probability", (_WEIGHT[0], _WEIGHT[-1]), **halves),
            Panel("probability of heads", heads, "least-squares estimate", "φ", (-1.05, 1.05), **halves),
        ],
        f"φ = {phi:.3f}, mean of the slab {mean:.3f}, scale {scale:.3f}",
    )


def weight_in_words(estimate: float, prior_inclusion: float) -> str:
    """The alternative text of `weight`."""
    mean, scale, phi = one_weight(estimate, prior_inclusion)
    return (
        f"Estimate {estimate:g}, λ = {prior_inclusion:g}: a bar of height {1 - phi:.2f} at zero and a slab of height "
        f"{phi:.2f} around {mean:.2f} with scale {scale:.2f}."
    )


WEIGHT_CONTROLS = {
    "estimate": Control("Least-squares estimate b", [round(0.05 * k, 2) for k in range(-20, 21)], 0.45, format=".2f"),
    "prior_inclusion": Control(
        "Prior probability λ", (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9), 0.1
    ),
}


def weight_explorer() -> Explorer:
    """Knobs for what the data say of a weight and for lambda: when does its coin turn?"""
    return curves(weight, WEIGHT_CONTROLS, title="When is a weight worth keeping?", alt=weight_in_words)


_PHI = np.linspace(0.02, 0.98, 33)


@cache
def gate_gradients(target: float, temperature: float) -> dict[str, np.ndarray]:
    """Expected gradients of (gate - target)^2 in the log-odds of phi, at phi = 0.02, 0.05, ..., 0.98.

    Args:
        target: t.
        temperature: tau of the soft gate.

    Returns:
        {"exact": phi (1 - phi) (1 - 2 t), "straight-through": with the hard gate forward and the soft one backward,
        "soft": with the soft gate in both passes}; the latter two by the trapezoid rule over the noise.
    """
    logit = torch.logit(torch.as_tensor(_PHI))[:, None]
    # eta = logit + noise decides on the gates: a fixed grid of eta, even in the soft gate, and dense at the threshold
    right = torch.cat([temperature * torch.linspace(0.025, 30, 1200), torch.linspace(0.1, 40, 400)]).double().unique()
    eta = torch.cat([-right.flip(0), torch.zeros(1), right])
    hard, soft = formulas.gumbel_softmax_gate(eta, torch.zeros_like(eta), temperature)
    noise = eta - logit
    density = torch.sigmoid(noise) * torch.sigmoid(-noise)
    slope = 2 * soft * (1 - soft) / temperature
    hard[eta == 0] = 0.5  # the mean of both sides, which the trapezoid rule needs at a jump
    means = {
        name: torch.trapezoid((gate - target) * slope * density, eta).numpy()
        for name, gate in (("straight-through", hard), ("soft", soft))
    }
    return {"exact": _PHI * (1 - _PHI) * (1 - 2 * target), **means}


def wrong_signs(exact: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """Intervals of phi, shape (number, 2), in which the estimate points the other way than the exact gradient."""
    wrong = np.r_[False, exact * estimate < 0, False]
    ends = np.flatnonzero(np.diff(wrong.astype(int))).reshape(-1, 2)
    return np.array([(_PHI[first], _PHI[last - 1]) for first, last in ends]).reshape(-1, 2)


def gate_bias(t: float, tau: float) -> Picture:
    """Expected gradients of one gate over phi beside the exact one; shaded where they point the wrong way.

    Args:
        t: target of the loss (gate - t)^2.
        tau: temperature of the soft gate.
    """
    found, panels = gate_gradients(t, tau), []
    exact = found["exact"]
    highest = max(np.abs(values).max() for values in found.values())
    reach = next(step for step in (0.05, 0.1, 0.2, 0.4, 0.8) if step > 1.05 * highest)
    titles = {"straight-through": "straight-through", "soft": "soft in both passes"}
    for look, name in enumerate(titles, 1):
        values = found[name]
        intervals = wrong_signs(exact, values)
        x = np.r_[0, np.repeat(intervals.ravel(), 2), 1]
        high = np.r_[-reach, np.tile([-reach, reach, reach, -reach], len(intervals)), -reach]
        items = [
            Band(x, -reach, high, "wrong sign", look, 0.18),
            Rule(y=0, dash=0, width=1),
            Line(_PHI, exact, "exact", 0),
            Line(_PHI, values, titles[name], look),
        ]
        panels.append(Panel(titles[name], items, "φ", "mean gradient", (0, 1), (-reach, reach)))
    return Picture(panels, _gate_bias_said(t, tau))


def _gate_bias_said(t: float, tau: float) -> str:
    found = gate_gradients(t, tau)
    shares = [100 * np.mean(found["exact"] * found[name] < 0) for name in ("straight-through", "soft")]
    return f"wrong sign for {shares[0]:.0f} % of all φ (straight-through), {shares[1]:.0f} % (soft in both passes)"


def gate_bias_in_words(t: float, tau: float) -> str:
    """The alternative text of `gate_bias`."""
    return f"Target {t:g}, temperature {tau:g}: {_gate_bias_said(t, tau)}."


GATE_BIAS_CONTROLS = {
    "t": Control("Target t", [round(0.05 * k, 2) for k in range(21)], 0.45, format=".2f"),
    "tau": Control("Temperature τ", (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0), 0.5),
}


def gate_bias_explorer() -> Explorer:
    """Knobs for the target and the temperature: where biased gradients of a gate point the wrong way."""
    title = "Where does the gradient of a gate point?"
    return curves(gate_bias, GATE_BIAS_CONTROLS, title=title, alt=gate_bias_in_words)

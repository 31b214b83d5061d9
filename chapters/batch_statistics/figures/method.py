"""Pictures of the chapter on Stochastic Batch Normalization: the statistics, the bound, the virtual batch.

The explorer is in `explorers`, the pictures of results in `results`.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from scipy.stats import norm
from torch import Tensor, nn

from book.display.panels import legend_below, log_axis, missing
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context

REAL, FITTED = PALETTE[0], PALETTE[1]
AVERAGED, BOUND, PLUG_IN = PALETTE[0], PALETTE[1], PALETTE[2]
_NAMES = {"averaged": "average", "bound": "bound", "plug-in": "plug-in, E μ"}


def tables(model: nn.Module, found: Mapping[str, tuple[Tensor, Tensor]], features: int = 1) -> dict[str, np.ndarray]:
    """Statistics of real batches beneath the fitted moments of their layers, in the form that experiments store.

    Args:
        model: with stochastic batch norm whose moments are fitted.
        found: from `collect_statistics`, of fresh batches.
        features: of each layer to take, at most; features that never change are passed over.

    Returns:
        {layer: array (2 + batches, features, 2)}: row 0 holds m_mu and m_sigma, row 1 s_mu and s_sigma, every further
        row the mu and log sigma of a batch.
    """
    result = {}
    for name, (means, log_scales) in found.items():
        moments = model.get_submodule(name).moments()
        alive = ((moments.mean_spread > 0) & (moments.log_scale_spread > 0)).nonzero().flatten()[:features]
        fitted = [torch.stack(pair, -1)[None, alive] for pair in (moments[0::2], moments[1::2])]
        real = torch.stack([means[:, alive], log_scales[:, alive]], -1)
        result[name] = torch.cat([*fitted, real]).double().cpu().numpy()
    return result


def _marginal(panel: Axes, values: np.ndarray, density: np.ndarray, grid: np.ndarray) -> None:
    panel.hist(values, bins=30, density=True, color=REAL, alpha=0.35, label="batches")
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.plot(grid, density, color=FITTED, ls="-", marker="none", label="fitted r")


def statistics(arrays: Mapping[str, np.ndarray]) -> Figure:
    """Histograms of the statistics of real batches and the fitted r(mu), r(sigma), equation (sbn-factorized).

    Args:
        arrays: {layer: array (2 + batches, features, 2)} from `tables`; shown is their first feature.
    """
    known = list(arrays)
    names = [known[k] for k in dict.fromkeys((0, len(known) // 2, len(known) - 1))] if known else ["layer"]
    with style_context():
        fig, axes = figure(2, nrows=len(names), height=2.2, squeeze=False)
        for (left, right), name in zip(axes, names, strict=True):
            left.set_title(f"mean μ, {name}")
            right.set_title(f"scale σ, {name}")
            for panel in (left, right):
                panel.set_yticks([])
            if name not in arrays:
                missing(left)
                missing(right)
                continue
            table = np.asarray(arrays[name], dtype=float)[:, 0]
            (m_mu, m_sigma), (s_mu, s_sigma), batches = table[0], table[1], table[2:]
            steps = np.linspace(-4, 4, 201)
            grid = m_mu + s_mu * steps
            _marginal(left, batches[:, 0], norm.pdf(grid, m_mu, s_mu), grid)
            grid = np.exp(m_sigma + s_sigma * steps)
            _marginal(right, np.exp(batches[:, 1]), norm.pdf(np.log(grid), m_sigma, s_sigma) / grid, grid)
        axes[0, 0].set_ylabel("density")
        legend_below(fig, axes[0, 0], ncols=2)
        panel_letters(axes)
    return fig


def probability(mu: np.ndarray, x: float) -> np.ndarray:
    """p(y | x, mu) of the illustration: a logistic unit that reads x - mu."""
    return 1 / (1 + np.exp(-(x - mu)))


def three_values(x: float, mean: float, spread: float) -> dict[str, float]:
    """Average, bound and plug-in of the illustration under mu ~ N(mean, spread^2), all as probabilities.

    Args:
        x: object.
        mean, spread: m_mu and s_mu, spread >= 0.

    Returns:
        {"averaged": E p, equation (sbn-predictive), "bound": exp E log p, (sbn-bound), "plug-in": p at E mu,
        (sbn-biased)}.
    """
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    p = probability(mean + spread * node, x)
    weight = weight / weight.sum()
    return {
        "averaged": float(weight @ p),
        "bound": float(np.exp(weight @ np.log(p))),
        "plug-in": float(probability(np.array(mean), x)),
    }


def _looks() -> dict[str, dict]:
    return {name: look | {"label": _NAMES[name]} for name, look in line_styles(list(_NAMES)).items()}


def bound(
    log_probabilities: Tensor | None = None, plug_in: Tensor | None = None, x: float = 1.0, spread: float = 2.0
) -> Figure:
    """What batch norm computes in training and at test time, beside the average over batches that the model asks for.

    Panel a shows one object, p(y | x, mu) over mu with the density r(mu). Panel b shows the three values as the spread
    grows or, if measured ones are given, the negative log-probability of each object's right label over that of the
    average: the bound's is never below 1, equation (sbn-bound), the plug-in's lies on either side. Objects that are
    certain to 1e-6 nats are left out.

    Args:
        log_probabilities: log p(right label) under K batches, shape (K, n).
        plug_in: the same with the running statistics, shape (n,).
        x: object of the illustration.
        spread: s_mu of the illustration, whose m_mu is 0.

    Raises:
        ValueError: only one of the measured arguments is given, or their shapes do not fit.
    """
    if (log_probabilities is None) != (plug_in is None):
        raise ValueError("log_probabilities and plug_in belong together: give both or neither.")
    if plug_in is not None and (log_probabilities.dim() != 2 or log_probabilities.shape[1:] != plug_in.shape):
        raise ValueError(
            f"log_probabilities have shape {tuple(log_probabilities.shape)} and plug_in {tuple(plug_in.shape)}, but "
            "they must be (K, n) and (n,)."
        )
    looks, values = _looks(), three_values(x, 0.0, spread)
    with style_context():
        fig, (left, right) = figure(2, height=3.8)
        mu = np.linspace(-3 * spread, 3 * spread, 301)
        density = norm.pdf(mu, 0.0, spread)
        left.fill_between(mu, 0.35 * density / density.max(), color=INK, alpha=0.15, lw=0)
        left.text(-1.55 * spread, 0.14, "r(μ)", ha="right")
        left.plot(mu, probability(mu, x), color=INK, ls="-", marker="none")
        left.text(1.3 * spread, 0.26, "p(y | x, μ)")
        for name, value in values.items():
            left.plot(mu[[0, -1]], [value, value], **looks[name] | {"marker": "none"})
        left.set(xlabel="statistic μ of the batch", ylabel="probability of y", ylim=(0, 1.02), xlim=mu[[0, -1]])
        left.set_title("one object")
        if plug_in is None:
            spreads = np.linspace(0, 1.5 * spread, 31)
            curves = [three_values(x, 0.0, one) for one in spreads]
            for name, look in looks.items():
                right.plot(spreads, [one[name] for one in curves], **look | {"markevery": 6})
            right.set(xlabel="spread s of μ", title="as the spread grows", ylim=(0, 1.02))
        else:
            _measured(right, log_probabilities.double(), plug_in.double(), looks)
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        for handle, look in zip(fig.legends[0].get_lines(), looks.values(), strict=True):
            handle.set_marker(look["marker"])
        panel_letters([left, right])
    return fig


def _measured(panel: Axes, log_probabilities: Tensor, plug_in: Tensor, looks: Mapping[str, dict]) -> None:
    average = -(torch.logsumexp(log_probabilities, 0) - math.log(len(log_probabilities)))
    sure = average < 1e-6  # nats; below, digits are lost and nothing is decided
    panel.axhline(1, **looks["averaged"] | {"marker": "none"})
    for name, value in (("bound", -log_probabilities.mean(0)), ("plug-in", -plug_in)):
        points = {"linestyle": "none", "ms": 4, "alpha": 0.7}
        panel.plot(average[~sure], (value / average)[~sure], **looks[name] | points)
    panel.set(xscale="log", xlabel="− log p, average (nats)", title="− log p over the average's")
    log_axis(panel)
    panel.xaxis.set_minor_formatter(NullFormatter())

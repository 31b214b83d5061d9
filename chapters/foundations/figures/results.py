"""Pictures of stored results: inclusion probabilities beside the exact ones, and what sparsity buys."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from book import lab
from book.display.panels import missing
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context
from book.lab.queries import Rows, replicates, series
from chapters.foundations.experiments.inclusion import DESIGNS as ORDER
from chapters.foundations.experiments.sparsity import SHARES

DESIGNS = {"orthogonal": "orthogonal", "rho=0.9": "correlated"}
METHODS = {
    "Mean field": "mean field",
    "SVBNN": "relaxed gate",
    "sBNN": "closed form",
    "SGHMC-SA": "learned prior",
}


def stored_probabilities() -> Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
    """{(design, method): (exact, said)} of all inputs of all problems of the experiment fnd-inclusion."""
    scores = {
        method: values.reshape(len(ORDER), -1)  # designs vary slowest
        for (_, method, _, name), values in lab.stored_arrays("fnd-inclusion").items()
        if name == "scores"
    }
    exact = scores.pop("Enumeration", None)
    if exact is None:
        return {}
    return {
        (design, method): (exact[k], values[k]) for method, values in scores.items() for k, design in enumerate(ORDER)
    }


def inclusion(found: Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]] | None = None) -> Figure:
    """What the methods say over what is exact, one point an input: a row for each method, a column for each design.

    Args:
        found: by default `stored_probabilities`.
    """
    found = stored_probabilities() if found is None else found
    with style_context():
        fig, axes = figure(2, nrows=len(METHODS), height=2.2, sharex=True, sharey=True)
        for row, (method, words) in zip(axes, METHODS.items(), strict=True):
            for panel, (design, title) in zip(row, DESIGNS.items(), strict=True):
                panel.set(xlim=(-0.03, 1.03), ylim=(-0.05, 1.05), title=f"{words}, {title}")
                if (design, method) not in found:
                    missing(panel)
                    continue
                exact, said = found[design, method]
                panel.plot([0, 1], [0, 1], color=INK, lw=1, ls="--", marker="none")
                panel.plot(exact, said, "o", ms=4, alpha=0.45, color=PALETTE[0])
            row[0].set_ylabel("φ as said")
        for panel in axes[-1]:
            panel.set_xlabel("exact φ")
        panel_letters(axes)
    return fig


FORMS = {
    "weights, zeros in place": ("Weights", "bytes_ratio_zeros"),
    "weights, CSR": ("Weights", "bytes_ratio_csr"),
    "units": ("Units", "bytes_ratio"),
    "inputs": ("Inputs", "bytes_ratio"),
}


def sparsity(rows: Rows) -> Figure:
    """What a share of removed weights, units or inputs buys in bytes, and what it costs in accuracy.

    Args:
        rows: from `book.lab.compare("fnd-sparsity")`.
    """
    settings = {float(share): f"{share} % removed" for share in SHARES}
    with style_context():
        fig, (left, right) = figure(2, height=3.3)
        looks = line_styles(list(FORMS))
        known = False
        for name, (method, metric) in FORMS.items():
            place, ours, _, _ = series(rows, settings, method, metric).T
            known |= bool(np.isfinite(ours).any())
            left.plot(place, ours, **looks[name])
            if metric != "bytes_ratio_csr":  # one line of accuracy a kind
                found = [lab.estimate(replicates(rows, one, method, "accuracy")) for one in settings.values()]
                halves = [lab.half(error, n) for _, error, n in found]
                right.errorbar(place, [one[0] for one in found], halves, **looks[name] | {"label": "_"}, capsize=3)
        whole = lab.stored_mean(rows, "0 % removed", "Nothing", "accuracy")
        if known:
            left.set(xlabel="removed (%)", ylabel="file, times smaller", yscale="log")
            right.axhline(whole, color=INK, lw=1, ls=":", label="whole network")
            right.set(xlabel="removed (%)", ylabel="accuracy (%)")
            right.legend(fontsize="small", loc="lower left")
            fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
        else:
            missing(left)
            missing(right)
        panel_letters((left, right))
    return fig

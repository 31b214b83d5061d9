"""Numbers from the store that the chapter on stochastic batch norm says in its text, and what it claims of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows
from chapters.batch_statistics.figures.results import CONTROL, PLACES

NETWORKS = {"lenet": "LeNet-5", "vgg": "VGG-11", "resnet": "ResNet-18"}
CONTROLLED = ("lenet", "resnet")  # where the control was run
IMAGES = 10_000  # test images of MNIST


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key; warns where what is stored no longer says what the text says.

    Args:
        rows: {name: what `lab.compare("sbn-name")` returns}, for both experiments of the chapter.
    """
    _claims()
    return _widths(rows) | _gains() | _controls() | _noise() | _means()


def spread(values: np.ndarray, form: str = "{:.2f}") -> str:
    """ "mean ± standard error" of replicates."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{form.format(values.mean())} ± {form.format(error).lstrip('+')}"


def _values(place: str, method: str, metric: str) -> np.ndarray:
    """Our values over networks; empty while nothing beyond the smoke profile is stored."""
    return lab.stored_values(PLACES[NETWORKS[place]], NETWORKS[place], method, metric)


def _difference(place: str, method: str, other: str, metric: str) -> str:
    """Mean ± standard error over the networks that both methods have."""
    digits = 4 if metric == "nll" else 2
    return lab.difference(PLACES[NETWORKS[place]], NETWORKS[place], method, other, metric, digits)


def _widths(rows: Mapping[str, Rows]) -> dict[str, str]:
    profile = rows["cifar5"][0]["profile"] or "book"
    cells = lab.get("sbn-cifar5").profiles[profile]()
    widths = {cell.setting: cell.params["width"] for cell in cells if cell.method == "BN"}
    return {f"{place}-width": f"{100 * widths[NETWORKS[place]]:.3g}" for place in ("vgg", "resnet")}


def _gains() -> dict[str, str]:
    """What random statistics change, for how many networks the AUROC rises, and the few images of LeNet-5."""
    texts = {}
    for place in NETWORKS:
        for metric in ("nll", "auroc"):
            texts[f"gain-{place}-{metric}"] = _difference(place, "SBN", "BN", metric)
        values = _values(place, "SBN", "auroc_gain")
        texts[f"wins-{place}"] = lab.number(f"{sum(values > 0)} of {len(values)}" if len(values) else None)
    images = np.abs(np.round(_values("lenet", "SBN", "error_gain") * IMAGES / 100)).astype(int)
    texts["lenet-images"] = lab.number(f"{images.min()} to {images.max()}" if len(images) else None)
    return texts


def _controls() -> dict[str, str]:
    """From the running averages to those that are matched, and from there to draws: the same networks for all three."""
    texts = {}
    for place in CONTROLLED:
        texts[f"control-{place}-number"] = lab.number(len(_values(place, CONTROL, "auroc")) or None)
        for metric in ("auroc",) if place == "lenet" else ("auroc", "error_test"):
            name = f"control-{place}-{metric.removesuffix('_test')}"
            texts |= {f"{name}-averages": _difference(place, CONTROL, "BN", metric)}
            texts |= {f"{name}-noise": _difference(place, "SBN", CONTROL, metric)}
    return texts


def _noise() -> dict[str, str]:
    return {}


def _means() -> dict[str, str]:
    texts = {}
    kinds = [(place, method, "auroc") for place in ("lenet", "vgg") for method in ("BN", "SBN")]
    for place, method, metric in [*kinds, ("lenet", "BN", "auroc_scaled"), ("vgg", "BN", "auroc_scaled")]:
        key = f"{metric.replace('_scaled', 't')}-{place}-{method.lower()}"
        texts[key] = lab.number(_mean(place, method, metric), "{:.2f}", len(_values(place, method, metric)))
    for metric in ("ks_mean", "ks_scale"):
        texts[metric.replace("_", "-")] = lab.number(_mean("lenet", "SBN", metric), "{:.3f}")
    return texts


def _mean(place: str, method: str, metric: str) -> float | None:
    values = _values(place, method, metric)
    return values.mean() if len(values) else None


def _claims() -> None:
    """What the text says of stored results: a run that disagrees is reported, and the page is built."""

    def claim(holds: bool, words: str) -> None:
        if not holds:
            warnings.warn(f"the stored results no longer say: {words}", stacklevel=4)

    def clear(values: np.ndarray) -> bool:
        return abs(values.mean()) > 2 * values.std(ddof=1) / len(values) ** 0.5

    for other, moves in (("BN", True), ("SBN", False)):
        gap = lab.paired_difference(PLACES[NETWORKS["lenet"]], NETWORKS["lenet"], CONTROL, other, "auroc")
        claim(gap[2] < 3 or lab.beyond(*gap) == moves, "on LeNet-5 fresh averages give the gain, and draws nothing")
    for place in NETWORKS:
        gain, nll = (_values(place, "SBN", f"{metric}_gain") for metric in ("auroc", "nll"))
        if len(gain) > 1:
            claim(clear(gain) == (place != "resnet"), f"AUROC, {place}: a gain, ResNet-18: within the error")
            claim(0 < gain.mean() < 1, f"AUROC, {place}: less than a point")
            claim(clear(nll) and nll.mean() < 0, f"NLL, {place}: it falls")
        plain, ensemble = _mean(place, "BN", "auroc"), _mean(place, "DE", "auroc")
        if ensemble is not None:
            claim(ensemble - plain > gain.mean(), f"AUROC, {place}: an ensemble gains more")
    fit = _mean("lenet", "SBN", "ks_mean")
    claim(fit is None or fit < 0.05, "the normal fit of μ is within chance")
    noisy, scaled = _values("vgg", "SBN", "auroc"), _values("vgg", "BN", "auroc_scaled")
    paired = len(noisy) == len(scaled) > 1
    claim(not paired or clear(noisy - scaled), "VGG-11: SBN does what a temperature does not")

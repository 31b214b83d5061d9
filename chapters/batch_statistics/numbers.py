"""Numbers from the store that the chapter on stochastic batch norm says in its text, and what it claims of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows

PLACES = {"lenet": ("sbn-mnist", "LeNet-5"), "vgg": ("sbn-cifar5", "VGG-11"), "resnet": ("sbn-cifar5", "ResNet-18")}


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key; warns where what is stored no longer says what the text says.

    Args:
        rows: {name: what `lab.compare("sbn-name")` returns}, for both experiments of the chapter.
    """
    _claims()
    runs = {f"run-{name}-{key}": text for name in rows for key, text in lab.run_in_words(f"sbn-{name}").items()}
    return runs | _settings(rows) | _gains() | _means() | _control()


def _values(place: str, method: str, metric: str) -> np.ndarray:
    """Our values over networks; empty while nothing beyond the smoke profile is stored."""
    return lab.stored_values(*PLACES[place], method, metric)


def _mean(place: str, method: str, metric: str) -> float | None:
    values = _values(place, method, metric)
    return values.mean() if len(values) else None


def _settings(rows: Mapping[str, Rows]) -> dict[str, str]:
    texts = {}
    for place, (name, setting) in PLACES.items():
        cells = lab.get(name).profiles[rows[name.removeprefix("sbn-")][0]["profile"] or "book"]()
        params = next(cell.params for cell in cells if cell.setting == setting)
        for key, field in (("batch", "batch_size"), ("width", "width"), ("epochs", "epochs")):
            if field in params:
                texts[f"{place}-{key}"] = f"{params[field]:g}"
    return texts


def _gains() -> dict[str, str]:
    """Mean and standard error over networks of what random statistics change, and for how many the AUROC rises."""
    texts = {}
    for place in PLACES:
        for metric in ("error", "nll", "entropy", "auroc"):
            values = _values(place, "SBN", f"{metric}_gain")
            text = None
            if len(values) > 1:
                mean, error = values.mean(), values.std(ddof=1) / len(values) ** 0.5
                text = f"{mean:+.4f} ± {error:.4f}" if metric == "nll" else f"{mean:+.3f} ± {error:.3f}"
            texts[f"gain-{place}-{metric}"] = lab.number(text)
        higher = f"{sum(values > 0)} of {len(values)}" if len(values) else None
        texts[f"wins-{place}"] = lab.number(higher)
    for place in ("lenet", "vgg"):
        texts[f"gain-{place}-do"] = lab.number(_mean(place, "DO+SBN", "auroc_gain"), "{:.2f}")
    return texts


def _means() -> dict[str, str]:
    texts = {}
    for place in PLACES:
        dropout = () if place == "resnet" else ("DO", "DO+SBN")
        for method in ("BN", "SBN", "DE", "DE+SBN", *dropout):
            key = f"{place}-{method.lower().replace('+', '')}"
            texts[f"auroc-{key}"] = lab.number(_mean(place, method, "auroc"), "{:.2f}")
    for place, method in (("lenet", "BN"), ("lenet", "SBN"), ("vgg", "BN")):
        scaled = _mean(place, method, "auroc_scaled")
        texts[f"auroct-{place}-{method.lower()}"] = lab.number(scaled, "{:.2f}")
    for key, method, metric in (("nll-bn", "BN", "nll"), ("nll-sbn", "SBN", "nll"), ("nllt-bn", "BN", "nll_scaled")):
        texts[key] = lab.number(_mean("lenet", method, metric), "{:.4f}")
    for metric in ("ks_mean", "ks_scale", "correlation"):
        texts[metric.replace("_", "-")] = lab.number(_mean("lenet", "SBN", metric), "{:.3f}")
    return texts


def _control() -> dict[str, str]:
    """ResNet-18 with the old averages, with those that are matched, and with noise: the same networks for all three."""
    methods = ("BN", "BN, matched", "SBN")
    number = len(_values("resnet", "BN, matched", "error_test"))
    texts = {"control-number": lab.number(number or None)}
    for name, metric in (("error", "error_test"), ("auroc", "auroc")):
        means = [_values("resnet", method, metric)[:number].mean() if number else None for method in methods]
        changes = (means[1] - means[0], means[2] - means[1]) if number else (None, None)
        for key, change in zip(("averages", "noise"), changes, strict=True):
            texts[f"control-{name}-{key}"] = lab.number(change, "{:+.2f}")
        for method, mean in zip(methods, means, strict=True):
            texts[f"control-{name}-{method.lower().replace(', ', '-')}"] = lab.number(mean, "{:.2f}")
    return texts


def _claims() -> None:
    """What the text says of stored results: a run that disagrees is reported, and the page is built."""

    def claim(holds: bool, words: str) -> None:
        if not holds:
            warnings.warn(f"the stored results no longer say: {words}", stacklevel=4)

    for place in PLACES:
        gain, added = (_values(place, method, "auroc_gain") for method in ("SBN", "DE+SBN"))
        if len(gain) > 1:
            clear = gain.mean() > 2 * gain.std(ddof=1) / len(gain) ** 0.5
            claim(clear == (place != "resnet"), f"AUROC, {place}: a gain, ResNet-18: unclear")
        alone = not len(added) or (added.mean() > 0) == (place == "vgg")
        claim(alone, f"AUROC, {place}: ensembles gain on VGG-11 only")
        kinds = [("BN", "auroc"), ("SBN", "auroc"), ("DE", "auroc"), ("BN", "auroc_scaled"), ("SBN", "auroc_scaled")]
        means = [_mean(place, *kind) for kind in kinds]
        if None not in means:
            plain, noisy, ensemble, scaled, both = (round(mean, 2) for mean in means)
            claim(plain < noisy < ensemble and plain < scaled < both, f"{place}: all of them raise the AUROC")
            near = abs(scaled - noisy) < 0.1 if place == "lenet" else scaled < noisy
            claim(near, f"{place}: a temperature does as much on MNIST, less on CIFAR-10")
    for place, limit in (("lenet", 0), ("resnet", -0.2)):
        error = _mean(place, "SBN", "error_gain")
        claim(error is None or error < limit, f"the error falls, {place}")
    fit, nll = _mean("lenet", "SBN", "ks_mean"), _mean("lenet", "SBN", "nll")
    claim(fit is None or fit < 0.05, "the normal fit of μ is within chance")
    claim(nll is None or nll < 0.025, "our NLL on MNIST is below the published")

"""Numbers from the store that the chapter on stochastic batch norm says in its text, and what it claims of them."""

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise, product

import numpy as np
import torch

from book import lab
from book.lab.queries import Rows
from chapters.batch_statistics.experiments.cifar5 import DRAWN
from chapters.batch_statistics.experiments.images import _distance
from chapters.batch_statistics.experiments.real_noise import HEATS, REAL
from chapters.batch_statistics.experiments.whole_batches import EPOCHS, STORED, WHOLE
from chapters.batch_statistics.figures.results import CONTROL, PLACES
from chapters.shared.said import Gap, average, less

NETWORKS = {"lenet": "LeNet-5", "vgg": "VGG-11", "resnet": "ResNet-18"}
DEEP = ("vgg", "resnet")
RUNGS = {"sbn": "SBN"} | {name.split()[1]: name for name in STORED}  # of the ladder to whole batches
AGAIN = ("sbn-noise", "LeNet-5")  # networks of one epoch that were trained again
AGAIN_FIVE = ("sbn-noise-five", "LeNet-5, 5 epochs")
LAWS = {"mu": "mean", "sigma": "scale"}
KINDS = ("known", "unknown")
BOUND = 0.05  # of a fit that is called accurate, declared in `real_noise`
SIZES = (16, 32, 128)  # of the mini-batches whose time is told
SETTINGS = NETWORKS | {"drawn": DRAWN}  # VGG-11 with other known classes


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key; warns where what is stored no longer says what the text says.

    Args:
        rows: as every chapter gives them; most texts are of paired networks, which the store has and rows have not.
    """
    _claims()
    return _published(rows["mnist"]) | _gains() | _controls() | _temperatures() | _whole() | _noise()


def spread(values: np.ndarray, form: str = "{:.2f}") -> str:
    """ "mean ± standard error" of replicates."""
    mean, error, _ = lab.estimate(values)
    return f"{form.format(mean).replace('-', '−')} ± {form.format(error).lstrip('+')}"


def _where(place: str) -> tuple[str, str]:
    """(experiment, setting) of a place."""
    return PLACES.get(SETTINGS[place], "sbn-cifar5"), SETTINGS[place]


def _values(place: str, method: str, metric: str) -> np.ndarray:
    """Our values over networks; empty while nothing beyond the smoke profile is stored."""
    return lab.stored_values(*_where(place), method, metric)


def _digits(metric: str) -> int:
    return 4 if metric.startswith("nll") else 2


def _difference(place: str, method: str, other: str, metric: str) -> str:
    """Mean ± standard error over the networks that both methods have."""
    return lab.difference(*_where(place), method, other, metric, _digits(metric))


def _across(place: str, method: str, metric: str, other: str, other_metric: str) -> Gap:
    """(mean, standard error, networks) of one metric less another one, of methods on the same networks."""
    return _apart(_where(place), method, metric, other, other_metric)


def _published(rows: Rows) -> dict[str, str]:
    """The largest differences between the published table and ours of as many epochs."""
    texts, verdicts = {}, []
    for metric, form in (("error_test", "{:.2f}"), ("nll", "{:.4f}")):
        pairs = [row for row in rows if row["metric"] == metric and row["published"] is not None]
        known = pairs and all(row["mean"] is not None and row["budget"] == row["published_budget"] for row in pairs)
        gaps = [abs(row["mean"] - row["published"]) for row in pairs] if known else [None]
        texts[f"table-{metric.removesuffix('_test')}"] = lab.number(max(gaps), form)
        verdicts += [row["verdict"] == "agrees" for row in pairs if known]
    texts["table-agrees"] = lab.number(f"{sum(verdicts)} of {len(verdicts)}" if verdicts else None)
    return texts


def _gains() -> dict[str, str]:
    """What random statistics change."""
    texts = {}
    for place in SETTINGS:
        for metric in ("nll", "auroc"):
            texts[f"gain-{place}-{metric}"] = _difference(place, "SBN", "BN", metric)
    pair = [_values("lenet", method, "auroc") for method in ("SBN", "BN")]
    rises = np.greater(*pair) if len(pair[0]) == len(pair[1]) else []
    up = f"{sum(rises)} of {len(rises)}" if len(rises) else None
    return texts | {"gain-lenet-up": lab.number(up, of=pair), "gain-short-auroc": lab.gap(*_short("auroc"), 2)}


def _short(metric: str) -> Gap:
    """SBN less BN on the networks of LeNet-5 with 5 epochs: (mean, standard error, networks)."""
    return less(*(lab.stored_values("sbn-mnist", "LeNet-5", method, metric, "book") for method in ("SBN", "BN")))


def _controls() -> dict[str, str]:
    """From the running averages to those that are matched, and from there to draws: the same networks for all three."""
    texts = {}
    for place in NETWORKS:
        for metric in ("auroc", "error_test", "nll"):
            name = f"control-{place}-{metric.removesuffix('_test')}"
            texts |= {f"{name}-averages": _difference(place, CONTROL, "BN", metric)}
            texts |= {f"{name}-noise": _difference(place, "SBN", CONTROL, metric)}
    for place in NETWORKS:
        for what in ("margin", "spread"):
            for kind in KINDS:
                values = _values(place, CONTROL, f"{what}_{kind}")
                texts[f"{what}-{place}-{kind}"] = average(values, "{:.1f}" if what == "margin" else "{:.2f}")
    return texts


def _temperatures() -> dict[str, str]:
    """SBN less the plain network at its temperature, and what draws add when all have temperatures."""
    texts = {}
    for place in SETTINGS:
        texts[f"temperature-{place}-auroc"] = lab.gap(*_across(place, "SBN", "auroc", "BN", "auroc_scaled"), 2)
        for metric in ("auroc", "nll"):
            texts[f"both-{place}-{metric}"] = _difference(place, "SBN", "BN", f"{metric}_scaled")
        texts[f"temperature-{place}-nll"] = lab.gap(*_across(place, "SBN", "nll", "BN", "nll_scaled"), 4)
    for place in NETWORKS:
        texts[f"averages-{place}-nll"] = lab.gap(*_across(place, "SBN", "nll", CONTROL, "nll_scaled"), 4)
        texts[f"scaled-{place}-nll"] = _difference(place, "SBN", CONTROL, "nll_scaled")
    return texts | {"short-both-auroc": lab.gap(*_short("auroc_scaled"), 2)}


def _whole() -> dict[str, str]:
    """Whole batches of training data beside a virtual batch: how much slower, and how different."""
    found = {size: lab.stored_values("sbn-speed", f"K=50, {size} rows", "SBN", "speedup") for size in SIZES}
    texts = {f"speed-{size}": lab.mean(values, "{:.1f}") for size, values in found.items()}
    known = all(map(len, found.values()))
    by_rows = [values.mean() / size for size, values in found.items()] if known else [None]
    texts |= {f"speed-{name}": lab.number(pick(by_rows), "{:.1f}") for name, pick in (("least", min), ("most", max))}
    for setting, epochs in EPOCHS.items():
        for key, method in ({"bn": "BN"} | RUNGS).items():
            for metric, digits in (("nll", 4), ("entropy_unknown", 3), ("auroc", 2)):
                place = f"whole-{epochs}-{key}-{metric.partition('_')[0]}"
                texts[place] = lab.difference("sbn-batches", setting, method, WHOLE, metric, digits)
            away = lab.stored_values("sbn-batches", setting, method, "tv_whole")
            texts[f"whole-{epochs}-{key}-tv"] = average(away, "{:.1f}")
        texts[f"whole-{epochs}-real"] = lab.difference("sbn-batches", setting, REAL, "SBN", "auroc")
    return texts


def _noise() -> dict[str, str]:
    """Networks of LeNet-5 trained again: temperatures on both sides, spreads, draws and fits."""
    texts = {}
    shown = {"auroc": "auroc", "both": "auroc_scaled"} | {f"T{heat:.0f}": f"auroc_T{heat:.0f}" for heat in HEATS}
    for key, place in (("again", AGAIN), ("five", AGAIN_FIVE)):
        texts |= {f"{key}-{name}": lab.difference(*place, REAL, "BN", metric) for name, metric in shown.items()}
        # BN with a temperature, mini-batches without
        texts[f"{key}-alone"] = lab.gap(*_apart(place, REAL, "auroc", "BN", "auroc_T4"), 2)
    texts["again-plug"] = lab.difference(*AGAIN, REAL, CONTROL, "auroc")
    texts["again-beyond"] = lab.difference(*AGAIN, REAL, "SBN", "auroc_scaled")  # draws of r
    texts["again-beyond-T4"] = lab.difference(*AGAIN, REAL, "SBN", "auroc_T4")
    for short, method in (("sbn", "SBN"), ("real", REAL)):
        for what, kind in product(("margin", "spread"), KINDS):
            values = lab.stored_values(*AGAIN, method, f"{what}_{kind}")
            texts[f"again-{short}-{what}-{kind}"] = average(values, "{:.1f}" if what == "margin" else "{:.2f}")
    texts["again-draws-auroc"] = lab.difference(*AGAIN, "SBN", CONTROL, "auroc")
    sizes = _fit_sizes()
    texts |= {"again-batches": f"{sizes[1]:,}", "again-perfect": f"{perfect_tail(*sizes):.3f}"}
    return texts | {f"again-{short}": lab.number(_worst(what), "{:.3f}") for short, what in LAWS.items()}


def _apart(where: tuple[str, str], method: str, metric: str, other: str, other_metric: str) -> Gap:
    """As `_across`, of an experiment and its setting."""
    return less(lab.stored_values(*where, method, metric), lab.stored_values(*where, other, other_metric))


def _worst(what: str) -> float | None:
    """The layer with the largest distance that nine tenths of its units stay below, in the mean over networks."""
    found = [lab.stored_values(*AGAIN, "SBN", f"ks_{what}_{layer}") for layer in (1, 2, 3)]
    return max(one.mean() for one in found) if all(map(len, found)) else None


def _fit_sizes() -> tuple[int, int]:
    """Mini-batches of the moments, and those to which the fit is compared, of the networks that were trained again."""
    params = lab.get(AGAIN[0]).profiles["book"]()[0].params
    return params["fit_batches"], params["shown_batches"]


@cache
def perfect_tail(fit: int, fresh: int, units: int = 1_000) -> float:
    """By simulation, the distance that nine tenths of units stay below whose law is exactly the one that is fitted.

    Args:
        fit: mini-batches whose moments are matched.
        fresh: mini-batches to which the law is compared.
        units: how many are simulated.
    """
    random = torch.Generator().manual_seed(0)
    seen, new = (torch.randn(size, units, generator=random, dtype=torch.float64) for size in (fit, fresh))
    return float(_distance((new - seen.mean(0)) / seen.std(0, correction=0)).quantile(0.9))


def _claims() -> None:
    """What the text says of stored results: a run that disagrees is reported, and the page is built."""

    def claim(holds: bool, words: str) -> None:
        if not holds:
            warnings.warn(f"the stored results no longer say: {words}", stacklevel=4)

    def says(gap: Gap, sign: int, words: str) -> None:
        """A decided sign, or 0 for none."""
        claim(lab.shows(gap, sign), words)

    def paired(place: str, method: str, other: str, metric: str) -> Gap:
        return lab.paired_difference(*_where(place), method, other, metric)

    for place in NETWORKS:
        gain, runs = paired(place, "SBN", "BN", "auroc"), _values(place, "SBN", "auroc") - _values(place, "BN", "auroc")
        says(gain, 0, f"AUROC, {place}: no gain is decided")
        above = (runs > 0).all() if place in DEEP else (runs > 0).sum() < 3
        claim(above and not gain[0] >= 1, f"AUROC, {place}: above zero in every run of CIFAR-10, less than a point")
        says(paired(place, "SBN", "BN", "nll"), -1, f"NLL, {place}: it falls")
        noise = paired(place, "SBN", CONTROL, "auroc")
        claim(not abs(noise[0]) >= 0.1, f"AUROC, {place}: draws add less than a tenth of a point")
        says(noise, int(place == "resnet"), f"AUROC, {place}: what draws add is decided on ResNet-18 alone")
        warmer = _across(place, "SBN", "auroc", "BN", "auroc_scaled")
        says(warmer, 0 if place in DEEP else -1, f"AUROC, {place}: a temperature gives as much, on LeNet-5 more")
        both = _across(place, CONTROL, "nll_scaled", "SBN", "nll")
        says(both, -1, f"{place}: fresh averages and a temperature lower the NLL more")
        both = _across(place, CONTROL, "auroc_scaled", "SBN", "auroc")
        says(both, int(place != "vgg"), f"{place}: and give more AUROC, undecided on VGG-11")
        says(paired(place, "SBN", CONTROL, "ece"), -1, f"ECE, {place}: draws lower it")
        says(_across(place, "SBN", "ece", "BN", "ece_scaled"), 1, f"ECE, {place}: a temperature lowers it more")
        margin, away = (
            _values(place, CONTROL, f"{what}_unknown") / _values(place, CONTROL, f"{what}_known")
            for what in ("margin", "spread")
        )
        claim((margin < 0.5).all(), f"{place}: unknown images have less than half of the margin")
        near = (abs(np.log(away)) < 0.15).all() if place in DEEP else (away < 1).all()
        claim(near and (away > 1.5 * margin).all(), f"{place}: spreads differ less than margins, on LeNet-5 downwards")
        averages = paired(place, CONTROL, "BN", "error_test")
        says(averages, -1 if place == "resnet" else 0, f"error, {place}: new averages lower it on ResNet-18")
        says(paired(place, "SBN", CONTROL, "nll"), -1, f"NLL, {place}: draws lower it")
        says(paired(place, "SBN", "BN", "error_test"), -1 if place in DEEP else 0, f"error, {place}: SBN lowers it")
        unknown = paired(place, "SBN", CONTROL, "entropy_unknown")
        says(unknown, 1, f"entropy, {place}: draws raise that of unknown images")
    says(paired("lenet", CONTROL, "BN", "entropy_unknown"), -1, "entropy, LeNet-5: new averages lower it")
    says(paired("drawn", "SBN", "BN", "error_test"), 0, "error, drawn classes: undecided")
    for place in SETTINGS:
        both, sign = paired(place, "SBN", "BN", "nll_scaled"), {"resnet": 0, "drawn": 1}.get(place, -1)
        says(both, sign, f"NLL, {place}: temperatures on both sides")
        says(paired(place, "SBN", "BN", "auroc_scaled"), 0, f"AUROC, {place}: temperatures on both sides")
        rise = paired(place, "SBN", "BN", "entropy_unknown")
        says(rise, int(place == "lenet"), f"entropy, {place}: a rise is decided on LeNet-5 alone")
        own = _across(place, "BN", "auroc_scaled", "BN", "auroc")
        says(own, int(place != "vgg"), f"AUROC, {place}: a temperature raises it, undecided on VGG-11")
        plain, ensemble = (_values(place, one, "auroc") for one in ("BN", "DE"))
        more = not len(ensemble) or ensemble.mean() - plain.mean() > paired(place, "SBN", "BN", "auroc")[0]
        claim(more, f"AUROC, {place}: an ensemble gains more")
    for metric in ("auroc", "nll"):
        says(paired("drawn", "SBN", "BN", metric), 0, f"{metric}, drawn classes: no difference")
    says(_across("drawn", "SBN", "auroc", "BN", "auroc_scaled"), -1, "drawn classes: a temperature gives more AUROC")
    for metric in ("error_test", "auroc", "nll"):
        says(paired("vgg", "DO", "BN", metric), 0, f"{metric}, dropout: nothing is decided")
        says(paired("vgg", "DO+SBN", "DO", metric), 0, f"{metric}, dropout: SBN adds nothing clear")
    for place in DEEP:
        warmer = _across(place, "SBN", "nll", "BN", "nll_scaled")
        says(warmer, int(place == "vgg"), f"NLL, {place}: a temperature lowers it more on VGG-11")
        says(paired(place, "SBN", CONTROL, "nll_scaled"), 0, f"NLL, {place}: with temperatures draws are undecided")
    says(_across("drawn", "SBN", "nll", "BN", "nll_scaled"), 1, "drawn classes: a temperature has the lower NLL")
    says(paired("lenet", CONTROL, "BN", "nll"), 1, "LeNet-5: new averages raise the NLL")
    says(_across("lenet", "SBN", "nll", "BN", "nll_scaled"), 1, "LeNet-5: a temperature has the lower NLL")
    says(paired("lenet", "SBN", CONTROL, "nll_scaled"), -1, "LeNet-5: with temperatures draws lower the NLL")
    for metric in ("auroc", "auroc_scaled", "nll"):
        says(_short(metric), -1 if metric == "nll" else 1, f"{metric}, LeNet-5 of 5 epochs: decided, four networks")
    parts = [lab.stored_values("sbn-mnist", "LeNet-5", method, "auroc", "book") for method in ("BN", CONTROL, "SBN")]
    if len({len(part) for part in parts}) == 1 and len(parts[0]):
        plain, fresh, drawn = (part.mean() for part in parts)
        claim(fresh - plain > 0.9 * (drawn - plain), "AUROC, LeNet-5 of 5 epochs: nearly all from new averages")
        for earlier, later in pairwise(parts):
            says(lab.estimate(later - earlier), 0, "AUROC, LeNet-5 of 5 epochs: neither part is decided alone")
    for setting in EPOCHS:
        _whole_claims(setting, says, claim)
    _again_claims(says, claim)


def _again_claims(says: Callable, claim: Callable) -> None:
    """What the networks say that were trained again."""

    def gap(method: str, other: str, metric: str) -> Gap:
        return lab.paired_difference(*AGAIN, method, other, metric)

    for metric in ("auroc", "auroc_scaled"):
        says(gap(REAL, "BN", metric), 0, f"{metric}, trained again: mini-batches are undecided beside BN")
    for method, other in ((REAL, CONTROL), (REAL, "SBN"), ("SBN", CONTROL)):
        says(gap(method, other, "auroc"), 1, f"AUROC, trained again: {method} above {other}")
    for heat in HEATS:
        says(gap(REAL, "BN", f"auroc_T{heat:.0f}"), 0, f"AUROC, trained again: undecided at {heat} on both sides")
    for place in (AGAIN, AGAIN_FIVE):
        says(lab.paired_difference(*place, "SBN", "BN", "auroc"), 0, "AUROC, trained again: SBN is undecided beside BN")
        says(_apart(place, "BN", "nll_T4", REAL, "nll"), 1, "NLL, trained again: BN alone at 4 above mini-batches")
        says(
            _apart(place, REAL, "auroc", "BN", "auroc_T4"), -1, "AUROC, trained again: BN alone at 4 above mini-batches"
        )
    for metric, sign in (("auroc", 1), ("auroc_scaled", 0), ("auroc_T2", 1), ("auroc_T4", 0)):
        says(lab.paired_difference(*AGAIN_FIVE, REAL, "BN", metric), sign, f"{metric}, five epochs again, beside BN")
    says(gap(REAL, "SBN", "auroc_scaled"), 0, "AUROC, trained again: with temperatures undecided beside SBN")
    says(gap(REAL, "SBN", "auroc_T4"), -1, "AUROC, trained again: SBN above mini-batches at 4")
    spreads = {
        method: [lab.stored_values(*AGAIN, method, f"spread_{kind}") for kind in KINDS] for method in (REAL, "SBN")
    }
    if all(map(len, spreads[REAL])):
        for method, (known, unknown) in spreads.items():
            says(lab.estimate(np.log(unknown / known)), 0, f"{method} shakes unknown images as known ones, undecided")
        lost = [(drawn / real).max() for drawn, real in zip(spreads["SBN"], spreads[REAL], strict=True)]
        claim(max(lost) < 1 / 3, "factorizing takes more than two thirds of the spread")
    dense = lab.stored_values(*AGAIN, "SBN", "ks_scale_3")
    says(lab.estimate(dense - BOUND), -1, "sigma of the dense layer is below the bound")
    claim(not len(dense) or dense.mean() == _worst("scale"), "the dense layer fits worst")
    if len(dense):
        perfect = perfect_tail(*_fit_sizes())
        claim(_worst("mean") < 1.2 * perfect, "mu fits as a perfect law does")
        claim(_worst("scale") > 2 * perfect, "sigma of the dense layer does not")


def _whole_claims(setting: str, says: Callable, claim: Callable) -> None:
    """What the steps between SBN and whole batches say."""

    def less(method: str, metric: str, other: str = WHOLE) -> tuple[float, float, int]:
        return lab.paired_difference("sbn-batches", setting, method, other, metric)

    for metric in ("entropy_unknown", "auroc"):
        says(less("SBN", metric), -1, f"{setting}, {metric}: SBN has less than whole batches")
        says(less("Real layers", metric, "Real marginals"), 1, f"{setting}, {metric}: dependence within layers adds")
    says(less("Real mini-batches", "auroc", "SBN"), 1, f"{setting}: real mini-batches find clothes better than SBN")
    for method in ("SBN", "BN"):
        says(less(method, "nll"), -1 if EPOCHS[setting] == 1 else 0, f"{setting}, NLL, {method}: lower after one epoch")
    says(less("SBN", "auroc", "BN"), 0, f"{setting}: SBN finds clothes no better than ordinary batch norm")
    for method in (WHOLE, REAL):
        says(less(method, "auroc", "BN"), 1, f"{setting}: {method} find clothes better than ordinary batch norm")
    says(
        less("SBN", "tv_whole", "BN"), -1 if EPOCHS[setting] > 1 else 0, f"{setting}: SBN is nearer, after five epochs"
    )
    lost, marginal, layers, whole = (abs(less(method, "entropy_unknown")[0]) for method in RUNGS.values())
    claim(not lost > 0 or abs(lost - marginal) < 0.1 * lost, f"{setting}: real marginals leave the entropy as it is")
    claim(not lost > 0 or max(layers, whole) < 0.4 * lost, f"{setting}: real layers bring most of the entropy")

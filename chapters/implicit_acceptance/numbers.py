"""Numbers that the lesson's sentences quote from the stored results, as texts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab
from chapters.implicit_acceptance.experiments.filtered import PICKED
from chapters.implicit_acceptance.figures.results import DATA, GENERATORS, INDEPENDENT, RANDOM, RAW, TOY_METHODS

EXPERIMENTS = ("toy", "mnist", "fmnist")  # in the store with the chapter's prefix
CIFAR = "imh-cifar10"
LAST, FEW = "bridges/1600", "30 points/1600"
FAILED = ("imh-fmnist", "WGAN-GP")  # the one of four where the chain makes images worse


def numbers(rows: Mapping[str, list]) -> dict[str, str]:
    """{key: text} of every number that the lesson takes from the store.

    Args:
        rows: {name: what `lab.compare("imh-name")` returns}, for the experiments above.

    Raises:
        AssertionError: a stored result no longer says what the lesson's sentences say of it.
    """
    _claims()
    toy = rows["toy"]

    def mean(metric: str, form: str = "{:.3f}", setting: str = LAST, method: str = "CCE") -> str:
        return lab.number(lab.stored_mean(toy, setting, method, metric), form)

    ub, cce = (lab.stored_values("imh-toy", LAST, method, "chain_tv") for method in ("UB", "CCE"))
    farther = ub > cce
    said = {f"toy-{method}": mean("chain_tv", method=method) for method in TOY_METHODS}
    said |= {
        "toy-runs": lab.number(lab.stored_values("imh-toy", LAST, "CCE", "chain_tv").size or None),
        "toy-raw": mean("proposal_tv"),
        "toy-floor": mean("floor_tv"),
        "toy-acceptance": mean("acceptance_rate", "{:.0f}"),
        "toy-gap": mean("gap", "{:.2f}"),
        "toy-bound": mean("log10_bound", "{:.1f}"),
        "toy-direct": mean("direct_bound", "{:.2f}"),
        "toy-memorized": mean("chain_tv", setting=FEW),
        "toy-memorized-acceptance": mean("acceptance_rate", "{:.0f}", setting=FEW),
        "toy-memorized-worse": lab.number((memorized() > 0).sum() if memorized().size else None, ordered=True),
        "toy-ub-farther": lab.number(f"{farther.sum()} of {len(farther)}" if farther.size else None, ordered=True),
        "toy-missing": mean("chain_tv", setting="five modes/1600"),
        "toy-ub": lab.difference("imh-toy", LAST, "UB", "CCE", "chain_tv", 4),
        "toy-mce": lab.difference("imh-toy", LAST, "MCE, Markov", "CCE", "chain_tv", 4),
        "toy-markov": lab.difference("imh-toy", LAST, "UB, Markov", "CCE", "chain_tv", 4),
    }
    said |= {
        f"images-recall-{generator}": lab.difference("imh-mnist", generator, INDEPENDENT, RAW, "recall", 1)
        for generator in GENERATORS
    }
    said["images-recall-failed"] = lab.difference(*FAILED, INDEPENDENT, RAW, "recall", 1)
    raw, after = (lab.stored_values(*FAILED, method, "feature_fid") for method in (RAW, INDEPENDENT))
    said["images-worse"] = lab.number(f"{(after > raw).sum()} of {len(raw)}" if raw.size else None, ordered=True)
    error = lab.stored_values(CIFAR, "Images", "Classifier", "error_test")
    said["images-cifar-error"] = lab.number(error.mean() if error.size else None, "{:.0f}")
    for generator in GENERATORS:
        said[f"images-cifar-{generator}"] = lab.difference(CIFAR, generator, INDEPENDENT, RAW, "feature_fid", 1)
    return said | {"images": images(), "images-picked": picked()}


def memorized() -> np.ndarray:
    """Distance of the chain from the target less that of its generator, with a discriminator that knows 30 points."""
    chain, raw = (lab.stored_values("imh-toy", FEW, "CCE", metric) for metric in ("chain_tv", "proposal_tv"))
    return chain - raw


def _cells() -> list[tuple[str, str, str]]:
    """(experiment, data set, generator) of the experiments on images."""
    return [(f"imh-{name}", title, generator) for name, title in DATA.items() for generator in GENERATORS]


def images() -> str:
    """What is stored of generated images, a clause for each data set and generator, and what is not run yet."""
    clauses, missing = [], []
    for name, title, generator in _cells():
        raw, chain, random = (
            {one: lab.stored_values(name, generator, method, one) for one in ("feature_fid", "recall")}
            for method in (RAW, INDEPENDENT, RANDOM)
        )
        runs = len(chain["feature_fid"])
        if not runs:
            missing.append(f"{title} with {generator}")
            continue
        gap = lab.difference(name, generator, INDEPENDENT, RAW, "feature_fid", 1)
        paired = f" ({gap})" if runs > 1 else ""
        control = f", {random['feature_fid'].mean():.1f} by an untrained discriminator" if random["recall"].size else ""
        clauses.append(
            f"{title}, {generator}, {'one run' if runs == 1 else f'{runs} runs'}: feature-FID "
            f"{raw['feature_fid'].mean():.1f} raw, {chain['feature_fid'].mean():.1f} after the chain{paired}{control}; "
            f"recall {raw['recall'].mean():.0f} % and {chain['recall'].mean():.0f} %"
        )
    if not clauses:
        return lab.number(None)
    return ". ".join([*clauses, f"Not run yet: {', '.join(missing)}"] if missing else clauses)


def picked() -> str:
    """What a discriminator that was picked by held-out loss does in the case that fails, beside the same unpicked.

    All numbers are of the cells that picked, whose generators are the same; see `experiments.filtered.picked_cell`.
    """
    name, generator = FAILED
    settings = {"raw": f"{generator}, raw", "last": f"{generator}, last weights", "picked": generator}
    fid = {key: lab.stored_values(name, setting, PICKED, "feature_fid") for key, setting in settings.items()}
    if not fid["picked"].size:
        return lab.number(None)
    runs = len(fid["picked"])
    words = f"{fid['raw'].mean():.1f} raw, {fid['last'].mean():.1f} unpicked, {fid['picked'].mean():.1f} picked"
    if runs < 2:
        return f"{words} (one run)"
    gap = change, error, _ = lab.estimate(fid["picked"] - fid["raw"])
    verdict = {-1: "mended", 1: "still worse", 0: "undecided"}[lab.side(*gap)]
    return f"{words} ({change:+.1f} ± {error:.1f} against raw: {verdict}; {runs} runs)".replace("-", "−")


def _claims() -> None:
    gan, vae = (lab.paired_difference(CIFAR, one, INDEPENDENT, RAW, "feature_fid") for one in ("WGAN-GP", "VAE"))
    assert lab.shows(vae, -1) and lab.shows(gan, 0), "on CIFAR-10 the chain helps the VAE alone"
    for name, generator, sign in (("imh-mnist", "WGAN-GP", 0), ("imh-mnist", "VAE", 0), (*FAILED, -1)):
        recall = lab.paired_difference(name, generator, INDEPENDENT, RAW, "recall")
        assert lab.shows(recall, sign), f"{name}, {generator}: recall falls where the chain fails"
    for name, title, generator in _cells():
        raw = lab.stored_values(name, generator, RAW, "feature_fid")
        gap = lab.paired_difference(name, generator, INDEPENDENT, RAW, "feature_fid")
        if (name, generator) == FAILED:
            assert lab.shows(gap, 1), f"{title}, {generator}: the chain makes images worse"
        else:
            much = not raw.size or gap[0] < -0.05 * raw.mean()
            assert much and lab.shows(gap, -1), f"{title}, {generator}: the chain helps"
            rise = lab.paired_difference(name, generator, INDEPENDENT, RAW, "classifier_score")
            assert lab.shows(rise, 1), f"{title}, {generator}: a second measure agrees"
        untrained = lab.paired_difference(name, generator, RANDOM, RAW, "feature_fid")
        assert not untrained[0] <= 0.0, f"{title}, {generator}: an untrained discriminator does not help"
    for method in TOY_METHODS:
        found = lab.stored_values("imh-toy", LAST, method, "chain_tv")
        raw = lab.stored_values("imh-toy", LAST, method, "proposal_tv")
        assert (found < raw).all(), "the ring: every chain is nearer to the target than its generator"
        implied, bound = (lab.stored_values("imh-toy", LAST, method, name) for name in ("implied_tv", "direct_bound"))
        assert (implied < bound).all() and (bound < 1).all(), "the ring: the bound without b holds and says something"
        modes = lab.stored_values("imh-toy", LAST, method, "modes_found")
        assert (modes == 6).all(), "the ring: all six modes are found"
    for method, sign in (("UB", 0), ("MCE, Markov", -1), ("UB, Markov", -1)):
        gap = lab.paired_difference("imh-toy", LAST, method, "CCE", "chain_tv")
        assert lab.shows(gap, sign), "the ring: Markov proposals end nearer than CCE, UB is undecided"
    worse, bracket = memorized(), lab.stored_values("imh-toy", FEW, "CCE", "bracket")
    assert lab.shows(lab.estimate(worse), 0), "30 points: whether it is worse than the generator is undecided"
    assert (bracket < 0).all(), "30 points: by fresh data a blind discriminator is better, in every run"
    missing = lab.stored_values("imh-toy", "five modes/1600", "CCE", "chain_tv")
    assert (missing > 1 / 6).all(), "the ring: a missing mode stays missing"

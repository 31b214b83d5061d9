"""Numbers that the lesson's sentences quote from the stored results, as texts."""

from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.wording import with_error
from chapters.implicit_acceptance.experiments.filtered import PICKED
from chapters.implicit_acceptance.experiments.filtered import UB as MARKOV
from chapters.implicit_acceptance.figures.results import DATA, GENERATORS, INDEPENDENT, RANDOM, RAW, TOY_METHODS
from chapters.shared.said import average, holds, less, told

EXPERIMENTS = ("toy", "mnist", "fmnist")  # in the store with the chapter's prefix
CIFAR, RING = "imh-cifar10", "imh-ring"  # read from the store alone
LAST, FEW = "bridges/1600", "30 points/1600"
LOOKS = (0, 200, 400, 800, 1600)  # iterations at which the discriminators of the GANs are looked at
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

    cce, other = (lab.stored_values(name, LAST, "CCE", "chain_tv") for name in ("imh-toy", RING))
    said = {f"toy-{method}": mean("chain_tv", method=method) for method in TOY_METHODS}
    said |= {
        "toy-runs": lab.number(cce.size or None, of=[cce]),
        "toy-raw": mean("proposal_tv"),
        "toy-floor": mean("floor_tv"),
        "toy-gap": mean("gap", "{:.2f}"),
        "toy-bound": mean("log10_bound", "{:.1f}"),
        "toy-direct": mean("direct_bound", "{:.2f}"),
        "toy-memorized": mean("chain_tv", setting=FEW),
        "toy-memorized-worse": lab.number((memorized() > 0).sum() if memorized().size else None, ordered=True),
        "toy-missing": mean("chain_tv", setting="five modes/1600"),
        "toy-ub": lab.difference("imh-toy", LAST, "UB", "CCE", "chain_tv", 4),
        "toy-mce": lab.difference("imh-toy", LAST, "MCE, Markov", "CCE", "chain_tv", 4),
        "toy-markov": lab.difference("imh-toy", LAST, "UB, Markov", "CCE", "chain_tv", 4),
        "ring-runs": lab.number(other.size or None, of=[other]),
        "ring-ub": lab.difference(RING, LAST, "UB, independent", "CCE", "chain_tv", 4),
        "ring-markov": lab.difference(RING, LAST, "UB, Markov", "CCE", "chain_tv", 4),
        "ring-mce": lab.difference(RING, LAST, "MCE, Markov", "CCE", "chain_tv", 4),
        "ring-proposal": lab.difference(RING, LAST, "UB, Markov", "UB, independent", "chain_tv", 4),
    }
    said["failed-precision"] = lab.difference(*FAILED, INDEPENDENT, RAW, "precision", 1)
    said["cifar-recall"] = lab.difference(CIFAR, "WGAN-GP", INDEPENDENT, RAW, "recall", 1)
    said["cifar-precision"] = lab.difference(CIFAR, "VAE", INDEPENDENT, RAW, "precision", 1)
    raw, after = (lab.stored_values(*FAILED, method, "feature_fid") for method in (RAW, INDEPENDENT))
    said["images-worse"] = lab.number(
        f"{(after > raw).sum()} of {len(raw)}" if raw.size else None, ordered=True, of=[raw, after]
    )
    said["images-cifar-error"] = average(lab.stored_values(CIFAR, "Images", "Classifier", "error_test"), "{:.0f}")
    for generator in GENERATORS:
        said[f"images-cifar-{generator}"] = lab.difference(CIFAR, generator, INDEPENDENT, RAW, "feature_fid", 1)
    return said | _images() | _failed() | _distinct() | _repeats() | _markov() | _published()


def memorized() -> np.ndarray:
    """Distance of the chain from the target less that of its generator, with a discriminator that knows 30 points."""
    chain, raw = (lab.stored_values("imh-toy", FEW, "CCE", metric) for metric in ("chain_tv", "proposal_tv"))
    return chain - raw


def _cells() -> list[tuple[str, str, str]]:
    """(experiment, data set, generator) of the experiments on images."""
    return [(f"imh-{name}", title, generator) for name, title in DATA.items() for generator in GENERATORS]


def _mean(name: str, setting: str, method: str, metric: str, form: str = "{:.1f}") -> str:
    return average(lab.stored_values(name, setting, method, metric), form)


def _images() -> dict[str, str]:
    """Feature-FID of every generator: raw, after the chain, and by a discriminator that was never trained."""
    said = {}
    for name, _, generator in _cells():
        key = f"{name.removeprefix('imh-')}-{generator}"
        said |= {
            f"{key}-raw": _mean(name, generator, RAW, "feature_fid"),
            f"{key}-chain": _mean(name, generator, INDEPENDENT, "feature_fid"),
            f"{key}-gap": lab.difference(name, generator, INDEPENDENT, RAW, "feature_fid", 1),
            f"{key}-zero": _mean(name, f"{generator}, 0 iterations", INDEPENDENT, "feature_fid"),
            f"{key}-random": _mean(name, generator, RANDOM, "feature_fid"),
        }
    for name in ("mnist", "fmnist"):
        said[f"real-{name}"] = _mean(f"imh-{name}", "Images", "Held-out images", "feature_fid")
    return said


def _looks() -> None:
    """How the feature-FID goes with the iterations of the discriminator, by its means."""
    for name, _, generator in _cells():
        means = [
            found.mean()
            for k in (0, 100, 200, 400, 800, 1600)
            if len(found := lab.stored_values(name, f"{generator}, {k} iterations", INDEPENDENT, "feature_fid"))
        ]
        steps = np.diff(means)
        if not len(steps):
            continue
        if generator == "VAE":
            assert (steps < 0).all(), "the VAEs improve from look to look"
        elif (name, generator) == FAILED:
            assert (steps[:3] > 0).all(), "the clothes' GAN gets worse up to 800"
        else:
            assert means[1] > means[0] and (steps[1:] < 0).all() and means[2] < means[0], "the digits' GAN gains late"


def _failed() -> dict[str, str]:
    """What other weights of the discriminator do in the case that fails, on the same generators."""
    name, generator = FAILED
    settings = {
        "last": f"{generator}, last weights",
        "averaged": f"{generator}, averaged",
        "falling": f"{generator}, falling rate",
        "picked": generator,
    }
    raw, kept, covered = (
        lab.stored_values(name, f"{generator}, raw", PICKED, one) for one in ("feature_fid", "recall", "coverage_real")
    )
    late = "failed-picked-largest", "failed-averaged-last", "failed-falling-last-recall"
    said = dict.fromkeys(late, lab.number(None))
    for key, setting in settings.items():
        recall = lab.estimate(lab.stored_values(name, setting, PICKED, "recall") - kept)
        said[f"failed-{key}-recall"] = lab.gap(*recall, 1)
        coverage = lab.estimate(lab.stored_values(name, setting, PICKED, "coverage_real") - covered)
        said[f"failed-{key}-coverage"] = lab.gap(*coverage, 1)
        assert lab.shows(coverage, 1), "coverage rises whatever the weights, where recall falls"
        assert key not in ("last", "averaged") or lab.shows(recall, -1), "averaged weights leave the loss of recall"
        said[f"failed-{key}"] = _mean(name, setting, PICKED, "feature_fid")
        change = lab.stored_values(name, setting, PICKED, "feature_fid") - raw
        mean, error, n = lab.estimate(change)
        said[f"failed-{key}-gap"] = lab.gap(mean, error, n, 1)
        if not n:
            continue
        assert lab.shows((mean, error, n), int(key == "last")), "other weights take the harm away, no gain is decided"
        if key in ("averaged", "falling"):
            last = lab.stored_values(name, settings["last"], PICKED, "feature_fid") - raw
            less = mean, error, n = lab.estimate(change - last)
            assert lab.shows(less, -1 if key == "averaged" else 0), "averaging takes the harm away"
            if key == "falling":
                back, taken = _over_last(setting, "recall"), _over_last(setting, "acceptance_rate")
                assert lab.shows(back, 1) and lab.shows(taken, 1), "a falling rate wins recall back, and refuses less"
                said["failed-falling-last-recall"] = lab.gap(*back, 1)
            else:
                said["failed-averaged-last"] = lab.number(
                    with_error(mean, error, 1), runs=n, ordered=lab.decided(*less), of=[last, change]
                )
        if key == "picked":
            said["failed-picked-largest"] = lab.number(f"{change.max():.1f}", runs=1, of=[change])
            assert sorted(change)[-2] < 0.25 * change.max(), "one bad pick spoils the mean"
    return said


def _over_last(setting: str, metric: str) -> tuple[float, float, int]:
    """Other weights of the discriminator less its last ones, in pairs, in the case that fails."""
    name, generator = FAILED
    other, last = (lab.stored_values(name, one, PICKED, metric) for one in (setting, f"{generator}, last weights"))
    return lab.estimate(other - last)


def _distinct() -> dict[str, str]:
    """Percent of the chains' ends that are different images, in the case that fails."""
    name, generator = FAILED
    trained, zero = (
        lab.stored_values(name, setting, INDEPENDENT, "distinct")
        for setting in (generator, f"{generator}, 0 iterations")
    )
    assert lab.shows(less(trained, zero), -1), "with a trained discriminator chains end at fewer images"
    return {"failed-distinct": average(trained, "{:.0f}")}


def _markov() -> dict[str, str]:
    """Markov proposals with UB less independent ones with CCE, on the GAN's images, and chains that never moved."""
    said, metrics = {}, ("feature_fid", "recall", "precision", "coverage_real")
    for name, signs in (("mnist", (1, 1, -1, 1)), ("fmnist", (0, 1, -1, 0)), ("cifar10", (0, 1, -1, 0))):
        for metric, sign in zip(metrics, signs, strict=True):
            key = f"markov-{name}-{metric.removeprefix('feature_').removesuffix('_real')}"
            said[key] = told(f"imh-{name}", "WGAN-GP", MARKOV, INDEPENDENT, metric, sign=sign, digits=1)
        zero = "WGAN-GP, 0 iterations"
        said[f"markov-{name}-recall-zero"] = lab.difference(f"imh-{name}", zero, MARKOV, INDEPENDENT, "recall", 1)
        before, after = (_ahead_in_recall(name, setting) for setting in (zero, "WGAN-GP"))
        assert lab.shows(lab.estimate(before), int(name != "mnist")), f"{name}: untrained, UB is ahead in two"
        assert lab.shows(lab.estimate(after - before), int(name != "cifar10")), f"{name}: and beyond that in two"
        holds(f"imh-{name}", "WGAN-GP", MARKOV, RAW, "feature_fid", sign=0)
        said[f"markov-{name}-never-moved"] = _mean(f"imh-{name}", "WGAN-GP", MARKOV, "never_moved", "{:.0f}")
    for name, gains in (("mnist", (1, 1, 1)), ("fmnist", (0, 1, 1)), ("cifar10", (-1, 0, 0))):
        for metric, sign in zip(("precision", "recall", "coverage_real"), gains, strict=True):
            holds(f"imh-{name}", "WGAN-GP", MARKOV, RAW, metric, sign=sign)  # on digits decided by all three
    for key, name, sign in (("", "mnist", 1), ("-fmnist", "fmnist", 0)):
        found = _at_one_rate(f"imh-{name}")
        assert lab.shows(lab.estimate(found), sign), f"{name}: the same order at one rate"
        said[f"markov-same-rate{key}"] = lab.gap(*lab.estimate(found), 1)
        for look in (400, 800):
            holds(f"imh-{name}", f"WGAN-GP, {look} iterations", MARKOV, INDEPENDENT, "feature_fid", sign=0)
    return said | {"cifar-never-moved": _mean(CIFAR, "WGAN-GP", INDEPENDENT, "never_moved", "{:.0f}")}


def _repeats() -> dict[str, str]:
    """What repeats that know nothing of the images change, in points, at about the shares of the chains' ends."""
    said = {}
    for key, title, spread in (("mnist", "MNIST", 1.45), ("fmnist", "Fashion-MNIST", 1.7)):
        none, many = (
            lab.stored_values("imh-repeats", f"{title}, {name}", "Draws", "recall")
            for name in ("all different", f"repeats, spread {spread}")
        )
        change = less(many, none)
        assert lab.shows(change, -1), f"{title}: repeats alone lower recall"
        if key == "fmnist" and change[2]:
            fall = lab.paired_difference(*FAILED, INDEPENDENT, RAW, "recall")
            assert change[0] < fall[0], "repeats alone lower recall as much as the chain that fails does"
        said[f"repeats-{key}-recall"] = lab.gap(*change, 1)
    return said


def _ahead_in_recall(name: str, setting: str) -> np.ndarray:
    """Recall of UB with Markov proposals less that of CCE, run by run."""
    ub, cce = (lab.stored_values(f"imh-{name}", setting, method, "recall") for method in (MARKOV, INDEPENDENT))
    return ub - cce if len(ub) == len(cce) else ub[:0]


def _at_one_rate(name: str) -> np.ndarray:
    """Feature-FID of UB with Markov proposals after its first iterations, less CCE's at the same rate of refusal.

    CCE's is interpolated between its snapshots, run by run. UB's later snapshots refuse more than CCE does at its last.
    """

    def snapshot(method: str, iterations: int) -> tuple[np.ndarray, np.ndarray]:
        setting = f"WGAN-GP, {iterations} iterations"
        rate, fid = (lab.stored_values(name, setting, method, one) for one in ("acceptance_rate", "feature_fid"))
        return 100 - rate, fid

    refused, fid = snapshot(MARKOV, 400)
    rates, fids = (np.array(one).T for one in zip(*(snapshot(INDEPENDENT, k) for k in LOOKS), strict=True))
    assert (np.diff(rates) > 0).all(), "CCE refuses more at every snapshot"
    assert (refused <= rates[:, -1]).all(), "CCE reaches the rate of UB's first snapshot, in every run"
    between = np.array([np.interp(*one) for one in zip(refused, rates, fids, strict=True)])
    later, _ = snapshot(MARKOV, 800)
    assert name != "imh-mnist" or (later > rates[:, -1]).all(), "on MNIST no later snapshot of UB is in CCE's range"
    return fid - between


def _published() -> dict[str, str]:
    """What became of the paper's numbers on natural images."""
    verdicts = [row["verdict"].split(":")[0] for row in lab.compare(CIFAR) if row["published"] is not None]
    counts = {key: verdicts.count(key.replace("-", " ")) for key in ("not-run", "not-comparable")}
    assert sum(counts.values()) == len(verdicts), "no published number on natural images is tested"
    return {"published": f"{len(verdicts)}"} | {f"published-{key}": f"{count}" for key, count in counts.items()}


def _claims() -> None:
    gan, vae = (lab.paired_difference(CIFAR, one, INDEPENDENT, RAW, "feature_fid") for one in ("WGAN-GP", "VAE"))
    assert lab.shows(vae, -1) and lab.shows(gan, 0), "on CIFAR-10 the chain helps the VAE alone"
    holds(*FAILED, INDEPENDENT, RAW, "precision", sign=1, words="where the chain fails by feature-FID, precision rises")
    falls = {FAILED, (CIFAR, "WGAN-GP")}
    for name in ("imh-mnist", "imh-fmnist", CIFAR):
        for generator in GENERATORS:
            holds(name, generator, INDEPENDENT, RAW, "recall", sign=-((name, generator) in falls))
    for look in LOOKS[:-1]:
        early, raw = (
            lab.stored_values(FAILED[0], setting, method, "feature_fid")
            for setting, method in ((f"{FAILED[1]}, {look} iterations", INDEPENDENT), (FAILED[1], RAW))
        )
        assert lab.shows(lab.estimate(early - raw), 0), "where the chain fails, no earlier stop gives a gain"
    first, last = (
        lab.stored_values(FAILED[0], setting, PICKED, "held_out_loss")
        for setting in (f"{FAILED[1]}, 0 iterations", f"{FAILED[1]}, last weights")
    )
    assert (last < first).all(), "where the chain fails, the held-out loss fell"
    beyond = lab.stored_values("imh-toy", "five modes/1600", "CCE", "direct_bound")
    assert (beyond > 1).all(), "the ring: with a missing mode the bound without b says nothing"
    _looks()
    for name, title, generator in _cells():
        raw = lab.stored_values(name, generator, RAW, "feature_fid")
        gap = lab.paired_difference(name, generator, INDEPENDENT, RAW, "feature_fid")
        if (name, generator) == FAILED:
            assert lab.shows(gap, 1), f"{title}, {generator}: the chain makes images worse"
        else:
            much = not raw.size or gap[0] < -0.05 * raw.mean()
            assert much and lab.shows(gap, -1), f"{title}, {generator}: the chain helps"
            holds(name, generator, INDEPENDENT, RAW, "classifier_score", sign=1, words="a second measure agrees")
        accepted = lab.stored_values(name, generator, RANDOM, "acceptance_rate")
        assert (abs(accepted - 50) < 8).all(), f"{title}, {generator}: stretched and untrained, it refuses half"
        hurts = int((name, generator) != ("imh-fmnist", "VAE"))  # stretched and untrained: in three
        holds(name, generator, RANDOM, RAW, "feature_fid", sign=hurts)
        zero = lab.stored_values(name, f"{generator}, 0 iterations", INDEPENDENT, "feature_fid")
        assert not zero.size or abs(zero.mean() / raw.mean() - 1) < 0.05, f"{title}, {generator}: untrained, no change"
        changed = -((name, generator) == ("imh-fmnist", "VAE"))
        assert lab.shows(less(zero, raw), changed), "untrained, decided in one alone"
    for method in TOY_METHODS:
        found = lab.stored_values("imh-toy", LAST, method, "chain_tv")
        raw = lab.stored_values("imh-toy", LAST, method, "proposal_tv")
        assert (found < raw).all(), "the ring: every chain is nearer to the target than its generator"
        implied, bound = (lab.stored_values("imh-toy", LAST, method, name) for name in ("implied_tv", "direct_bound"))
        assert (implied < bound).all() and (bound < 1).all(), "the ring: the bound without b holds and says something"
        modes = lab.stored_values("imh-toy", LAST, method, "modes_found")
        assert (modes == 6).all(), "the ring: all six modes are found"
        assert (found < lab.stored_values("imh-toy", "bridges/800", method, "chain_tv")).all(), "the ring: falling"
    for method, sign in (("UB", 0), ("MCE, Markov", -1), ("UB, Markov", -1)):
        holds("imh-toy", LAST, method, "CCE", "chain_tv", sign=sign)
        holds("imh-toy", "bridges/800", method, "CCE", "chain_tv", sign=0)
    fresh = ("CCE", "MCE, Markov", "UB, Markov", "UB, independent")
    for one, other in (*((method, "CCE") for method in fresh[1:]), fresh[2:]):
        holds(RING, LAST, one, other, "chain_tv", sign=0, words="the ring: in other runs nothing is decided")
    for method in fresh:
        modes = lab.stored_values(RING, LAST, method, "modes_found")
        assert (modes == 6).all(), "the ring: all six modes are found in other runs too"
    worse, bracket = memorized(), lab.stored_values("imh-toy", FEW, "CCE", "bracket")
    assert lab.shows(lab.estimate(worse), 0), "30 points: whether it is worse than the generator is undecided"
    assert (bracket < 0).all(), "30 points: by fresh data a blind discriminator is better, in every run"
    missing = lab.stored_values("imh-toy", "five modes/1600", "CCE", "chain_tv")
    assert (missing > 1 / 6).all(), "the ring: a missing mode stays missing"

"""Numbers from the store that the chapter on the Metropolis-Hastings view says in its text."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from book import lab
from book.lab.queries import Rows, replicates
from chapters.acceptance.experiments.six_gaussians import MODES
from chapters.acceptance.figures.results import (
    HMC_GRADIENTS,
    HMC_WARM_UP,
    METHODS,
    caught_up,
    crossings,
    crossings_in_evaluations,
)
from chapters.shared.said import average, holds, told

WIDE, NARROW = "start sd 3", "start sd 1"
SETS = ("Heart", "Australian", "German")
RACE = ("VI", "Acceptance rate", "Symmetric KL", "Laplace", "HMC")
RATE = "Acceptance rate"
LENET = "reduced LeNet"
DRAWS = 5_000  # effective, "some thousands"


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("mh-name")` returns}, for six-gaussians, logistic and lenet.

    Raises:
        AssertionError: a stored result no longer says what the lesson's sentences say of it.
    """
    return _six(rows["six-gaussians"]) | _markov() | _logistic(rows["logistic"]) | _lenet(rows["lenet"]) | _batches()


def _six(rows: Rows) -> dict[str, str]:
    said = {"six-acceptance_chain-VI": lab.mean(replicates(rows, WIDE, "VI", "acceptance_chain"), "{:.1f}")}
    for setting, key in ((WIDE, "six"), (NARROW, "narrow")):
        for method in METHODS:
            found = replicates(rows, setting, method, "modes_found")
            said[f"{key}-all-{method}"] = lab.number((found == MODES).sum() if len(found) else None)
            if method == RATE:
                said[f"{key}-runs-{method}"] = lab.number(len(found) or None, of=[found])
            if setting == WIDE:
                said[f"{key}-acceptance-{method}"] = lab.mean(replicates(rows, setting, method, "acceptance"), "{:.1f}")
    own, exact = (replicates(rows, WIDE, "VI", metric) for metric in ("acceptance_chain", "acceptance"))
    assert (own > exact).all(), "in every run the chain of VI reports more than it has on exact points"
    modes = replicates(rows, WIDE, "VI", "modes_found")
    said["six-modes-VI"] = average(modes, "{:.1f}")
    said["six-single"] = lab.number((modes == 1).sum() if len(modes) else None)
    assert not len(modes) or own[modes == 1].min() > 98, "runs with one mode report nearly 100 %"
    for key, method in (("six-gap", RATE), ("six-gap-bound", "Symmetric KL")):
        said[key] = told("mh-six-gaussians", WIDE, method, "VI", "acceptance", sign=1, digits=1)
        own, exact = (replicates(rows, WIDE, method, metric) for metric in ("acceptance_chain", "acceptance"))
        assert (own > exact).all(), f"in every run the chain of {method} reports more than it has on exact points"
        if method == RATE:
            lost = replicates(rows, WIDE, method, "modes_found") < MODES
            assert not len(lost) or lost.sum() == 1, "one run by the rate lost a mode"
            for name, found in (("own", own), ("exact", exact)):
                said[f"six-lost-{name}"] = lab.number(found[lost][0] if len(lost) else None, "{:.0f}")
    holds("mh-six-gaussians", NARROW, "Symmetric KL", "VI", "acceptance", sign=0)
    return said


def _markov() -> dict[str, str]:
    """How long the steps of a learned Markov proposal are, in percent of the distance of two points."""
    where = "six Gaussians, random-walk start", "six Gaussians, independent start"
    walk, wide = (lab.stored_values("mh-markov", setting, RATE, "step_share") for setting in where)
    assert not len(walk) or walk.max() < 5, "from a random walk every run ends with tiny steps"
    rates, high = (lab.stored_values("mh-markov", setting, RATE, "acceptance") for setting in where)
    changes = lab.stored_values("mh-markov", where[1], RATE, "mode_changes")
    bound = lab.stored_values("mh-markov", where[0], "Symmetric KL", "step_share")
    without = lab.stored_values("mh-markov", "six Gaussians, without x", RATE, "acceptance")
    assert not len(wide) or wide.min() > 5, "from a wide start no run ends with tiny steps"
    near = changes[high > 99]
    assert ((near == 0) | (near > 50)).all(), "near one a run keeps its mode, or leaves it most times"
    return {
        "markov-high": lab.number(len(near) if len(high) else None, of=[high, changes]),
        "markov-steps": lab.mean(walk, "{:.1f}"),
        "markov-steps-bound": lab.mean(bound, "{:.1f}"),
        "markov-without": lab.mean(without, "{:.1f}"),
        "markov-rate": lab.mean(rates, "{:.1f}"),
        "markov-wide": lab.number(len(wide) or None, of=[wide]),
    }


def _batches() -> dict[str, str]:
    """The bound's proposal minus the rate's, learned from mini-batches, and what both lose to them."""
    texts, saved, spared = {}, [], []
    for name in ("Heart", "German"):
        lost = {}
        full = "mh-minibatches", f"{name}, full batch", RATE, "Symmetric KL", "acceptance"
        texts[f"mini-{name}-full"] = told(*full, sign=1, words="with all rows the rate is ahead")
        for key, mode in (("", "mini-batches"), ("-exact", "mini-batches, exact test")):
            pair = "mh-minibatches", f"{name}, {mode}", "Symmetric KL", RATE
            ahead = int((name, key) != ("Heart", "-exact"))  # in three of four
            texts[f"mini-{name}{key}"] = told(*pair, "acceptance", sign=ahead, digits=1)
            holds(*pair, "acceptance_lost", sign=-1, words="the bound loses less to mini-batches everywhere")
            for who, method in (("rate", RATE), ("bound", "Symmetric KL")):
                lost[who, key] = lab.stored_values(*pair[:2], method, "acceptance_lost")
                texts[f"mini-{name}{key}-{who}"] = lab.mean(lost[who, key], "{:.1f}")
            saved += (lost["rate", key] - lost["bound", key]).tolist()
        spared += [gap for who in ("rate", "bound") for gap in (lost[who, ""] - lost[who, "-exact"]).tolist()]
    assert not saved or max(saved) < min(spared), "the rows of the test matter more than the loss, in every run"
    return texts


def _logistic(rows: Rows) -> dict[str, str]:
    planned = {(cell.setting, cell.method): cell.params for cell in lab.get("mh-logistic").profiles["book"]()}
    plan = planned["German", "all methods"]
    evaluations = plan["steps"] * plan["batch_size"]
    said, earlier, shorter, ready, both, counted, bound, later = {}, [], [], [], [], [], [], []
    for name in SETS:
        for method in (RATE, "Symmetric KL"):
            said[f"{name}-gap-{method}"] = told("mh-logistic", name, method, "VI", "acceptance", sign=1)
        draws = {method: crossings(rows, name, method) for method in METHODS}
        runs = {method: lab.stored_values("mh-logistic", name, method, "seconds_training") for method in draws}
        said |= {f"{name}-crossing-{method}": _range(draws[method], runs[method]) for method in (RATE, "VI")}
        both += [runs[RATE], runs["VI"]]
        by_count = {method: crossings_in_evaluations(rows, name, method, evaluations) for method in draws}
        shares = {method: replicates(rows, name, method, "ess_share_geyer") for method in draws}
        said |= {
            f"{name}-counted-{method}": _range(by_count[method], shares[method], 1e3, "{:.0f}", "thousand")
            for method in (RATE, "VI")
        }
        counted += [ours < theirs for ours, theirs in zip(by_count[RATE], by_count["VI"], strict=True)]
        bound += [ours < theirs for ours, theirs in zip(by_count["Symmetric KL"], by_count["VI"], strict=True)]
        later += [theirs < ours for ours, theirs in zip(draws["Symmetric KL"], draws["VI"], strict=True)]
        learning, shorter_one, warming = (
            replicates(rows, name, method, "seconds_training") for method in (RATE, "VI", "HMC")
        )
        shorter += (shorter_one < learning).tolist()
        ready += (warming + DRAWS / replicates(rows, name, "HMC", "ess_per_second") < learning).tolist()
        first, hmc = (
            replicates(rows, name, one, "seconds_training") + DRAWS / replicates(rows, name, one, "ess_per_second")
            for one in ("Laplace", "HMC")
        )
        ready += (first < hmc).tolist()
        holds("mh-logistic", name, "Laplace", "HMC", "ess_share_geyer", sign=-1)
        earlier += [theirs < ours for ours, theirs in zip(draws[RATE], draws["VI"], strict=True)]
    assert not earlier or sum(earlier) > len(earlier) / 2, "variational inference has paid earlier in most runs"
    assert all(ready), "in every run Laplace, then HMC has some thousands of draws, before the learning is done"
    assert all(bound) and later == earlier, "the bound pays earlier too by evaluations, and later as often in seconds"
    assert all(counted), "counted by evaluations, the rate has paid earlier than variational inference in every run"
    for key, flags in (("earlier", earlier), ("shorter", shorter), ("counted", counted)):
        said[key] = lab.number(f"{sum(flags)} of {len(flags)}" if flags else None, of=both)
    asked = product(SETS, METHODS, ("mean_error", "sd_error"))
    errors = [value for one in asked for value in replicates(rows, *one)]
    assert not errors or max(errors) < 0.05, "logistic regression: moments within 0.05 posterior sds of long HMC"
    # "within": rounded up
    said["moments"] = lab.number(np.ceil(1000 * max(errors)) / 1000 if errors else None, "{:.3f}")
    laid = [
        row for row in rows if None not in (row["published"], row["mean"]) and row["profile"] not in (None, "smoke")
    ]
    said["published"] = lab.number(len(laid) or None)
    agreeing = sum(row["verdict"].startswith("agrees") for row in laid)
    said["published-agree"] = lab.number(agreeing if laid else None)
    speeds = replicates(rows, "German", "HMC", "ess_per_second")
    for key, pick in (("slowest", min), ("fastest", max)):
        said[f"German-HMC-{key}"] = lab.number(pick(speeds) if len(speeds) else None, "{:,.0f}")
    for method in (RATE, "HMC"):
        share = lab.stored_mean(rows, "German", method, "ess_share_geyer")
        said[f"German-share-{method}"] = lab.number(None if share is None else share / 100, "{:.2f}", runs=len(speeds))
    said |= {"German-evaluations": f"{evaluations / 1e3:.0f}", "warm-up": f"{HMC_WARM_UP / 1e3:.0f}"}
    return said | _worth() | _short(rows)


def _short(rows: Rows) -> dict[str, str]:
    """A quarter of the steps: what a draw is worth, and when learning pays beside HMC after a short warm-up."""
    said, spent, warmed, first, behind = {}, [], [], [], []
    for name in SETS:
        longer = replicates(rows, name, "HMC", "ess_share_geyer") / 100  # of its whole warm-up
        hmc, start, each, r_hat = (
            lab.stored_values("mh-short", name, "HMC", metric)
            for metric in ("ess_share_geyer", "evaluations_learning", "evaluations_draw", "r_hat")
        )
        assert not len(r_hat) or r_hat.max() < 1.01, f"{name}: chains of HMC after the short warm-up agree"
        warmed += start.tolist()
        for method in METHODS:
            share, learning = (
                lab.stored_values("mh-short", name, method, metric)
                for metric in ("ess_share_geyer", "evaluations_learning")
            )
            spent += learning.tolist()
            runs = list(zip(learning, 100 / share, start, each / (hmc / 100), longer, strict=bool(len(share))))
            first += [caught_up(cost, ours, HMC_WARM_UP, HMC_GRADIENTS / theirs) for cost, ours, *_, theirs in runs]
            paid = [caught_up(*one[:4]) for one in runs]
            behind += [warm_up + DRAWS * theirs < cost for cost, _, warm_up, theirs, _ in runs]
            if method in (RATE, "VI"):
                said[f"{name}-short-share-{method}"] = lab.mean(share, "{:.1f}")
                said[f"{name}-short-counted-{method}"] = _range(paid, share, 1e3, "{:.0f}", "thousand")
    assert not spent or max(spent) < HMC_WARM_UP, "500 steps of learning take less than 500 of warm-up"
    assert not any(first), "in every run learning has paid from the first draw on"
    assert all(behind), "with a quarter of both HMC has some thousands of draws before the learning is done"
    for key, found, of in (("short-evaluations", spent, learning), ("short-warm-up", warmed, start)):
        said[key] = lab.number(max(found) / 1e3 if found else None, "{:.0f}", of=[of])
    said["short-first"] = lab.number(len(first) or None, of=[share])
    return said


def _worth() -> dict[str, str]:
    """In how many of six comparisons, by each rule, a draw is decidedly worth more than one of VI, or of HMC."""
    beside = [lab.paired_difference("mh-logistic", name, "VI", "HMC", "ess_share_geyer") for name in SETS]
    more = sum(lab.shows(one, 1) for one in beside if one[2])
    said = {"worth-VI-HMC": lab.number(more or None, of=[one[0] for one in beside])}
    for other, rules in (("VI", ("geyer", "threshold", "batch_means")), ("HMC", ("geyer",))):
        for rule in rules:
            pairs = product(SETS, (RATE, "Symmetric KL"))
            every = [lab.paired_difference("mh-logistic", *one, other, f"ess_share_{rule}") for one in pairs]
            stored = [one for one in every if one[2]]
            more = sum(lab.shows(one, 1) for one in stored)
            assert all(lab.shows(one, 1) or lab.shows(one, 0) for one in stored), "nowhere is a draw worth less"
            key, of = f"worth-{other}-{rule}", [one[0] for one in stored]
            said[key] = lab.number(f"{more} of {len(stored)}" if stored else None, of=of)
    return said


def _range(draws: list[float], runs: Any, unit: float = 1e6, form: str = "{:.1f}", name: str = "million") -> str:
    """ "0.4 to 2.8 million" of the least and the largest, with the runs in which it never came."""
    finite = sorted(one / unit for one in draws if one < np.inf)
    if not finite:
        return lab.number("never" if draws else None)
    never = len(draws) - len(finite)
    text = f"{form.format(finite[0])} to {form.format(finite[-1])} {name}"
    text += f" ({never} of {len(draws)} never)" if never else ""
    return lab.number(text, runs=len(draws), of=[runs])


def _lenet(rows: Rows) -> dict[str, str]:
    said = {}
    for other in ("VI", "No entropy", "Adam"):
        for metric, digits, worse in (("accuracy", 2, -1), ("nll", 4, 1)):
            sign = worse if other == "Adam" else 0  # by the bound nothing but a loss beside the network alone
            pair = "mh-lenet", LENET, "Symmetric KL", other, metric
            said[f"lenet-{metric}-less-{other}"] = told(*pair, sign=sign, digits=digits)
    return said

"""Numbers that the lesson's sentences quote from the stored results, as texts."""

import itertools
import math
from collections.abc import Mapping
from functools import cache

import numpy as np
import torch

from bnnlib import metrics
from bnnlib.functional import inclusion_probability_for, num_network_parameters
from book import lab
from chapters.shared.said import average, holds, told
from chapters.spike_slab.experiments.mnist import CHOSEN
from chapters.spike_slab.experiments.simulations import NUM_INTERVAL_DRAWS, NUM_INTERVAL_POINTS, PROBLEMS

# of the experiments, in the store with the chapter's prefix
ONE_A, ONE_B, TWO, SWEEP, MNIST = "simulation-1a", "simulation-1b", "simulation-2", "lambda", "mnist"
UNIFORM, NORMAL, KAIMING = "U(-1,1)", "N(0,1)", "N(0,1), Kaiming start"
SLAB = "sigma0^2=2"  # that of the paper's text
SMALLEST, SMALL = (SWEEP, "2/lambda=1e-200", "SVBNN"), (SWEEP, "2/lambda=1e-100", "SVBNN")
BAYESIAN = ("VBNN", "VD", "HS-BNN")
RIVALS = (*BAYESIAN, "AGP", "LOT")


def numbers(rows: Mapping[str, list]) -> dict[str, str]:
    """{key: text} of every number that the lesson takes from the store.

    Args:
        rows: {name: what `lab.compare("svbnn-name")` returns}, for the experiments above.

    Raises:
        AssertionError: a stored result no longer says what the lesson's sentences say of it.
    """
    _claims()
    said = {}
    responses = [lab.stored_mean(rows[ONE_A], "dense", one, "coverage_predictive") for one in ("SVBNN", *BAYESIAN)]
    # the rank of NumPy's 2.5 % quantile among 200 draws, over the 201 gaps that a new draw falls into alike
    perfect = 100.0 * (1.0 - 2.0 * (1.0 + 0.025 * (NUM_INTERVAL_DRAWS - 1)) / (NUM_INTERVAL_DRAWS + 1))
    near = None in responses or all(abs(value - perfect) < 0.5 for value in responses)
    assert near, f"Simulation I (A): coverage of responses within half a point of {perfect:.2f} %: {responses}"
    said["1a-perfect-response"] = f"{perfect:.1f}"
    covered = _values(ONE_A, "dense", "SVBNN", "coverage")
    assert lab.shows(lab.estimate(covered - 67.5), -1), "Simulation I (A): the bands of the mean cover far too little"
    for key, method in (("lot", "LOT"), ("ours", "SVBNN")):  # the error of VBNN is lower
        said[f"1a-{key}"] = told(f"svbnn-{ONE_A}", "dense", method, "VBNN", "rmse_test", sign=1, digits=4)
    for key, setting in (("rmse", UNIFORM), ("slab", f"{UNIFORM}, {SLAB}")):
        said[f"2-{key}"] = lab.number(lab.stored_mean(rows[TWO], setting, "SVBNN", "rmse_test"), "{:.2f}")
    said["2-next"] = lab.difference(f"svbnn-{TWO}", UNIFORM, "SVBNN", "AGP", "rmse_test", 2)
    said["2-agp-fpr"] = lab.number(lab.stored_mean(rows[TWO], UNIFORM, "AGP", "fpr"), "{:.0f}")
    errors = {rival: _values(ONE_B, "sparse", rival, "rmse_test") for rival in RIVALS}
    next_ = min(RIVALS, key=lambda rival: errors[rival].mean() if errors[rival].size else math.inf)
    said["1b-next"] = lab.difference(f"svbnn-{ONE_B}", "sparse", "SVBNN", next_, "rmse_test", 2)
    inputs = [_values(ONE_B, "sparse", "SVBNN", metric) for metric in ("fpr", "fnr")]
    said["1b-exact"], said["1b-replicates"] = (
        lab.number(n if inputs[0].size else None, of=inputs)
        for n in ((inputs[0] + inputs[1] == 0.0).sum(), inputs[0].size)
    )
    own, covered = (_values(ONE_B, "sparse", "SVBNN", metric) for metric in ("rmse_test", "coverage"))
    said |= {"1b-rmse": average(own, "{:.2f}"), "1b-mean": average(covered, "{:.0f}")}
    assert lab.shows(lab.estimate(covered - 96.4), -1), "Simulation I (B): the bands cover too little"
    for metric, key in (("coverage", "mean"), ("coverage_predictive", "response")):
        said[f"2-{key}"] = lab.number(lab.stored_mean(rows[TWO], UNIFORM, "SVBNN", metric), "{:.0f}")
    missed = _values(TWO, UNIFORM, "SVBNN", "fnr")
    said["2-complete"], said["2-replicates"] = (
        lab.number(n if missed.size else None, of=[missed]) for n in ((missed == 0).sum(), missed.size)
    )
    for key, start in (("narrow", "published start"), ("wide", "wide start")):
        pair = "svbnn-gradients", start, "inverse CDF", "Gumbel-softmax", "kl_exact"
        said[f"inverse-{key}"] = lab.difference(*pair, 1)
    said |= _contraction() | _starts() | _normal()
    return said | _trivial(rows[ONE_A]) | _price() | _coverage() | _trap() | _mnist()


def _contraction() -> dict[str, str]:
    """Slopes of the distance on the bound, from the usual start, from the teacher ("-at"), and with its gates held.

    With held gates also objective and distance at 8,000 rows beside the usual start's.
    """
    said, ends, most = {}, {}, "sparse, n=8,000"
    starts = {"": "SVBNN", "-at": "SVBNN, from the teacher", "-held": "SVBNN, the teacher's gates held"}
    for teacher, start in (("sparse", ""), ("sparse", "-at"), ("sparse", "-held"), ("dense", ""), ("dense", "-at")):
        key, slope = f"rate-{teacher}{start}", _values("contraction", teacher, starts[start], "slope_rate")
        said[key] = average(slope, "{:.1f}")
        side = 1 if key in ("rate-sparse", "rate-sparse-held") else -1
        assert lab.shows(lab.estimate(slope - 1.0), side), f"elsewhere: the slope of {key}"
        if teacher == "sparse":
            few, fewer, more = (
                _values("contraction", f"sparse, n={n}", starts[start], "hellinger") for n in ("250", "4,000", "8,000")
            )
            ends[start] = few, more
            assert lab.shows(lab.estimate(more - fewer), 0), f"the fall from 4,000 rows on is undecided: {key}"
    (few, usual), (nearer, _), (_, held) = ends.values()
    assert lab.shows(lab.estimate(few - nearer), 1), "at small n a start at the teacher ends nearer to it"
    assert said["rate-dense"] == said.pop("rate-dense-at"), "the dense teacher: the same slope from both starts"
    for start, metric in itertools.product(("", "-at"), ("objective", "hellinger")):
        holds("svbnn-contraction", most, starts["-held"], starts[start], metric, sign=-1)
    share = 100 * held.mean() / usual.mean() if held.size and usual.size else None
    return said | {
        "held-nats": lab.difference("svbnn-contraction", most, starts["-held"], "SVBNN", "objective", 0),
        "held-share": lab.number(share, "{:.0f}", of=[held, usual]),
    }


def _starts() -> dict[str, str]:
    """The error in Simulation II with the best of three starts."""
    one, best = (
        _values(name, UNIFORM, method, "rmse_test")
        for name, method in ((TWO, "SVBNN"), ("causes", "SVBNN, best of starts"))
    )
    if best.size and one.size == best.size:
        assert lab.shows(lab.estimate(one - best), 1), "Simulation II: three starts lower the error"
    missed, objective = (_values("causes", UNIFORM, "SVBNN, best of starts", one) for one in ("fnr", "objective"))
    found, short = objective[missed == 0], objective[missed > 0]
    error = np.sqrt(found.var(ddof=1) / found.size + short.var(ddof=1) / short.size) if found.size > 1 else math.nan
    assert not found.size or short.mean() - found.mean() > 4 * error, "who finds all five has the lower objective"
    return {
        "2-best": average(best, "{:.2f}"),
        "2-best-complete": lab.number(found.size if missed.size else None, of=[missed]),
        "2-best-nats": lab.number(
            lab.with_error(short.mean() - found.mean(), error, 0) if found.size else None,
            ordered=True,
            of=[objective, missed],
        ),
    }


def _normal() -> dict[str, str]:
    """Simulation II with normal inputs: both starts and slabs, and the better start beside the rivals."""
    said = {}
    forms = {"": ("rmse_test", "{:.2f}"), "-fpr": ("fpr", "{:.0f}")}
    shown = {"": NORMAL, "-kaiming": KAIMING}
    for (key, setting), (name, (metric, form)) in itertools.product(shown.items(), forms.items()):
        found = _values(TWO, setting, "SVBNN", metric)[:10]  # as many as the other starts have
        said[f"2-normal{key}{name}"] = average(found, form, found.size)
    for start, slab in itertools.product((NORMAL, KAIMING), ("", f", {SLAB}")):
        errors = _values(TWO, start + slab, "SVBNN", "rmse_test")
        assert lab.shows(lab.estimate(errors - 1.21), 1), f"normal inputs: above the published error from {start}{slab}"
    half = PROBLEMS["2-normal"].num_samples / 2
    old, new = (
        half * _values(TWO, one, "SVBNN", "rmse_train") ** 2 + _values(TWO, one, "SVBNN", "kl")
        for one in (NORMAL, KAIMING)
    )
    lower = lab.estimate(old[: new.size] - new)
    assert lab.shows(lower, 1), "normal inputs: the start of the others ends at a lower objective"
    said["2-normal-nats"] = lab.mean(old[: new.size] - new, "{:,.0f}")
    for rival in RIVALS:
        gaps = {}
        for metric in ("rmse_test", "sparsity", "fpr"):
            own, other = _values(TWO, KAIMING, "SVBNN", metric), _values(TWO, NORMAL, rival, metric)
            gaps[metric] = lab.estimate(own - other[: own.size] if other.size else [])
        worse = rival not in BAYESIAN
        assert lab.shows(gaps["rmse_test"], 1 if worse else -1), f"normal inputs: beside {rival} the error is elsewhere"
        if worse:
            assert all(lab.shows(gaps[one], 1) for one in ("sparsity", "fpr")), f"normal inputs: {rival} is sparser"
            said[f"2-normal-{rival.lower()}"] = lab.gap(*gaps["rmse_test"], 2)
    return said


def _values(name: str, setting: str, method: str, metric: str) -> np.ndarray:
    return lab.stored_values(f"svbnn-{name}", setting, method, metric)


def _claims() -> None:
    for rival in RIVALS:
        holds(f"svbnn-{TWO}", UNIFORM, "SVBNN", rival, "rmse_test", sign=0 if rival == "AGP" else -1)
        holds(f"svbnn-{ONE_B}", "sparse", "SVBNN", rival, "rmse_test", sign=-1)
    empty, kept = trapped()
    assert not kept.size or 2 * kept.min() < empty.min(), "a kept path has the better objective"
    shares = _values(*SMALLEST, "sparsity")
    assert not shares.size or shares.max() < 1e-3, "no network keeps a path"
    elbo, empty = (_values(MNIST, "tempered", "SVBNN", f"{one}_nats") for one in ("negative_elbo", "nll_null"))
    worse = (elbo > 2 * empty).all() and lab.shows(lab.estimate(elbo - empty), 1)
    assert worse, "MNIST: by the exact objective the tempered network is worse than the empty one"
    selected, whole = (_values(MNIST, "exact", "SVBNN", one) for one in ("accuracy_selected", "accuracy"))
    assert lab.shows(lab.estimate(selected - whole), -1), "MNIST: the undecided gates matter"
    price, share, whole = (
        _values(MNIST, "exact", "SVBNN", one) for one in ("kl_per_active_weight", "sparsity_selected", "kl_nats")
    )
    selected = price * share / 100 * num_network_parameters((784, 512, 512, 10))
    assert (2 * selected < whole).all(), "MNIST: weights with phi > 1/2 bear less than half of the divergence"
    elbo, empty = (_values(MNIST, "exact", "SVBNN", f"{one}_nats") for one in ("negative_elbo", "nll_null"))
    assert lab.shows(lab.estimate(elbo - empty), -1), "MNIST: the exact objective ends below the empty network"


def trapped() -> tuple[np.ndarray, np.ndarray]:
    """n/2 RMSE^2 + KL in nats, of networks that are empty and of some that are not.

    But for a constant this is the objective less the spread of the draws about their mean, n/2 times their variance,
    which the empty ones do not have.

    The first are those of the sweep's smallest lambda; the others those of a larger one, as they are, had they the
    smallest: each unit of inclusion probability then costs the ratio's logarithm more.
    """
    empty, kept = (
        PROBLEMS["2-uniform"].num_samples / 2 * _values(*one, "rmse_train") ** 2 + _values(*one, "kl")
        for one in (SMALLEST, SMALL)
    )
    sizes = PROBLEMS["2-uniform"].sizes
    weights = sum((a + 1) * b for a, b in itertools.pairwise(sizes))
    return empty, kept + _values(*SMALL, "sparsity") / 100 * weights * 100 * math.log(10.0)


@cache
def _data() -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Simulation I (A): training data of the stored replicates, and test data, as the experiments draw them."""
    precision, problem = torch.get_default_dtype(), PROBLEMS["1a"]
    torch.set_default_dtype(torch.float32)  # in another one the generators draw other data
    try:
        return problem.data(tuple(range(60))), problem.test_data()
    finally:
        torch.set_default_dtype(precision)


def _rules() -> dict[str, torch.Tensor]:
    """Simulation I (A), on the stored replicates' data: test RMSE of predicting the mean and of least squares, of each.

    Also the RMSE of f_0 itself ("floor").
    """
    train, test = _data()
    x, y = (part.transpose(0, 1).double() for part in train)
    test_x, test_y, test_f = (part.double() for part in test)
    ones = (torch.ones(*part.shape[:-1], 1, dtype=part.dtype) for part in (x, test_x))
    x, test_x = (torch.cat(pair, -1) for pair in zip(ones, (x, test_x), strict=True))
    mean, linear = y.mean(1, keepdim=True), test_x @ torch.linalg.solve(x.mT @ x, x.mT @ y)
    rmse = {name: metrics.rmse(fit, test_y, dim=(1, 2)) for name, fit in (("constant", mean), ("linear", linear))}
    return rmse | {"floor": metrics.rmse(test_f, test_y)}


def _trivial(rows: list) -> dict[str, str]:
    each = _rules()
    rule = {name: float(values.mean()) for name, values in each.items()}
    said = {}
    for method in ("SVBNN", "LOT", "VBNN"):
        rmse = lab.stored_mean(rows, "dense", method, "rmse_test")
        left = None if rmse is None else (rmse**2 - rule["floor"] ** 2) / (rule["constant"] ** 2 - rule["floor"] ** 2)
        said[f"1a-explained-{method}"] = lab.number(None if left is None else 100 * (1 - left), "{:.0f}")
    for method in ("SVBNN", *RIVALS):
        found = _values(ONE_A, "dense", method, "rmse_test")
        gaps = found - each["linear"].numpy()[: found.size]
        assert lab.shows(lab.estimate(gaps), 1), f"Simulation I (A): least squares has a lower error than {method}"
    own = lab.stored_mean(rows, "dense", "SVBNN", "rmse_test")
    printed, _ = lab.paper_values(f"svbnn-{ONE_A}")
    theirs = next(one for one in printed if (one.method, one.metric) == ("SVBNN", "rmse_test"))
    assert lab.verdict(theirs, each["constant"].tolist()).word == "agrees", "a constant would pass for SVBNN"
    assert own is None or rule["floor"] < own < rule["constant"], "Simulation I (A): SVBNN between f_0 and a constant"
    return said | {
        "1a-linear": lab.number(rule["linear"], "{:.4f}", ordered=True),
        "1a-constant": lab.number(rule["constant"], "{:.4f}", ordered=True),
        "1a-own": lab.number(own, "{:.4f}", ordered=True),
    }


def _price() -> dict[str, str]:
    """By how many nats the objective of the best constant is below that of SVBNN, each on the same data."""
    problem, misfit = PROBLEMS["1a"], _values(ONE_A, "dense", "SVBNN", "rmse_train") ** 2
    gates = sum((a + 1) * b for a, b in itertools.pairwise(problem.sizes)) - 1
    prior, scale = inclusion_probability_for(problem.sizes, problem.num_samples), 1.3
    y = _data()[0][1][..., 0].double()
    n, mean = len(y), y.mean(0)
    spread = (n + scale**-2) ** -0.5
    price = -math.log(prior) + math.log(scale / spread) + (spread**2 + mean**2) / (2 * scale**2) - 0.5
    constant = n / 2 * (y.var(0, correction=0) + spread**2) + price - gates * math.log1p(-prior)
    # without the spread of SVBNN's draws about their mean: its objective is larger than this
    own = n / 2 * misfit + _values(ONE_A, "dense", "SVBNN", "kl")
    gap = own - constant.numpy()[: own.size]
    assert not gap.size or gap.min() > 0, "Simulation I (A): the best constant has the lower objective on all data sets"
    return {"1a-price": lab.gap(*lab.estimate(gap), 0)}


# what the table of the runs behind the coverage says: its key, setting and metrics
_RUNS = {
    "same": "sigma=0.0025, KL x 1, 10,000 epochs",
    "early": "sigma=0.3, KL x 1, 1,000 epochs",
    "tempered": "sigma=0.0025, KL x 0.1, 10,000 epochs",
    "teachers": "teachers drawn anew",
}


def _coverage() -> dict[str, str]:
    """Simulation I (A): the runs about the bands of SVBNN, as `experiments.coverage` says what they mean."""
    said: dict[str, str] = {}
    for key, setting in _RUNS.items():
        for metric, form in (("coverage", "{:.0f}"), ("sparsity", "{:.1f}")):
            found = _values("coverage", setting, "SVBNN", metric)
            said[f"1a-{key}-{metric}"] = average(found, form)
    early, wide = (
        _values("coverage", f"sigma=0.3, KL x 1, {n} epochs", "SVBNN", "coverage") for n in ("1,000", "10,000")
    )
    assert lab.shows(lab.estimate(early - 97.5), 0), "stopped early the bands cover as published"
    assert lab.shows(lab.estimate(wide - 97.5), -1), "a wide start alone does not make bands cover"
    grid = {(row["setting"], row["metric"]): row["mean"] for row in lab.compare("svbnn-coverage")}
    tempered = [mean for (one, metric), mean in grid.items() if "KL x 0.1" in one and metric == "coverage" and mean]
    lowest = not tempered or (len(tempered) == 9 and min(tempered) == grid[_RUNS["tempered"], "coverage"])
    assert lowest, f"the tempered run of the table is the lowest of nine: {tempered}"
    sparse = [
        mean
        for (one, metric), mean in grid.items()
        if one.startswith("sigma=") and metric == "coverage" and mean and (grid[one, "sparsity"] or math.inf) < 10.0
    ]
    said["1a-sparse-most"] = lab.number(max(sparse, default=None), "{:.0f}", 5 if sparse else None, ordered=True)
    r_hat, exact = (_values("coverage", "exact posterior", "MCMC", one) for one in ("r_hat", "coverage"))
    good = r_hat < 1.1
    assert not exact.size or (~good).sum() == 1, "the chains of the exact posterior disagree on one data set"
    said["1a-exact-least"], said["1a-exact-most"] = (
        lab.number(pick(exact[good]) if exact.size else None, "{:.0f}", of=[exact]) for pick in (np.min, np.max)
    )
    share = _values("coverage", "exact posterior", "MCMC", "sparsity")
    (_, y), (_, _, test_f) = _data()
    y, f = y[:, : exact.size, 0].double(), test_f[:NUM_INTERVAL_POINTS, 0].double()
    inside = (f[:, None] - y.mean(0)).abs() < 1.96 / math.sqrt(len(y))  # of the posterior of a constant, noise known
    band = 100 * inside.double().mean(0).numpy()
    weights = num_network_parameters(PROBLEMS["1a"].sizes)
    assert not exact.size or np.abs(exact - band)[good].max() < 3.0, "where chains agree they cover as a constant does"
    assert not share.size or 1.0 <= share[good].min() / 100 * weights <= share[good].max() / 100 * weights < 2.5
    return said


def _trap() -> dict[str, str]:
    best, tenth = (_values(SWEEP, f"2/lambda={one}", "SVBNN", "rmse_test") for one in ("opt", "0.1"))
    sparse = {one: _values(SWEEP, f"1b/lambda={one}", "SVBNN", "rmse_test") for one in ("opt", "0.1")}
    above = lab.estimate(sparse["opt"] - sparse["0.1"])
    assert lab.shows(above, 0) and not above[0] <= 0, "Simulation I (B): undecided between lambda = 0.1 and lambda_opt"
    gap = lab.estimate(best - tenth)
    assert lab.shows(gap, 1), "Simulation II: lambda = 0.1 predicts better than lambda_opt"
    for place, (value, worse) in itertools.product(("1b", "2"), (("1e-20", True), ("1e-05", False), ("0.1", False))):
        best_there, other = (_values(SWEEP, f"{place}/lambda={one}", "SVBNN", "rmse_test") for one in ("opt", value))
        above = lab.side(*lab.estimate(other - best_there)) > 0
        assert not other.size or above == worse, f"the valley of {place} is elsewhere: {value}"
    assert inclusion_probability_for(PROBLEMS["2-uniform"].sizes, 3_000, 3) < 1e-20, "delta = 3 lies beyond the valley"
    empty, kept = trapped()
    return {
        "opt-less-tenth": lab.gap(*gap),
        "opt-below": lab.number(f"{(best < tenth).sum()} of {best.size}" if best.size else None, of=[best]),
        "trap-kept": lab.number(kept.min() if kept.size else None, "{:,.0f}"),
        "trap-empty": lab.number(empty.min() if empty.size else None, "{:,.0f}"),
    }


def _mnist() -> dict[str, str]:
    def values(setting: str, metric: str) -> np.ndarray:
        return _values(MNIST, setting, "SVBNN", metric)

    def mean(setting: str, metric: str, form: str) -> str:
        return average(values(setting, metric), form)

    def error(setting: str, metric: str) -> str:
        return average(100 - values(setting, metric), "{:.1f}")

    def epochs(setting: str) -> str:
        found = [row for row in lab.compare(f"svbnn-{MNIST}") if row["setting"] == setting and row["budget"]]
        return lab.number(found[0]["budget"] if found else None)

    return {
        "exact-runs": lab.number((runs := values("exact", "accuracy")).size or None, of=[runs]),
        "exact-epochs": epochs("exact"),
        "tempered-epochs": epochs("tempered"),
        "exact-error": error("exact", "accuracy"),
        "exact-active": mean("exact", "sparsity", "{:.2f}"),
        "exact-selected": mean("exact", "sparsity_selected", "{:.2f}"),
        "exact-selected-error": error("exact", "accuracy_selected"),
        "exact-objective": mean("exact", "negative_elbo_nats", "{:,.0f}"),
        "empty-objective": mean("exact", "nll_null_nats", "{:,.0f}"),
        "tempered-error": error("tempered", "accuracy"),
        "tempered-active": mean("tempered", "sparsity", "{:.1f}"),
        "tempered-scale": lab.number(CHOSEN["kl_scale"]),
        "tempered-objective": mean("tempered", "negative_elbo_nats", "{:,.0f}"),
    }

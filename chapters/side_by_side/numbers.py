"""Numbers from the store that the chapter side by side says in its text."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import spearmanr

from bnnlib.contest import METHODS
from book import lab
from book.lab import catalog
from book.lab.intervals import estimate
from book.lab.queries import Rows
from chapters.shared.said import average
from chapters.side_by_side import kept
from chapters.side_by_side.matrix import SIMULATIONS
from chapters.side_by_side.signed_rank import gaps, signed_rank
from chapters.side_by_side.standing import KEEPS_ALL, experiment_of, standing, stored_budgets, values
from chapters.side_by_side.uci import SMALL
from chapters.side_by_side.uci import TASKS as TABLES

SHORT = {"simulation-2": "second", "sparse-teacher": "teacher", "correlated": "correlated"}
WIDELY = {"noise": "unit_noise", "vd": "sparse_vd", "dirac": "spike_slab", "pruned": "gradual_pruning"}
LAST_TRIALS = "trials 2"
# on simulation II with learning rates up to 0.1, by sequence of trials
PASS_THE_LASSO = [{"unit_noise", "gradual_pruning"}, {"unit_noise"}, {"gaussian_spike_slab"}]
# key: (method, the other) of a difference in RMSE
PAIRS = {
    "gain": ("sghmc_sa", "ensemble"),
    "pruned": ("gradual_pruning", "ensemble"),
    "trees": ("gradient_boosting", "ensemble"),
    "lasso": ("lasso", "ensemble"),
}

# key, format, and what `values` is asked for
AVERAGES = (
    ("coverage-ensemble", "{:.1f}", "simulation-2", 1, "ensemble", "coverage"),
    ("coverage-one", "{:.1f}", "simulation-2", 1, "deterministic", "coverage"),
    ("lasso-error", "{:.0f}", "simulation-2", 1, "lasso", "selection_error"),
    ("lasso-missed", "{:.0f}", "simulation-2", 1, "lasso", "fnr"),
    ("spike-wrong", "{:.0f}", "simulation-2", 1, "spike_slab", "fpr"),
    ("gauss-missed", "{:.0f}", "simulation-2", 1, "gaussian_spike_slab", "fnr"),
    ("one-default", "{:.2f}", "simulation-2", 1, "deterministic", "rmse", "default"),
    ("one-tuned", "{:.2f}", "simulation-2", 1, "deterministic", "rmse"),
    ("pruned-wrong", "{:.0f}", "simulation-2", 4, "gradual_pruning", "fpr"),
    ("energy-ensemble", "{:.2f}", "energy", 1, "ensemble", "rmse"),
    ("energy-one", "{:.2f}", "energy", 1, "deterministic", "rmse"),
    ("gauss-missed-other", "{:.0f}", "simulation-2", 1, "gaussian_spike_slab", "fnr", "trials 1"),
    ("wide-gauss-error-4", "{:.0f}", "simulation-2", 4, "gaussian_spike_slab", "selection_error", kept.WIDE),
    ("wide-noise-error-4", "{:.0f}", "correlated", 4, "unit_noise", "selection_error", kept.WIDE),
    ("lasso-error-correlated", "{:.0f}", "correlated", 4, "lasso", "selection_error"),
)


def _gap(task: str, method: str, other: str, budget: int = 1, metric: str = "rmse", kind: str = "tuned") -> lab.Said:
    one, two = (values(task, budget, name, metric, kind) for name in (method, other))
    overlap = catalog.get(experiment_of(task)).overlap
    return lab.gap(*estimate((one - two).tolist(), overlap)) if len(one) == len(two) > 1 else lab.number(None)


def numbers(rows: Mapping[str, Rows] | None = None) -> dict[str, str]:
    """The texts by key; `rows` are not asked, the comparison reads the store by itself."""
    said: dict[str, str] = {}
    for task, short in SHORT.items():
        for key, (method, other) in PAIRS.items():
            said[f"{key}-{short}"] = _gap(task, method, other)
    for task, short in SHORT.items():
        for key, method in (("gain", "sghmc_sa"), ("dirac", "spike_slab"), ("vd", "sparse_vd")):
            said[f"{key}-{short}-4"] = _gap(task, method, "ensemble", 4)
        said[f"ahead-{short}-4"] = _gap(task, "sparse_vd", "sghmc_sa", 4)
        said[f"knockoffs-missed-{short}"] = average(values(task, 1, "knockoffs", "fnr"), "{:.0f}")
        false = values(task, 1, "lasso", "fdr")
        assert not len(false) or false.mean() > 50.0, f"{task}: most that the lasso takes is false"
        said[f"lasso-false-{short}"] = average(false, "{:.0f}")
    for key, form, *cell in AVERAGES:
        said[key] = average(values(*cell), form)
    said["energy-gap"] = _gap("energy", "deterministic", "ensemble")
    parts = (_selecting, _kept, _wide, _wide_later, _trials, _images, _attacked, _tables, _tables_wide, _tables_later)
    return said | {key: text for part in parts for key, text in part().items()}


def _selecting() -> dict[str, str]:
    """How many networks select at all, and how many of these err decidedly more than the lasso in all that has run."""
    able = [one for one in METHODS if one not in KEEPS_ALL]
    every = [kept.by_trials(task, "selection_error", "lasso") for task in SHORT]
    words = [{found[one]["verdict"] for three in every for found in three} for one in able] if all(every) else []
    worse = lab.number(words.count({"worse"}) if words else None, "{:.0f}", ordered=True)
    return {"selects": lab.number(len(able), "{:.0f}"), "selects-worse": worse}


def _kept() -> dict[str, str]:
    """On how many pairs of a small table and a method the other rule for the state that is kept has run."""
    return {"kept-tables": lab.number(sum(len(kept.effects(task)) for task in SMALL) or None, "{:.0f}")}


def _wide() -> dict[str, str]:
    """What learning rates up to 0.1 and 0.3 change in the simulations, beside the ensemble with them."""
    said: dict[str, str] = {}
    yes, no = "better", "undecided"
    boxes: dict[str, tuple[str, dict[str, list[str]], set[str], list[str]]] = {
        kept.WIDE: (
            "wide",
            {"noise": [yes, yes, no], "vd": [yes] * 3, "dirac": [yes, yes, no], "pruned": [no, yes, no]},
            {"unit_noise", "gradual_pruning"},
            ["tie"] * 3,
        ),
        "widest box": (
            "widest",
            {"noise": [yes] * 3, "vd": [no, yes, yes], "dirac": [yes] * 3, "pruned": [no] * 3},
            set(),
            ["worse", "tie", "tie"],
        ),
    }
    for box, (name, ahead, ahead_of_lasso, ensemble) in boxes.items():
        found: dict[str, list[str]] = {key: [] for key in WIDELY}
        itself = []
        for task, short in SHORT.items():
            beside = kept.beside(task, reference="ensemble", rule=box)
            for key, method in WIDELY.items():
                if name == "wide":
                    said[f"wide-{key}-{short}"] = _gap(task, method, "ensemble", kind=box)
                found[key] += [beside[method]["verdict"]] if beside else []
            assert not beside or beside["sghmc_sa"]["verdict"] == yes, "the sampler's lead stays"
            itself += [kept.effects(task, rule=box)["ensemble"]["verdict"]] if beside else []
            inputs = kept.beside(task, "selection_error", "lasso", box)
            passed = {one for one, row in inputs.items() if row["verdict"] == yes}
            assert not inputs or passed == (ahead_of_lasso if task == "simulation-2" else set()), "who passes the lasso"
            if inputs and task == "simulation-2":
                fallen = {"wide": yes, "widest": "worse"}[name]
                assert inputs["unit_noise"]["verdict"] == fallen, "structured Bayesian pruning beside the lasso"
        assert all(found[key] in (verdicts, []) for key, verdicts in ahead.items()), found
        assert itself in (ensemble, []), "the ensemble beside itself"
        first = kept.beside("simulation-2", reference="unit_noise", rule=box)
        sampler = {"wide": "worse", "widest": no}[name]
        assert not first or first["sghmc_sa"]["verdict"] == sampler, "whether it passes the sampler"
        assert name == "widest" or {row["verdict"] for row in first.values()} <= {"worse"}, "the most accurate of all"
        wrong = [values(task, 1, "spike_slab", "fpr", box) for task in SHORT]
        same = [one.mean() for one in wrong if len(one)]
        middle = same[1:2] if name == "wide" else [100.0]
        assert same in ([100.0, *middle, 100.0], []), "all as before, but on the sparse teacher up to 0.1"
        if name == "wide":
            said["wide-dirac-wrong"] = average(wrong[1], "{:.0f}")
    return said


def _wide_later() -> dict[str, str]:
    """What learning rates up to 0.1 change in the simulations at four times the budget, see PROTOCOL, (b)."""
    words: dict[str, list[str]] = {"sparse_vd": [], "spike_slab": [], "unit_noise": [], "of the sampler": []}
    passed = {}
    for task in SHORT:
        beside, first, inputs = (
            kept.beside(task, metric, reference, kept.WIDE, 4)
            for metric, reference in (("rmse", "ensemble"), ("rmse", "sghmc_sa"), ("selection_error", "lasso"))
        )
        if beside:
            words["sparse_vd"].append(first["sparse_vd"]["verdict"])
            words["of the sampler"].append(first["unit_noise"]["verdict"])
            for one in ("spike_slab", "unit_noise"):
                words[one].append(beside[one]["verdict"])
            passed[task] = [one for one, row in inputs.items() if row["verdict"] == "better"]
    yes, no = "better", "undecided"
    assert words["sparse_vd"] in ([], [yes] * 3), "ahead of the sampler, which keeps its box"
    assert words["spike_slab"] in ([], [yes, yes, no]), "the Dirac form, beside the ensemble"
    assert words["unit_noise"] in ([], [yes] * 3) and words["of the sampler"] in ([], [no, no, yes]), words
    assert list(passed.values()) in ([], [["gaussian_spike_slab"], [], ["unit_noise"]]), "who passes the lasso"
    return {}


def _trials() -> dict[str, str]:
    """What three sequences of eight trials agree on, with learning rates up to 0.03 and to 0.1."""
    said: dict[str, str] = {}
    shown = {**WIDELY, "sampler": "sghmc_sa"}
    better: dict[tuple[str, str], list[int | None]] = {(key, task): [] for key in shown for task in SHORT}
    for wide, box in ((False, ""), (True, "-wide")):
        passed, turned = [], {}
        for name, metric, reference in (("trials", "rmse", "ensemble"), ("inputs", "selection_error", "lasso")):
            every = {task: kept.by_trials(task, metric, reference, wide) for task in SHORT}
            words = {
                (one, task): [found[one]["verdict"] for found in three]
                for task, three in every.items()
                for one in METHODS
                if three and one in three[0]
            }
            alike = [len(set(three)) == 1 for three in words.values()]
            whole = all(every.values())
            said[f"{name}-all"] = lab.number(len(alike) if whole else None, "{:.0f}")
            said[f"{name}-same{box}"] = lab.number(sum(alike) if whole else None, "{:.0f}", ordered=True)
            turned[name] = {one for one, three in words.items() if {"better", "worse"} <= set(three)}
            if name == "inputs":
                passed = [{one for one, three in words.items() if three[k] == "better"} for k in range(3)]
                behind = {one for one in turned[name] if "undecided" not in words[one]}
                assert behind == ({(one, "simulation-2") for one in PASS_THE_LASSO[0]} if wide and whole else set())
                continue
            least, most = (0.5, 0.6) if wide else (0.4, 0.5)
            assert not whole or least < 1 - sum(alike) / len(alike) < most, "in nearly half, with larger rates in more"
            for (key, task), counts in better.items():
                three = words.get((shown[key], task))
                counts.append(three.count("better") if three else None)
        second = [{(one, "simulation-2") for one in names} for names in PASS_THE_LASSO]
        assert passed in ([set()] * 3, second if wide else []), "who passes the lasso"
        assert turned["trials"] <= ({("unit_noise", "sparse-teacher")} if wide else set()), "none turns round"
    for (key, task), counts in better.items():
        text = None if None in counts else "; ".join(map(str, counts))
        said[f"trials-{key}-{SHORT[task]}"] = lab.number(text, ordered=True)
    teacher = kept.by_trials("sparse-teacher", "rmse", "ensemble")
    adam, sgd = ([found[one]["verdict"] for found in teacher] for one in ("deterministic", "deterministic_sgd"))
    assert adam in ([], ["worse", "undecided", "undecided"]), "the one network beside the ensemble"
    assert sgd in ([], ["better", "undecided", "undecided"]), "and that of SGD, which is"
    assert [found["deterministic_sgd"]["difference"] > 0.0 for found in teacher] in ([], [False, True, False]), "either"
    said["trials-lost"] = _gap("simulation-2", "sghmc_sa", "ensemble", kind=LAST_TRIALS)
    found = kept.beside("simulation-2", "rmse", "ensemble", LAST_TRIALS)
    assert not found or found["sghmc_sa"]["verdict"] == "undecided", "the sampler's lead that goes"
    first = [found["unit_noise"]["verdict"] for found in kept.by_trials("simulation-2", "rmse", "sghmc_sa", wide=True)]
    assert first in ([], ["better", "better", "undecided"]), "passes the sampler in two draws of three"
    return said


def _images() -> dict[str, str]:
    """What both sets of images say beside networks trained by Adam and by SGD."""
    said: dict[str, str] = {}
    for key, task in (("mnist", "MNIST"), ("fashion", "Fashion-MNIST")):
        said[f"{key}-sgd"] = _gap(task, "deterministic_sgd", "deterministic", metric="accuracy")
        said[f"{key}-draws"] = _gap(task, "stochastic_batch_norm", "batch_norm", metric="accuracy")
        said[f"{key}-above-adam"] = _above(task, "deterministic")
        said[f"{key}-noise"] = _gap(task, "sghmc", "deterministic_sgd", metric="nll_noise_3")
        ranks = None
        if 1 in stored_budgets(task):
            pair = [[values(task, 1, one, each).mean() for one in METHODS] for each in ("accuracy", "auroc_unknown")]
            ranks = f"{spearmanr(*pair).statistic:+.2f}".replace("-", "−")
        said[f"{key}-ranks"] = lab.number(ranks)
    for short, method in (("prior", "sghmc_sa"), ("ensemble", "ensemble")):
        gap = _gap("Fashion-MNIST", method, "deterministic_sgd", metric="auroc_unknown")
        said[f"fashion-noticed-{short}"] = gap
        for severity, ahead in ((3, set()), (5, {"adaptive_variational"})) if ranks else ():
            blurred = _verdicts(task, 1, f"nll_blur_{severity}", "sghmc")
            assert {one for one, verdict in blurred.items() if verdict == "better"} == ahead, "who is lower in blur"
        sharp = [values(task, 1, one, "accuracy") for one in ("adaptive_variational", "sghmc")] if ranks else [0, 0]
        assert not ranks or lab.shows(estimate((sharp[0] - sharp[1]).tolist()), -1), "and errs more on sharp images"
    laplace = _verdicts("MNIST", 1, "auroc_unknown", "deterministic").get("laplace", "better")
    assert laplace == "better", "by other settings, not by draws"
    said["mnist-above-sgd"] = _above("MNIST", "deterministic_sgd")
    said["mnist-batch-norm-sgd"] = _gap("MNIST", "batch_norm", "deterministic_sgd", metric="accuracy")
    return said | {"fashion-batch-norm": _gap("Fashion-MNIST", "batch_norm", "deterministic", metric="accuracy")}


def _above(task: str, reference: str) -> lab.Said:
    """How many methods are decidedly more accurate than the reference."""
    above = [*_verdicts(task, 1, "accuracy", reference).values()]
    return lab.number(above.count("better") if len(above) == len(METHODS) else None, "{:.0f}", ordered=True)


def _attacked() -> dict[str, str]:
    """What ten steps of a projected gradient leave of MNIST's images, and what a removed unit saves of the time."""
    task, metric = "MNIST, attacked", "accuracy_pgd_0.1"
    said = {
        f"attacked-{key}": _gap(task, method, "deterministic", metric=metric, kind="default")
        for key, method in (("sgd", "deterministic_sgd"), ("sghmc", "sghmc"))
    }
    resists = {"vd": "sparse_vd", "lasso": "group_lasso", "avo": "adaptive_variational", "gauss": "gaussian_spike_slab"}
    shown = [("attacked-one", "deterministic", metric)]
    for key, method in resists.items():
        shown += [(f"attacked-{key}", method, metric), (f"attacked-{key}-before", method, "accuracy")]
    for key, method, measure in shown:
        said[key] = average(values(task, 1, method, measure, "default"), "{:.0f}")
    whole = values(task, 1, "deterministic", "milliseconds_dense", "default")
    fast = {"gaussian_spike_slab": "gauss", "sparse_vd": "vd", "group_lasso_adam": "lasso", "small_dense": "small"}
    for method in METHODS:
        parts = values(task, 1, method, "milliseconds_compressed", "default")
        dense = whole if method == "small_dense" else values(task, 1, method, "milliseconds_dense", "default")
        known = len(parts) and len(parts) == len(dense)
        share = 100.0 * parts / dense if known else np.zeros(1)
        assert method in fast or not known or share.mean() > 80.0, f"{method} gains a fifth"
        if key := fast.get(method):
            text = f"{share.min():.0f} to {share.max():.0f}" if key in ("vd", "lasso") else f"{share.mean():.0f}"
            said[f"time-{key}"] = lab.number(text if known else None, of=[parts, dense])
    right = [values(task, 1, one, "accuracy", "default").mean() for one in ("deterministic", *fast) if known]
    assert right == sorted(right, reverse=True)[:1] + right[1:], "the one network is right on the most images"
    assert not right or right[3] == max(right[1:4]), "and of the three that are fast the group lasso"
    return said


def _tables() -> dict[str, str]:
    """What nine UCI sets say beside one network: counts of data sets whose difference is decided, and chances."""
    beside = [_verdicts(name, 1, "rmse", "deterministic") for name in TABLES]
    whole = all(set(METHODS) <= set(one) for one in beside)
    count = {one: [found.get(one) for found in beside] for one in METHODS}
    most = max(one.count("better") for one in count.values())
    said = {"tables-most": lab.number(most if whole else None, "{:.0f}", ordered=True)}
    shown = {"sampler": "sghmc_sa", "pruned": "gradual_pruning", "lasso-adam": "group_lasso_adam"}
    for key, method in (shown | {"ensemble": "ensemble"}).items():
        said[f"tables-{key}"] = lab.number(count[method].count("worse") if whole else None, "{:.0f}", ordered=True)
    for key, method in (("trees", "gradient_boosting"), ("forest", "random_forest")):
        rival = [found.get(method) for found in beside]
        said[f"tables-{key}"] = lab.number(rival.count("better") if all(rival) else None, "{:.0f}", ordered=True)
        assert dict(zip(TABLES, rival, strict=True))["kin8nm"] in (None, "worse"), "the network is ahead of both"
    return said


def _tables_wide() -> dict[str, str]:
    """What learning rates up to 0.1 change on nine UCI sets beside one network with them, see PROTOCOL, (a)."""
    every = [kept.beside(name, "rmse", "deterministic", kept.WIDE) for name in TABLES]
    whole = all(every)
    better = [{one for one, row in found.items() if row["verdict"] == "better"} for found in every]
    assert not whole or not set(METHODS) & set().union(*better), "one network first, with either range"
    assert not whole or [name for name, one in zip(TABLES, better, strict=True) if one] == ["power", "protein"], better
    worse = [found["ensemble"]["verdict"] for found in every].count("worse") if whole else None
    trees = sum("gradient_boosting" in one for one in better) if whole else None
    counts = {"ensemble": worse, "trees": trees}
    return {f"wide-tables-{key}": lab.number(count, "{:.0f}", ordered=True) for key, count in counts.items()}


def _tables_later() -> dict[str, str]:
    """What the nine sets say beside one network at four times the budget."""
    said: dict[str, str] = {"four-noise-yacht": _gap("yacht", "unit_noise", "deterministic", 4)}
    beside = [_verdicts(name, 4, "rmse", "deterministic") for name in TABLES]
    whole = all(set(METHODS) <= set(one) for one in beside)
    for key, method in (("noise-worse", "unit_noise"), ("ensemble", "ensemble")):
        worse = [found.get(method) for found in beside].count("worse")
        said[f"four-{key}"] = lab.number(worse if whole else None, "{:.0f}", ordered=True)
    likely = {"group_lasso", "group_lasso_adam", "deterministic_sgd"}
    if whole:
        assert _likely(4) == likely, "of whom better is the most likely outcome"
        assert not _likely(4, region=0.03) | _likely(4, without="boston") | _likely(4, without="yacht"), "barely"
        by_fit = _verdicts("yacht", 4, "rmse", "deterministic", overlap=10 / 72)
        assert by_fit["unit_noise"] == "undecided", "by the rows of the fit"
    decided = [one.get(method) for method in likely for one in beside]
    assert not whole or "better" not in decided, "and it is decided nowhere"
    trees = [one.get("gradient_boosting") for one in beside]
    assert not whole or [t for t, one in zip(TABLES, trees, strict=True) if one == "better"] == ["power", "protein"]
    return said


def _verdicts(task: str, budget: int, metric: str, beside: str | None = None, **more) -> dict[str, str]:
    """What is decided of each method."""
    return {row["method"]: row["verdict"] for row in standing(task, budget, metric, beside=beside, **more)}


def _likely(budget: int, region: float = 0.02, without: str = "") -> set[str]:
    """The networks for which better than the one network is the most likely outcome on the next table."""
    tasks = tuple(one for one in TABLES if one != without)
    others = [one for one in METHODS if one != "deterministic"]
    chances = {one: signed_rank(gaps(tasks, budget, one, "rmse", "deterministic"), region) for one in others}
    return {one for one, chance in chances.items() if chance[0] > max(chance[1:])}


def verdicts(method: str, metric: str, budget: int = 1) -> list[str]:
    """What is decided of a method on the three simulations; "not run" where nothing is stored."""
    return [_verdicts(task, budget, metric).get(method, "not run") for task in SIMULATIONS]

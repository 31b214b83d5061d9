"""Numbers from the store that the chapter on structured Bayesian pruning says, and what it claims of them."""

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from book import lab
from book.lab.intervals import chance
from book.lab.queries import Rows
from chapters.shared.said import average, holds, less, told
from chapters.unit_noise.experiments import mnist, overhead, vgg_causes, widths
from chapters.unit_noise.experiments.images import TOLERANCE
from chapters.unit_noise.experiments.mnist_causes import EQUAL

FIVE, THREE = "LeNet-5", "LeNet-500-300"
WEIGHTED = "SBPa"
LABELS = "MNIST, MLP"
ALL_LABELS = f"{LABELS}, all images"
SCRIPT = "SBP, noise at the weights' rate"  # as in the script of LeNet-5
VGG = "k=1.0"


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("sbp-name")` returns}, for all experiments of the chapter.

    Raises:
        AssertionError: what is stored no longer says what the text says; nothing is asked of what is not stored.
    """
    texts = _digits(rows["mnist"]) | _script() | _lengths() | _vgg(rows["vgg"])
    return texts | _random_labels(rows["random-labels"])


def _digits(rows: Rows) -> dict[str, str]:
    def weights(setting: str) -> str:
        label = f"{setting}, {WEIGHTED} with kl_weights="
        given = (row["setting"][len(label) :] for row in rows if row["setting"].startswith(label))
        return lab.number(next(given, None))

    texts = {
        "lenet5-weights": weights(FIVE),
        "lenet300-weights": weights(THREE),
        "fixed-runs": _runs(rows, "SBPa, fixed mu"),
    }
    texts["lenet5-flops"] = lab.mean(lab.stored_values("sbp-mnist", FIVE, "SBPa", "flops_ratio"), "{:.1f}")
    for key, setting in (("five", FIVE), ("three", THREE)):
        for method in ("SBP", WEIGHTED):
            pair = "sbp-mnist", setting, method, "Original", "error_test"
            # the text: on LeNet-5 every run has more errors, decided for SBP alone; on LeNet-500-300 nothing is
            texts[f"{key}-{method}-less-original"] = told(*pair, sign=int((key, method) == ("five", "SBP")))
            ours, dense = (lab.stored_values("sbp-mnist", setting, one, "error_test") for one in (method, "Original"))
            assert key != "five" or (ours > dense).all()
            if (key, method) == ("five", "SBP"):  # the text: not as one of four, by Holm's correction
                mean, error, n = lab.paired_difference(*pair)
                assert not n or 4 * chance(mean, error, n - 1) > 0.05
    rates = lab.get("sbp-mnist").profiles["book"]()
    decay = {cell.params["weight_decay"] for cell in rates if cell.method.startswith("SBP")}
    assert decay == {mnist.SBP_DECAY} == {1e-4}  # the text, and claims.toml
    texts["decay-nats"] = f"{55_000 * mnist.SBP_DECAY / 2:.2f}"  # of the mean loss, over all images
    for key, setting in (("five", FIVE), ("three", THREE)):
        for method in ("Original", "SBP", WEIGHTED, "SSL", "SparseVD"):
            spent = (row["budget"] for row in rows if (row["setting"], row["method"]) == (setting, method) and row["n"])
            runs = [lab.stored_values("sbp-mnist", setting, method, "error_test")]
            texts[f"epochs-{key}-{method}"] = lab.number(next(spent, None), "{:.0f}", of=runs)
    return texts | _overhead() | _exact_price() | _times() | _free_location()


def _overhead() -> dict[str, str]:
    """Times with the layer of noise over those without it, of the bare layer and of what is used."""
    texts = {}
    for what in ("step", "prediction"):
        for key, setting in (("five", FIVE), ("three", THREE), ("vgg", "VGG-like")):
            found = lab.stored_values("sbp-overhead", setting, "SBP", f"{what}_ratio")
            texts[f"overhead-{what}-{key}"] = lab.mean(found, "{:.2f}")
            side = -1 if key == "vgg" else int((what, key) != ("prediction", "five"))
            # the limit as written down in experiments/overhead.py
            assert lab.shows(lab.estimate(found - 1.1), side), "small networks pay more than a tenth, once undecided"
            if key != "vgg":
                used = lab.stored_values("sbp-overhead", setting, overhead.USED, f"{what}_ratio")
                texts[f"used-{what}-{key}"] = lab.mean(used, "{:.2f}")
                side = -1 if (what, key) == ("prediction", "five") else 1
                assert lab.shows(lab.estimate(used - 1.1), side), "as used, one prediction pays less than a tenth"
    return texts


def _times() -> dict[str, str]:
    """How much faster the networks of the widths are that the exact price leaves, and those of the published widths."""
    texts = {}
    for key, setting in (("five", FIVE), ("three", THREE)):
        layers = [lab.stored_values("sbp-mnist", setting, "SBP", f"units_{k}") for k in range(1, 5)]
        kept = np.array([one for one in layers if len(one)]).T
        assert not len(kept) or kept.tolist() == widths.WIDTHS[setting], "other widths than the stored ones are timed"
        for batch, end in ((256, ""), (1, "-single")):
            found = lab.stored_values("sbp-mnist-times", setting, "SBP", f"cpu_batch_{batch}")
            assert lab.shows(lab.estimate(found - 1.0), 1), "the exact price makes both networks faster"
            texts[f"times-{key}{end}"] = lab.mean(found, "{:.1f}")
        printed = lab.stored_values("sbp-mnist-times", setting, "published widths", "cpu_batch_256")
        texts[f"times-{key}-published"] = lab.mean(printed, "{:.1f}")
    return texts


def _free_location() -> dict[str, str]:
    """A free location less a fixed one in pairs of runs: seven measures, of which the text says five."""
    other, arrays, texts = f"{WEIGHTED}, fixed mu", lab.stored_arrays("sbp-mnist"), {}

    def last(method: str) -> dict[str, np.ndarray]:  # of every replicate at the end; all but the units in nats
        keys = sorted(key[2] for key in arrays if (key[0], key[1], key[3]) == (FIVE, method, "units"))
        ends = {one: np.array([arrays[FIVE, method, k, one][-1].sum() for k in keys]) for one in ("nll", "kl", "units")}
        return ends | {"bound": -ends["nll"] - ends["kl"]}

    runs = [lab.stored_values("sbp-mnist", FIVE, one, "flops_ratio") for one in (WEIGHTED, other)]
    ends = last(WEIGHTED), last(other)
    for key, free, fixed in ((key, ends[0][key], ends[1][key]) for key in ("bound", "units", "nll", "kl")):
        mean, error, n = lab.estimate(free - fixed) if len(free) == len(fixed) and len(free) else (None, None, 0)
        # the text: of these the fit alone is decided, also as one of seven; the divergence is lower in every run
        assert not n or lab.side(mean, error, n) == (key == "nll"), key
        assert not n or key != "nll" or 7 * chance(mean, error, n - 1) < 0.05
        assert key != "kl" or (free < fixed).all()
        if key != "kl":
            said = None if not n else f"{mean:+.0f} ± {error:.0f}".replace("-", "−")
            texts[f"free-less-fixed-{key}"] = lab.number(said, runs=n or None, ordered=key == "nll", of=runs)
    for key, metric in {"flops": "flops_ratio", "error": "error_test"}.items():
        pair = "sbp-mnist", FIVE, WEIGHTED, other, metric
        # the text: operations are decided by themselves, errors are not
        texts[f"free-less-fixed-{key}"] = told(*pair, sign=int(key == "flops"))
    mean, error, n = lab.paired_difference("sbp-mnist", FIVE, WEIGHTED, other, "flops_ratio")
    # the text: as one of seven measures (weights are the seventh) operations are not, by Holm's correction
    assert not n or 6 * chance(mean, error, n - 1) > 0.05
    return texts


def _beside_one(found: np.ndarray, printed: float) -> tuple[float, float, int]:
    """Ours less a printed number of one network, whose spread is taken to be that of ours, as tables do."""
    mean, error, n = lab.estimate(found - printed)
    return mean, error * math.sqrt(1 + n), n


def _exact_price() -> dict[str, str]:
    """What SBP leaves with its exact divergence: all units of LeNet-5 and of LeNet-500-300, operations saved."""
    layers = [lab.stored_values("sbp-mnist", FIVE, "SBP", f"units_{k}") for k in range(1, 5)]
    saved = lab.stored_values("sbp-mnist", FIVE, "SBP", "flops_ratio")
    units = sum(layers[1:], layers[0])
    # the text: fewer units than published, more maps of the first convolution; fewer operations saved in every run,
    # which is undecided beside one network
    for found, printed, sign in ((units, 3 + 18 + 284 + 283, -1), (layers[0], 3, 1), (saved, 10.49, 0)):
        assert not len(found) or lab.shows(_beside_one(found, printed), sign), printed
    assert (saved < 10.49).all()
    dense = [lab.stored_values("sbp-mnist", THREE, "SBP", f"units_{k}") for k in range(1, 4)]
    kept = "-".join(f"{found.mean():.0f}" for found in dense) if dense[0].size else None
    tried = f"{THREE}, SBP with kl_weights=1/1/1, noise_factor="
    rates = {rate: lab.stored_values("sbp-mnist", f"{tried}{rate}", "SBP", "flops_ratio") for rate in (10, 100)}
    ours = lab.stored_values("sbp-mnist", THREE, "SBP", "flops_ratio")
    # the text: the faster noise was chosen in two runs of three (in the third neither was within the tolerance); with
    # either rate SBP saves more than published
    held = [lab.stored_values("sbp-mnist", f"{tried}{rate}", "SBP", "error_validation") for rate in (10, 100)]
    whole = lab.stored_values("sbp-mnist", THREE, "SBP", "error_validation_original")
    if ours.size and whole.size:
        far = np.min(held, axis=0) > whole + TOLERANCE
        assert ((ours == rates[100]) == ~far).all() and far.sum() == 1
    assert all(not len(found) or lab.shows(_beside_one(found, 11.23), 1) for found in rates.values())
    # the text: SBPa keeps more units than SBP
    heavy = [lab.stored_values("sbp-mnist", THREE, WEIGHTED, f"units_{k}") for k in range(1, 4)]
    assert not dense[0].size or not heavy[0].size or lab.shows(lab.estimate(sum(heavy) - sum(dense)), 1)
    return {
        "exact-units": lab.mean(units, "{:.0f}"),
        "exact-maps": lab.mean(layers[0], "{:.1f}"),
        "exact-flops": lab.mean(saved, "{:.1f}"),
        "exact-three-units": lab.number(kept, runs=len(dense[0]) or None, of=dense),
    } | {f"exact-three-{rate}": lab.mean(found, "{:.1f}") for rate, found in rates.items()}


def _script() -> dict[str, str]:
    """LeNet-5 as the published script trains and prunes it."""
    stored, usual = (
        [lab.stored_values(name, FIVE, "SBP", f"units_{k}") for k in range(1, 5)]
        for name in ("sbp-mnist-script", "sbp-mnist")
    )
    layers, ours = np.array(stored), np.array(usual)
    saved = lab.stored_values("sbp-mnist-script", FIVE, "SBP", "flops_ratio")
    *most, last = ["-".join(f"{found:.0f}" for found in run) for run in layers.T] or [""]
    kept = f"{', '.join(most)} and {last}" if most else last
    if layers.size and ours.size:  # the text: three runs, more units of every layer, linear ones nearer, maps farther
        assert layers.shape[1] == 3 and (layers.min(1) > ours.max(1)).all()
        assert (layers[:2].min(1) > [3, 18]).all() and (layers[2:].max(1) < [284, 283]).all()
        assert np.abs(layers[1] - 18).min() > np.abs(ours[1] - 18).max()
        assert (saved < lab.stored_values("sbp-mnist", FIVE, "SBP", "flops_ratio").min()).all()  # claims.toml
    return {
        "script-units": lab.number(kept or None, runs=layers.shape[1] or None, of=stored),
        "script-flops": lab.mean(saved, "{:.2f}"),
    }


def _lengths() -> dict[str, str]:
    """Times fewer operations after SparseVD at three lengths, of which the longest is that of SBP, and its epochs."""
    texts = {}
    shorter, longer = "sbp-mnist-causes", "sbp-mnist"
    for key, setting in (("three", THREE), ("five", FIVE)):
        names = (shorter, longer, EQUAL) if setting == THREE else (longer, shorter)  # LeNet-5 has not run as long
        found = [lab.stored_values(name, setting, "SparseVD", "flops_ratio") for name in names]
        # the text: the longer, the more, in every run
        assert all((more > fewer).all() for fewer, more in pairwise(found) if len(fewer) == len(more))
        saved = lab.stored_values("sbp-mnist", setting, "SBP", "flops_ratio")
        for values in found:
            assert lab.shows(less(saved, values), 1), setting
        for place, values in zip(("few", "more", "equal"), found, strict=False):
            texts[f"vd-{key}-{place}"] = average(values, "{:.1f}", len(values))
        texts[f"vd-{key}-sbp"] = average(saved, "{:.1f}")
        spent = (
            row["budget"]
            for row in lab.compare(shorter)
            if row["setting"] == setting and row["method"] == "SparseVD" and row["n"]
        )
        texts[f"vd-{key}-epochs"] = lab.number(next(spent, None), "{:.0f}", of=[found[names.index(shorter)]])
    return texts


def _runs(rows: Rows, method: str) -> str:
    """How many runs a method has on LeNet-5, in words."""
    found = next((r["n"] for r in rows if (r["setting"], r["method"], r["metric"]) == (FIVE, method, "error_test")), 0)
    runs = [lab.stored_values("sbp-mnist", FIVE, method, "error_test")]
    return lab.number({1: "one run", 2: "two runs", 3: "three runs"}.get(found), of=runs)


def _vgg(rows: Rows) -> dict[str, str]:
    def found(method: str, metric: str) -> float | None:
        return lab.stored_mean(rows, VGG, method, metric)

    def units(method: str) -> float | None:
        layers = [found(method, f"units_{k}") for k in range(1, 15)]
        return None if None in layers else sum(layers)

    _check_published(rows)
    whole, left = units("Original"), {method: units(method) for method in ("SBP", "SBPa")}
    gone = {method: None if None in (whole, one) else whole - one for method, one in left.items()}
    assert all(one is None or one < 0.05 * whole for one in gone.values())
    profiles = lab.get("sbp-vgg").profiles
    ours, paper = (next(cell.params for cell in profiles[one]() if cell.method == "SBP") for one in ("book", "paper"))
    return (
        {
            "vgg-epochs": f"{ours['epochs']}",
            "vgg-rate": f"{ours['learning_rate'] / paper['learning_rate']:.3g}",
            "vgg-all": lab.number(whole, "{:.0f}"),
            "vgg-gone": lab.number(gone["SBP"], "{:.0f}"),
            "vgg-a-gone": lab.number(gone["SBPa"], "{:.0f}"),
            "vgg-distance": f"{_distance(ours):.1f}",
            "vgg-distance-paper": f"{1e-4 * 50_000 / 100 * (250 + 50 / 2):.2f}",  # the schedule is in vgg_causes.py
        }
        | _vgg_curves()
        | _narrow()
    )


def _check_published(rows: Rows) -> None:
    """The text: two published rows of the VGG-like network agree in eight of fourteen layers, the wider ones in six."""
    for setting, count in ((VGG, 8), ("k=1.5", 6)):
        published = {(row["method"], row["metric"]): row["published"] for row in rows if row["setting"] == setting}
        same = [published["SBP", f"units_{k}"] == published["SparseVD", f"units_{k}"] for k in range(1, 15)]
        assert sum(same) == count


def _distance(params: dict) -> float:
    """How far Adam can move log(sigma) at all: the noise's rate, linear to zero, summed over the steps."""
    steps = -(-(50_000 - params["held_out"]) // params["batch_size"]) * params["epochs"]
    return params["learning_rate"] * params["noise_factor"] * steps / 2


def _narrow() -> dict[str, str]:
    """Units that go from a network of a quarter of the width, by the distance of its noise and what it fits."""
    stored, texts = lab.stored_arrays("sbp-vgg-causes"), {}
    runs = {
        "far": ("k=0.25", "SBP, farther"),
        "heart": ("k=0.25, by heart", "SBP"),
        "heart-far": ("k=0.25, by heart", "SBP, farther"),
    }
    whole, gone = None, {}
    for key, (setting, method) in runs.items():
        units = stored.get((setting, method, 0, "units"))
        if units is not None:
            whole, gone[key] = units[0].sum(), units[0].sum() - units[-1].sum()
        layers = [lab.stored_values("sbp-vgg-causes", setting, method, f"units_{k}") for k in range(1, 15)]
        texts[f"vgg-{key}"] = lab.number(gone.get(key), "{:.0f}", 1, of=layers)
    if len(gone) == len(runs):  # the text: in one pair the distance matters, but not enough
        assert gone["heart-far"] > gone["heart"] and max(gone.values()) < 0.1 * whole
    crossed = {
        one: lab.stored_values("sbp-vgg-causes", one, vgg_causes.ALONE, "crossed_epoch") for one in vgg_causes.SCHEDULES
    }
    for key, one in (("", "SBP"), ("-far", "SBP, farther"), ("-paper", "published")):
        texts[f"vgg-alone{key}"] = lab.number(next(iter(crossed[one]), None), "{:.0f}", of=[crossed[one]])
    return texts | {"vgg-narrow": lab.number(whole, "{:,.0f}", of=layers)}


def _vgg_curves() -> dict[str, str]:
    """How far SBP and SBPa of the VGG-like network have come: where SBP prunes, and the first epoch of both."""
    stored = lab.stored_arrays("sbp-vgg")
    curves = [stored.get((VGG, method, 0, "units")) for method in ("SBP", WEIGHTED)]
    if any(one is None for one in curves):
        return {f"vgg-{key}": lab.number(None) for key in ("first", "from")}
    runs = [lab.stored_values("sbp-vgg", VGG, method, "units_14") for method in ("SBP", WEIGHTED)]
    totals = [one.sum(1) for one in curves]
    layers = np.flatnonzero(curves[0][-1] < curves[0][0]) + 1
    # the text: both runs ended on the way; no early layer has lost a unit
    assert all(one[-6] > one[-1] for one in totals) and layers[0] > 7
    first = 1 + min(np.flatnonzero(one < one[0])[0] for one in totals)
    return {
        "vgg-first": lab.number(first, "{:.0f}", 1, of=runs),
        "vgg-from": lab.number(layers[0], "{:.0f}", 1, of=runs[:1]),
    }


def _random_labels(rows: Rows) -> dict[str, str]:
    def bounds(method: str, epoch: int = -1, setting: str = LABELS) -> np.ndarray:  # -(N nll + kl) of every replicate
        curves = lab.stored_arrays("sbp-random-labels")
        return np.array(
            [-v[epoch, 2:].sum() for k, v in sorted(curves.items()) if (k[0], k[1], k[3]) == (setting, method, "curve")]
        )

    texts = {}
    for key, method, metric, low, high in (
        ("random-dropout", "Dropout", "accuracy_train", 90, 100),
        ("random-sbp", "SBP", "accuracy_train", 0, 20),
        ("random-removed", "SBP", "removed", 99, 100),
        ("random-slow", "SBP, slow noise", "accuracy_train", 90, 100),
        ("random-slow-removed", "SBP, slow noise", "removed", 0, 50),
        ("random-script", SCRIPT, "accuracy_train", 90, 100),
        ("random-script-removed", SCRIPT, "removed", 0, 50),
    ):
        mean = lab.stored_mean(rows, LABELS, method, metric)
        assert mean is None or low <= mean <= high
        texts[key] = lab.number(mean, "{:.1f}" if metric == "accuracy_train" else "{:.0f}")
    for key, method in (("random-all-sbp", "SBP"), ("random-all-slow", "SBP, slow noise")):
        right, removed = (lab.stored_mean(rows, ALL_LABELS, method, metric) for metric in ("accuracy_train", "removed"))
        assert removed is None or (removed == 100 and right < 15)
        texts[key] = lab.number(right, "{:.1f}")
    right = lab.stored_mean(rows, ALL_LABELS, "Dropout", "accuracy_train")
    assert right is None or right < 15  # as was written down before it ran: slow noise's refusal then says nothing
    texts["random-all-dropout"] = lab.number(right, "{:.1f}")
    texts |= _script_on_all(rows, bounds(SCRIPT, setting=ALL_LABELS))
    runs = lab.stored_values("sbp-random-labels", LABELS, SCRIPT, "removed")
    texts["random-script-bound"] = _above_refusing(bounds(SCRIPT), 5_000, runs)
    # the text: on the few images, that it learns more labels than dropout is undecided
    holds("sbp-random-labels", LABELS, SCRIPT, "Dropout", "accuracy_train", sign=0)
    texts["random-all-epochs"] = lab.number(next((row["budget"] for row in rows if row["setting"] == ALL_LABELS), None))
    slow, fast = bounds("SBP, slow noise"), bounds("SBP")
    if not len(slow) or len(slow) != len(fast):
        return texts | {"random-bound-gap": lab.number(None)}
    gaps = slow - fast  # the replicates share their labels
    assert (gaps > bounds("SBP, slow noise", -11) - bounds("SBP", -11)).all(), "the gaps still grow"
    mean, error, n = lab.estimate(gaps)
    assert lab.side(mean - 1_000, error, n) == 1
    runs = [lab.stored_values("sbp-random-labels", LABELS, one, "removed") for one in ("SBP, slow noise", "SBP")]
    text, decided = f"{mean:,.0f} ± {error:.0f}", lab.decided(mean, error, n)
    return texts | {"random-bound-gap": lab.number(text, runs=n, ordered=decided, of=runs)}


def _script_on_all(rows: Rows, bounds: np.ndarray) -> dict[str, str]:
    """SBP on all random labels with noise at the weights' rate; `bounds` of every replicate, in nats."""
    name, texts = "sbp-random-labels", {}
    for key, metric in (("random-all-script", "accuracy_train"), ("random-all-script-removed", "removed")):
        mean = lab.stored_mean(rows, ALL_LABELS, SCRIPT, metric)
        texts[key] = lab.number(mean, "{:.1f}" if metric == "accuracy_train" else "{:.0f}")
    right = lab.stored_values(name, ALL_LABELS, SCRIPT, "accuracy_train")
    # as was written down before these runs: all three have more than 15 % right, and more than dropout has
    assert (right > 15).all()
    pair = name, ALL_LABELS, SCRIPT, "Dropout", "accuracy_train"
    texts["random-all-script-ahead"] = told(*pair, sign=1, digits=1)
    return texts | {"random-all-script-bound": _above_refusing(bounds, 60_000, right)}


def _above_refusing(bounds: np.ndarray, images: int, runs: np.ndarray) -> str:
    """By how much bounds in nats are above -N log 10, that of refusing."""
    above = bounds + images * math.log(10)
    mean, error, n = lab.estimate(above)
    assert (above > 0).all() and lab.shows((mean, error, n), 1)
    return lab.number(f"{mean:,.0f} ± {error:,.0f}" if n else None, runs=n or None, ordered=n > 0, of=[runs])

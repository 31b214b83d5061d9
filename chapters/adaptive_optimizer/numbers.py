"""Numbers from the store that the chapter on the adaptive variational optimizer says in its text."""

from collections.abc import Mapping

import numpy as np

from bnnlib.functional import group_threshold
from book import lab
from book.lab.known import cells_of, knowing
from book.lab.queries import Rows, replicates
from chapters.adaptive_optimizer.experiments.cifar10 import ALIGNED, HARD
from chapters.adaptive_optimizer.experiments.cifar10 import NAME as CIFAR
from chapters.adaptive_optimizer.experiments.dynamics import FROM_DUAL, LENET
from chapters.adaptive_optimizer.figures.images import settings
from chapters.adaptive_optimizer.figures.results import ERROR, EXAMPLES, METHODS
from chapters.adaptive_optimizer.problems import PROBLEMS
from chapters.shared.said import average, less

AVO, DENSE, MAGNITUDE = "AVO", "AVO, dense", "magnitude"
EVERY_LAYER = "AVO, every layer"
OTHERS = METHODS[1:]
WARM_UPS = ("AVO, no warm-up", "AVO, long warm-up")
TRAIN_IMAGES = 50_000  # of CIFAR-10
SAME = 1e-3  # an error this near to that of the mean, relatively: a constant
DEAD = 20.0  # an error near the variance of the outputs, example 2: a constant
STUCK = 20.0  # percent of the classes wrong, example 3
PUBLISHED_3 = 3.9  # percent wrong of the published run
ENOUGH = 0.05  # within this of the MSE of four draws one draw is enough, see `experiments.dynamics`


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("avo-name")` returns}, for example-1, example-2 and example-3.

    Raises:
        AssertionError: a stored result no longer says what the lesson's sentences say of it.
    """
    return _examples(rows) | _parts(rows) | _images() | _dynamics()


def errors(rows: Mapping[str, Rows], example: str, method: str) -> np.ndarray:
    """Test error of every data set: MSE, or percent of wrong classes."""
    table = rows[example.replace(" ", "-")]
    if example == EXAMPLES[2]:
        return 100.0 - replicates(table, example, method, "accuracy")
    return replicates(table, example, method, "mse_test")


def counted(flags: np.ndarray) -> str:
    """ "7 of 10" of yes and no."""
    return lab.number(f"{int(flags.sum())} of {len(flags)}" if len(flags) else None, of=[flags])


def constant(rows: Mapping[str, Rows], example: str, method: str) -> np.ndarray:
    """Which data sets' inputs are selected exactly by a network that errs as the mean does, a constant."""
    right, ours = _found(rows, example, method, "exact_selection") > 0, errors(rows, example, method)
    mean = errors(rows, example, "mean")
    return right & (abs(ours - mean) < SAME * mean) if len(ours) == len(mean) == len(right) else right[:0]


def exact(rows: Mapping[str, Rows], example: str, method: str) -> lab.Said:
    """ "7 of 10" data sets whose inputs are selected exactly, with the number of constants among them."""
    right, still = counted(_found(rows, example, method, "exact_selection") > 0), constant(rows, example, method)
    text = f"{right} ({still.sum()} constant)" if still.any() else right
    return lab.Said(text, right.runs, right.ordered, right.origin)


def _found(rows: Mapping[str, Rows], example: str, method: str, metric: str) -> np.ndarray:
    return replicates(rows[example.replace(" ", "-")], example, method, metric)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """All in one, which knows the runs of all."""
    return knowing(np.concatenate(parts), cells_of(*parts))


def _examples(rows: Mapping[str, Rows]) -> dict[str, str]:
    """Of the published method alone."""
    said = {}
    for number, name in enumerate(EXAMPLES, start=1):
        said[f"exact-{number}"] = exact(rows, name, AVO)
        said[f"error-{number}"] = lab.mean(errors(rows, name, AVO), _form(name))
    squared = errors(rows, EXAMPLES[1], AVO)
    said["median-2"] = lab.number(np.median(squared) if len(squared) else None, "{:.2f}")
    said["dead-2"] = counted(squared > DEAD)
    wrong = errors(rows, EXAMPLES[2], AVO)
    said["stuck-3"] = counted(wrong > STUCK)
    said["lossy-3"] = counted(_found(rows, EXAMPLES[2], AVO, "false_negatives") > 0)
    said["median-3"] = lab.number(np.median(wrong) if len(wrong) else None, "{:.1f}")
    unpruned = errors(rows, EXAMPLES[2], "AVO, no group prior")
    both = len(wrong) == len(unpruned)
    said["pruned-worse-3"] = counted(wrong > unpruned) if both else lab.number(None)
    for name in EXAMPLES:
        assert lab.shows(_less(name, "AVO, no group prior"), -1), f"{name}: the group prior lowers the mean error"
    if len(wrong) >= 3:
        assert 0 < (wrong > STUCK).sum() < len(wrong), "example 3: the data sets part"
        assert wrong.min() < PUBLISHED_3 < np.median(wrong), "example 3: the published run is like a better one of ours"
    return said


def _parts(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The published method less every other one, and what the warm-up does."""
    said = {}
    for number, name in enumerate(EXAMPLES, start=1):
        for method in OTHERS:
            if method == "AVO, none removed" and name != "example 3":
                continue  # planned for the third example alone
            found = exact(rows, name, method)
            gap = difference(*_less(name, method), _form(name))
            said[f"{number}-{method}"] = (
                lab.Said(f"{gap}; {found}", gap.runs, gap.ordered, gap.origin)
                if len(_found(rows, name, method, "exact_selection"))
                else gap
            )
        gaps = [_less(name, method) for method in OTHERS]
        assert not any(lab.shows(gap, 1) for gap in gaps if gap[2] > 1), f"{name}: none errs decidedly less"
        for method in ("AVO, no noise", "AVO, exact E-step"):
            assert lab.shows(_less(name, method), 0), f"{name}: {method} makes no decided difference"
        units = lab.stored_values(_stored(name), name, EVERY_LAYER, "units_removed")
        said[f"units-{number}"] = counted(units > 0)
        for method in (EVERY_LAYER, "AVO, none removed"):
            assert lab.shows(_less(name, method), 0), f"{name}: {method} makes no decided difference"
        for method in (AVO, WARM_UPS[1]):
            said[f"lost-{number}-{method}"] = counted(_found(rows, name, method, "false_negatives") > 0)
        kept = _found(rows, name, WARM_UPS[1], "false_positives")
        said[f"kept-{number}"] = average(kept, "{:.0f}")
    noisy, quiet = (
        _joined([_found(rows, name, method, "exact_selection") > 0 for name in EXAMPLES])
        for method in (AVO, "AVO, no noise")
    )
    said |= {f"exact-all-{AVO}": counted(noisy), "exact-all-AVO, no noise": counted(quiet)}
    said["exact-quiet-only"] = lab.number(None)
    if len(noisy) == len(quiet) > 0:
        assert not (noisy & ~quiet).any(), "without noise the selection is exact wherever it is with noise"
        more = int((quiet & ~noisy).sum())
        assert 0.5 ** (more - 1) > 0.05, "a sign test does not decide that the noise harms"
        said["exact-quiet-only"] = lab.number(more, of=[noisy, quiet])
    every = [_found(rows, name, WARM_UPS[0], "false_negatives") == PROBLEMS[name].relevant for name in EXAMPLES]
    said["all-lost"] = counted(_joined(every))
    left = [lab.stored_values(_stored(name), name, WARM_UPS[0], "false_positives").sum() for name in EXAMPLES]
    assert sum(left) <= 1, "without a warm-up a single irrelevant input is left"
    lost = [lab.stored_values(_stored(name), name, WARM_UPS[1], "false_negatives") for name in EXAMPLES]
    assert not np.concatenate(lost).any(), "a long warm-up loses no true input"
    for method in (MAGNITUDE, "SVBNN"):
        assert _found(rows, EXAMPLES[2], method, "exact_selection").all(), f"{method} selects example 3 exactly"
    third = _stored(EXAMPLES[2])
    ours, later = (100.0 - lab.stored_values(third, EXAMPLES[2], method, "accuracy") for method in (AVO, WARM_UPS[1]))
    both = len(later) == len(ours) > 0
    said[f"freed-{WARM_UPS[1]}"] = counted(later[ours > STUCK] <= STUCK) if both else lab.number(None)
    assert not both or (later <= STUCK).all(), "example 3: a long warm-up is stuck on none"
    constants = _joined([constant(rows, name, AVO) for name in EXAMPLES])
    said["constant"] = lab.number(int(constants.sum()) if len(constants) else None, of=[constants])
    return said


def _dynamics() -> dict[str, str]:
    """What the runs say of sections 1 to 2.2, see `experiments.dynamics`."""

    def less(setting: str, method: str, other: str, metric: str, form: str) -> str:
        return difference(*lab.paired_difference("avo-dynamics", setting, method, other, metric), form)

    def mean(setting: str, method: str, metric: str, form: str) -> str:
        return lab.mean(lab.stored_values("avo-dynamics", setting, method, metric), form)

    def stands(setting: str, method: str, metric: str, beside: float, sign: int) -> bool:
        """Whether the mean is decidedly above (1) or below (-1) a number."""
        return lab.shows(lab.estimate(lab.stored_values("avo-dynamics", setting, method, metric) - beside), sign)

    said = {}
    for batch in (1024, 64):
        setting = f"example 1, batch {batch}"
        said[f"draws-{batch}"] = less(setting, "1 draw", "4 draws", "mse_test", "{:.3f}")
        said[f"variance-{batch}"] = mean(setting, "1 draw", "mean_posterior_variance", "{:.3f}")
        gap, error, n = lab.paired_difference("avo-dynamics", setting, "1 draw", "4 draws", "mse_test")
        assert lab.shows((ENOUGH - abs(gap), error, n), 0), f"{setting}: undecided whether one draw is enough"
    for step, sign in ((1, -1), (2, -1), (5, 1)):
        setting = f"one hidden layer, step {step}"
        said[f"tail-{step}"] = mean(setting, "adaptive rate", "tail_index", "{:.2f}")
        assert stands(setting, "adaptive rate", "tail_index", 2.0, sign), f"{setting}: a variance exists from 2 on"
    for form, digits in (("natural", "{:.5f}"), ("momentum", "{:.2f}")):
        for factor in ("1", "0.01"):
            setting = f"example 1, rate x {factor}"
            said[f"ratio-{form}-{factor}"] = mean(setting, form, "step_over_noise", digits)
            assert stands(setting, form, "step_over_noise", 1.0, -1), f"{setting}, {form}: the noise is the larger"
    said["after-last-2"] = mean(f"{EXAMPLES[1]}, after the last epoch", AVO, "mse_test", "{:.1f}")
    said["ramp-1"] = less(EXAMPLES[0], "ramp", AVO, "mse_test", "{:.2f}")
    said["ramp-2"] = less(EXAMPLES[1], "ramp", AVO, "mse_test", "{:.1f}")
    said["ramp-3"] = less(EXAMPLES[2], "ramp", AVO, "accuracy", "{:.0f}")
    said["later-ramp-3"] = less(EXAMPLES[2], "ramp, later E-step", "ramp", "accuracy", "{:.0f}")
    decided = [said[key].ordered for key in ("ramp-1", "ramp-2", "ramp-3", "later-ramp-3")]
    assert decided in ([False, False, True, True], [None] * 4), "of the rising rates those on example 3 are decided"
    steps = [cell for cell in lab.get("avo-dynamics").profiles["book"]() if cell.method == "one step"]
    settings = [cell.setting for cell in steps if "from_dual" not in cell.params]
    for metric in ("peak_bytes", "step_ms"):
        saved = [_saved(setting, "AVO step", metric) for setting in settings]
        known = [one.mean() for one in saved if len(one)]
        said[metric] = lab.number(f"{min(known):.0f} to {max(known):.0f}" if known else None, of=saved)
    own = _saved(f"{LENET}, scale from its dual", FROM_DUAL, "peak_bytes")
    said["peak-dual"] = average(own, "{:.0f}")
    stored = np.concatenate([_saved(setting, "AVO step", "peak_bytes") for setting in settings])
    assert not len(own) or own.min() > 100.0 / 3.0 > stored.max(), "only with a scale from its dual a third is saved"
    for number, name in enumerate(EXAMPLES, start=1):
        said[f"square-{number}"] = mean(name, AVO, "mean_square_weight", "{:.2f}")
    return said


def _saved(setting: str, method: str, metric: str) -> np.ndarray:
    """Percent less than the Gaussian network takes beside it."""
    ours, theirs = (lab.stored_values("avo-dynamics", setting, one, metric) for one in (method, "Gaussian step"))
    return 100.0 * (1.0 - ours / theirs)


def _stored(example: str) -> str:
    return f"avo-{example.replace(' ', '-')}"


def _less(example: str, method: str) -> tuple[float, float, int]:
    """Mean and standard error of the published method's test error less another's, and the number of data sets."""
    metric, sign = ("accuracy", -1.0) if example == EXAMPLES[2] else ("mse_test", 1.0)
    mean, error, n = lab.paired_difference(_stored(example), example, AVO, method, metric)
    return sign * mean, error, n


def _form(example: str) -> str:
    return "{:.1f}" if "%" in ERROR[example] else "{:.3f}"


def difference(mean: float, error: float, n: int, form: str) -> lab.Said:
    """ "d ± s.e." with the sign always written; one run has no standard error."""
    if not n:
        return lab.number(None)
    said = form.replace(":", ":+").format(mean).replace("-", "−")
    text = f"{said} ± {form.format(error)}" if n > 1 else f"{said} (one run)"
    return lab.Said(text, n, lab.decided(mean, error, n), lab.number(mean).origin)


def _changed() -> dict[str, str]:
    """How the settings of our residual networks differ from the published ones."""
    ours, paper = (
        next(cell.params for cell in lab.get(CIFAR).profiles[profile]() if cell.method == AVO)
        for profile in ("book", "paper")
    )
    threshold = group_threshold(ours["spike"], ours["slab"], TRAIN_IMAGES)
    return {
        "epochs": f"{ours['epochs']}",
        "spike": f"{ours['spike'] / paper['spike']:.3g}",
        "soft": f"{threshold / paper['soft']:.0f}",
        "least": f"{min(HARD) / paper['hard']:.0f}",
        "most": f"{max(HARD) / paper['hard']:.0f}",
    }


def _images() -> dict[str, str]:
    """Of the pruned residual networks: percent of zeros, and accuracies in points, paired over the runs."""
    said: dict[str, str] = _changed()
    for place, setting in enumerate(settings("ResNet20"), start=1):
        said[f"zeros-{place}"] = lab.mean(lab.stored_values(CIFAR, setting, AVO, "zeros"), "{:.1f}")
        gap = lab.paired_difference(CIFAR, setting, AVO, MAGNITUDE, "accuracy")
        assert lab.shows(gap, -1), f"{setting}: magnitude loses less"
        said[f"less-magnitude-{place}"] = difference(*gap, "{:.1f}")
    first, *others = settings("ResNet20")
    for setting in others:
        gap = less(*(lab.stored_values(CIFAR, one, AVO, "accuracy") for one in (setting, first)))
        assert lab.shows(gap, 0), f"{setting}: no decided difference to fewer zeros"
    dense = lab.stored_values(CIFAR, first, DENSE, "accuracy")
    lost = {one: less(lab.stored_values(CIFAR, one, AVO, "accuracy"), dense) for one in settings("ResNet20")}
    assert all(lab.shows(gap, -1) for gap in lost.values()), "the method loses accuracy in every setting"
    said["less-dense"] = difference(*lost[first], "{:.1f}")
    said["dense"] = lab.mean(dense, "{:.1f}")
    said["aligned-zeros"] = lab.mean(lab.stored_values(CIFAR, ALIGNED, AVO, "zeros"), "{:.1f}")
    said["aligned"] = lab.mean(lab.stored_values(CIFAR, ALIGNED, DENSE, "accuracy"), "{:.1f}")
    for key, other in (("less-dense", DENSE), ("less-magnitude", MAGNITUDE)):
        gap = lab.paired_difference(CIFAR, ALIGNED, AVO, other, "accuracy")
        assert lab.shows(gap, -1), "with a clock from 0 too"
        said[f"aligned-{key}"] = difference(*gap, "{:.1f}")
    aligned, ahead = (
        lab.stored_values(CIFAR, setting, AVO, "accuracy") - without
        for setting, without in (
            (ALIGNED, lab.stored_values(CIFAR, ALIGNED, DENSE, "accuracy")),
            (settings("ResNet20")[1], dense),
        )
    )
    known = len(aligned) == len(ahead) >= 3
    assert not known or lab.shows(less(aligned, ahead), 1), "with a clock from 0 the method loses less"
    (large,) = settings("ResNet-18")
    said["zeros-18"] = lab.mean(lab.stored_values(CIFAR, large, AVO, "zeros"), "{:.1f}")
    for key, method in (("less-dense", AVO), ("magnitude", MAGNITUDE)):
        lost, _, n = lab.paired_difference(CIFAR, large, DENSE, method, "accuracy")
        assert n <= 1, "the text speaks of one run of ResNet-18"
        said[f"{key}-18"] = lab.number(lost if n else None, "{:.1f}", runs=n)
    return {f"cifar-{key}": text for key, text in said.items()}

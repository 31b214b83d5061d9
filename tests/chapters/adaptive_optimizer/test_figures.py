"""Pictures and texts of the chapter on the adaptive optimizer: what they show, with results and without."""

import numpy as np
import pytest

from book.lab.wording import PM
from chapters.adaptive_optimizer import figures, numbers
from chapters.adaptive_optimizer.figures import explorers, results
from tests.chapters.drawn import rows_of

EMPTY = {f"example-{number}": [] for number in (1, 2, 3)}


@pytest.fixture
def rows() -> dict[str, list[dict]]:
    found = {}
    for name in results.EXAMPLES:
        metrics = {"accuracy" if name == "example 3" else "mse_test": [95.0, 96.0, 97.0]}
        metrics |= {"false_positives": [0.0, 1.0, 30.0], "false_negatives": [0.0, 0.0, 1.0]}
        found[name.replace(" ", "-")] = [
            rows_of(name, method, metric, values, "paper")
            for method in results.METHODS
            for metric, values in (metrics | _exact(name, method)).items()
        ]
    return found


def _exact(name: str, method: str) -> dict[str, list[float]]:
    """On example 3 two methods select exactly in every data set, as the text says."""
    always = name == "example 3" and method in (numbers.MAGNITUDE, "SVBNN")
    return {"exact_selection": [100.0, 100.0 * always, 100.0]}


def test_traces_have_the_published_points_and_every_run_of_ours():
    epochs = np.arange(0, 3_001, 1_000)
    ours = {"epochs": epochs, "error": np.ones((4, 3)) + np.arange(3), "zeros": np.full((4, 3), 99.0)}
    fig = figures.traces({name: ours for name in results.EXAMPLES})
    for column, name in enumerate(results.EXAMPLES):
        for row_, printed in enumerate(results.PUBLISHED[name]):
            panel = fig.axes[3 * row_ + column]
            dots = next(line for line in panel.lines if line.get_label() == "published run")
            assert list(dots.get_xdata()) == list(printed) and list(dots.get_ydata()) == list(printed.values())
        thin = [line for line in fig.axes[column].lines if line.get_alpha() == 0.4]
        assert [line.get_ydata()[0] for line in thin] == [1.0, 2.0, 3.0]
        median = next(line for line in fig.axes[column].lines if line.get_label() == "ours, median")
        assert median.get_ydata().tolist() == [2.0] * 4
    assert results.stored_traces("example 9") is None


@pytest.mark.slow
def test_every_data_set_is_a_point(rows):
    fig = figures.parts(rows)
    for panel in fig.axes[:3]:
        assert sum(len(dots.get_offsets()) for dots in panel.collections) == 3 * len(results.METHODS)
    wrong = [line for line in fig.axes[3].lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in wrong] == [[0.0, 1.0, 30.0]] * len(results.METHODS)
    assert fig.axes[0].get_yticklabels()[0].get_text() == "AVO"


def test_a_removed_group_ends_in_a_cross():
    path = np.array([[0.5, 0.2], [0.5, 0.1], [0.5, 0.0]])
    fig = figures.groups(path, (0.3, 0.15), 1, {"truth": np.ones((2, 3))})
    crosses = [line for line in fig.axes[0].lines if line.get_marker() == "x"]
    assert len(crosses) == 1 and crosses[0].get_ydata()[0] == 0.1


def test_the_explorer_removes_below_the_hard_threshold():
    path, removed, kept = explorers.training("none", 1_000, 1.0, 1e-3)
    soft = explorers.group_threshold(1.0, 1e-3, 1_000)
    assert removed is not None and not kept
    assert removed > explorers.WARM_UP
    assert np.isnan(path[removed:]).all() and path[removed - 2] >= soft / 10
    path, removed, kept = explorers.training("strong", 1_000, 1.0, 1e-3)
    assert removed is None and kept and path[-1] == pytest.approx(0.25, rel=0.05)
    weak = explorers.training("weak", 100, 7.0, 1e-3)
    assert weak[1] is not None or not weak[2]


def test_the_explorer_in_words():
    words = explorers.in_words(1_000, 1.0, 1e-3)
    assert words.startswith("With 1,000 observations") and "strong: slab" in words and "none: removed at" in words
    picture = explorers.picture(1_000, 1.0, 1e-3)
    assert "0.0069" in picture.heading


def test_numbers_count_exact_selections(rows, monkeypatch, tmp_path):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    monkeypatch.setattr(numbers, "PUBLISHED_3", 3.5)
    monkeypatch.setattr(numbers, "STUCK", 4.5)
    said = numbers.numbers(rows)
    assert said["exact-1"] == said["exact-3"] == "2 of 3" and said["kept-1"] == "10"
    assert said["error-3"] == f"4.0{PM}0.6"
    assert [said[f"{key}-3"] for key in ("stuck", "lossy", "median")] == ["1 of 3", "1 of 3", "4.0"]
    assert said["lost-2-AVO, long warm-up"] == "1 of 3" and said["2-lasso"] == "(not run); 2 of 3"
    settings = {f"cifar-{key}" for key in numbers._changed()}  # known without a run
    assert {text for key, text in numbers.numbers(EMPTY).items() if key not in settings} == {"(not run)"}


def test_sentences_that_a_result_contradicts_are_refused(rows):
    for table in rows["example-3"]:
        if table["metric"] == "accuracy":
            table["values"] = [95.0, 96.0, 97.0]  # none below 80 %
    with pytest.raises(AssertionError, match="data sets part"):
        numbers.numbers(rows)


def stored(values: dict[tuple[str, str, str], dict[int, float]]) -> dict:
    found = [
        {"setting": setting, "method": method, "replicate": replicate, "metric": metric, "value": value}
        for (setting, method, metric), by_replicate in values.items()
        for replicate, value in by_replicate.items()
    ]
    return {"profile": "paper", "rows": found}


def test_parts_are_paired_over_the_data_sets_and_missing_ones_said(monkeypatch):
    """By hand: the differences of data sets 0 and 1 are -1 and -3; errors of example 3 are 100 less the accuracy."""
    values = {
        ("example 1", "AVO", "mse_test"): {0: 1.0, 1: 2.0, 2: 9.0},
        ("example 1", "lasso", "mse_test"): {1: 5.0, 0: 2.0},
        ("example 3", "AVO", "accuracy"): {0: 60.0, 1: 70.0, 2: 95.0},
        ("example 3", "AVO, long warm-up", "accuracy"): {2: 90.0, 0: 90.0, 1: 85.0},
        ("example 3", "lasso", "accuracy"): {0: 61.0},
    }
    monkeypatch.setattr("book.lab.queries.stored_parts", lambda name, profile=None: [stored(values)])
    said = numbers.numbers(EMPTY)
    assert said["1-lasso"] == f"−2.000{PM}1.000"
    assert said["3-AVO, long warm-up"] == f"+13.3{PM}10.1" and said["3-lasso"] == "+1.0 (one run)"
    assert said["freed-AVO, long warm-up"] == "2 of 2" and said["1-SVBNN"] == "(not run)"
    values["example 3", "AVO, long warm-up", "accuracy"][1] = 75.0
    with pytest.raises(AssertionError, match="stuck on none"):
        numbers.numbers(EMPTY)


def test_an_exact_selection_by_a_constant_is_said(monkeypatch):
    """By hand: the second network errs as the mean does, the third too, but its selection is not exact."""
    values = {"AVO": np.array([2.0, 25.01, 25.0, 3.0]), "mean": np.array([26.0, 25.0, 25.0, 24.0])}
    monkeypatch.setattr(numbers, "_found", lambda *_: np.array([100.0, 100.0, 0.0, 100.0]))
    monkeypatch.setattr(numbers, "errors", lambda rows, example, method: values[method])
    assert numbers.constant({}, "example 2", "AVO").tolist() == [False, True, False, False]
    assert numbers.exact({}, "example 2", "AVO") == "3 of 4 (1 constant)"


def images(gaps: dict[float, list[float]]) -> dict:
    """Dense networks at 90, 92 and 94 %, magnitude pruning at the same, and the method below them by `gaps`."""
    values = {}
    for hard, less in gaps.items():
        setting = f"ResNet20 at {hard:g}"
        for method, shift in (("AVO", less), ("magnitude", [0.0] * 3), ("AVO, dense", [0.0] * 3)):
            if method != "AVO, dense" or hard == 0.03:
                found = [level - one for level, one in zip((90.0, 92.0, 94.0), shift, strict=True)]
                values[setting, method, "accuracy"] = dict(enumerate(found))
                values[setting, method, "zeros"] = dict.fromkeys(range(3), 1000.0 * hard)
    return stored(values)


def test_numbers_of_images_are_paired_within_and_over_the_settings(monkeypatch):
    table = images({0.03: [4.0, 5.0, 6.0], 0.06: [5.0, 5.0, 5.0], 0.1: [4.0, 6.0, 6.0]})
    monkeypatch.setattr("book.lab.queries.stored_parts", lambda name, profile=None: [table])
    said = numbers._images()
    assert said["cifar-zeros-2"] == f"60.0{PM}0.0" and said["cifar-less-magnitude-1"] == f"−5.0{PM}0.6"
    assert said["cifar-less-dense"] == f"−5.0{PM}0.6"
    assert said["cifar-aligned"] == said["cifar-aligned-less-dense"] == "(not run)"


def test_a_method_that_loses_no_more_than_magnitude_contradicts_the_text(monkeypatch):
    table = images({0.03: [-1.0, 1.0, 0.0], 0.06: [5.0, 5.0, 5.0], 0.1: [6.0, 7.0, 8.0]})
    monkeypatch.setattr("book.lab.queries.stored_parts", lambda name, profile=None: [table])
    with pytest.raises(AssertionError, match=r"at 0\.03: magnitude loses less"):
        numbers._images()

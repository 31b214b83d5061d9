"""The published numbers of all studies: complete, each once, consistent, beside settings that an experiment runs.

That no number is missing or mistyped is what `test_transcriptions.py` sees.
"""

import math

import pytest

from book import lab
from book.lab import paper_values, verdict
from book.lab.intervals import quantile
from book.lab.metrics import metrics
from chapters.closed_form.experiments import selection
from chapters.learned_priors.experiments import fgsm, regression

NAMES = [name for name in lab.names() if paper_values(name)[0]]
# A cell of these holds several settings: the chains of a data set, the sizes of an attack, the cases of a simulation.
WITHIN = {
    "aeb-regression": lambda cell: {regression.setting_name(*setting) for setting in regression.SETTINGS},
    "aeb-fgsm": lambda cell: {f"{cell.setting} zeta={size:g}" for size in fgsm.SIZES},
    "sbnn-selection": lambda cell: {
        selection.setting_name(cell.params["num_inputs"], *case) for case in cell.params.get("cases", [])
    },
}
# Settings without a cell: all at once, other papers' networks, images that cannot be had, the best of several cells.
NO_CELL = ("*", "S=94.5", "CelebA, ", "WGAN-GP, best rejection rate")


@pytest.mark.parametrize("name", NAMES)
def test_every_published_number_is_complete_and_unique(name):
    values, _ = paper_values(name)
    assert len({(value.setting, value.method, value.metric) for value in values}) == len(values)
    assert len({value.paper for value in values}) == 1
    for value in values:
        assert value.table and value.cell and value.replicates >= 1
        # rows named "error" are failures: a published number under that name would never be compared
        assert value.metric in metrics() and value.metric != "error"
        assert value.margin > 0 and value.interesting >= 2 * value.rounding
        assert value.note or value.sd is not None or value.reading or value.one_draw or value.by_design


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mh-logistic"])  # its rows name a weight too
def test_the_published_settings_are_those_of_the_experiments(name):
    cells = [cell for profile in lab.get(name).profiles.values() for cell in profile()]
    ours = {cell.setting for cell in cells}.union(*map(WITHIN.get(name, lambda cell: set()), cells))
    values, also = paper_values(name)
    assert {value.setting for value in values if not value.setting.startswith(NO_CELL)} | set(also) <= ours


WHOLE = {
    "LeNet-500-300": [784, 500, 300],
    "LeNet-5": [20, 50, 800, 500],
    "k=1.0": [64] * 2 + [128] * 2 + [256] * 3 + [512] * 7,
    "k=1.5": [96] * 2 + [192] * 2 + [384] * 3 + [768] * 7,
}


def _by_method(name: str) -> dict[tuple[str, str], dict]:
    found: dict = {}
    for value in paper_values(name)[0]:
        found.setdefault((value.setting, value.method), {})[value.metric] = value
    return found


def _units(row: dict) -> list[int]:
    return [int(row[f"units_{k}"].mean) for k in range(1, 15) if f"units_{k}" in row]


def _multiplications(setting: str, units: list[int]) -> int:
    """Multiplications of one forward pass: kernel x inputs x outputs x positions of each layer."""
    if setting == "LeNet-500-300":
        return sum(a * b for a, b in zip(units, [*units[1:], 10], strict=True))
    if setting == "LeNet-5":
        first, second, third, last = units
        return 24 * 24 * 25 * first + 8 * 8 * 25 * first * second + third * last + 10 * last
    channels = [3, *units[:13]]
    sizes = [32] * 2 + [16] * 2 + [8] * 3 + [4] * 3 + [2] * 3
    convolutions = sum(9 * a * b * size**2 for a, b, size in zip(channels[:-1], channels[1:], sizes, strict=True))
    return convolutions + units[12] * units[13] + 10 * units[13]


@pytest.mark.parametrize("name", ["sbp-mnist", "sbp-vgg"])
def test_no_layer_keeps_more_than_it_had(name):
    for (setting, method), row in _by_method(name).items():
        units = _units(row)
        if method == "Original":
            assert not units  # whole by definition, and so is a ratio of 1
        else:
            assert len(units) == len(WHOLE[setting])
            assert all(kept <= whole for kept, whole in zip(units, WHOLE[setting], strict=True))


@pytest.mark.parametrize(
    ("name", "setting"), [("sbp-mnist", "LeNet-500-300"), ("sbp-vgg", "k=1.0"), ("sbp-vgg", "k=1.5")]
)
def test_the_printed_flops_are_the_multiplications_of_the_printed_units(name, setting):
    """Two columns of a table that determine each other: a wrong digit in a unit count would show here."""
    checked = 0
    for (where, method), row in _by_method(name).items():
        if where == setting and method != "Original":
            ratio = _multiplications(setting, WHOLE[setting]) / _multiplications(setting, _units(row))
            # half a unit of the last digit, and a little for a number that lies between two: 3.3246 is printed as 3.32
            assert row["flops_ratio"].mean == pytest.approx(ratio, abs=0.0051)
            checked += 1
    assert checked == 3


def test_the_flops_of_lenet_5_do_not_follow_from_its_units():
    """Said on the page of disagreements: no padding of the convolutions gives the three printed ratios."""
    for method, ours in (("SparseVD", 2.01), ("SSL", 4.53), ("SBP", 10.78)):
        row = _by_method("sbp-mnist")["LeNet-5", method]
        ratio = _multiplications("LeNet-5", WHOLE["LeNet-5"]) / _multiplications("LeNet-5", _units(row))
        assert ratio == pytest.approx(ours, abs=0.005)
        assert abs(row["flops_ratio"].mean - ratio) > 0.1


IMAGES = ["sbp-mnist", "sbp-vgg", "sbn-mnist", "sbn-cifar5"]


CLOSED = ["sbnn-mnist", "sbnn-cifar10-mlp", "sbnn-lenet", "sbnn-vgg"]


@pytest.mark.parametrize("name", IMAGES + CLOSED)
def test_single_networks_leave_their_spread_to_ours_and_nothing_is_tolerated(name):
    """Both sides use the same test images, so that no sampling error of them stands between two numbers."""
    for value in paper_values(name)[0]:
        if value.limits:
            assert value.metric == "share_below_quarter" and value.limits == (95.0, math.inf)
        else:
            assert value.se == 0.0 and value.one_draw
        if name in IMAGES:
            assert value.tolerance == 0.0 and value.sd is None
        if name in IMAGES or value.metric in ("removed", "active"):  # shares that go, or what is left of them
            higher = "batch" in value.metric or value.metric in ("flops_ratio", "removed")
            assert value.direction == ("higher" if higher else "lower")
        if "batch" in value.metric:  # a Xeon or a Tesla
            assert "other hardware" in value.not_comparable


def test_settings_that_were_chosen_with_published_or_test_numbers_in_view_compare_nothing():
    rows = _by_method("sbp-mnist")
    for key in (("LeNet-500-300", "SSL"), ("LeNet-5", "SSL")):
        assert all(value.not_comparable for value in rows[key].values())
    assert not rows["LeNet-5", "SBP"]["units_1"].not_comparable


@pytest.mark.parametrize(("name", "sizes"), [("sbp-mnist", 3 * 7 + 3 * 8 - 6), ("sbp-vgg", 6 * 17)])
def test_a_size_is_judged_beside_the_error_of_its_network(name, sizes):
    values, _ = paper_values(name)
    errors = {(value.setting, value.method) for value in values if value.metric == "error_test"}
    found = [value for value in values if value.with_error]
    assert len(found) == sizes
    assert all(value.with_error == ("error_test",) and (value.setting, value.method) in errors for value in found)


def test_budgets_are_those_of_the_published_code():
    """No script is published for LeNet-500-300, SSL on MNIST and SparseVD."""
    budgets = {}
    for name in IMAGES:
        for value in paper_values(name)[0]:
            budgets.setdefault((name, value.setting, value.method), set()).add(value.budget)
    assert budgets["sbp-mnist", "LeNet-5", "Original"] == {200.0}
    assert budgets["sbp-mnist", "LeNet-5", "SBP"] == {400.0}
    assert budgets["sbp-vgg", "k=1.0", "SBPa"] == budgets["sbp-vgg", "k=1.5", "SBP"] == {500.0}
    assert budgets["sbn-mnist", "LeNet-5", "DO+SBN"] == {50.0} and budgets["sbn-cifar5", "VGG-11", "DE"] == {200.0}
    unknown = {key for key, found in budgets.items() if found == {None}}
    assert {key[2] for key in unknown if key[0] == "sbp-vgg"} == {"SparseVD"}
    assert ("sbp-mnist", "LeNet-5", "SSL") in unknown and ("sbp-mnist", "LeNet-500-300", "SBP") in unknown


def around(mean: float, sd: float) -> list[float]:
    return [mean - sd, mean, mean + sd]


def test_random_labels_are_judged_by_closeness_alone():
    rows = _by_method("sbp-random-labels")
    dropout, pruned = rows["MNIST, MLP", "Dropout"], rows["MNIST, MLP", "SBP"]
    assert verdict(dropout["accuracy_train"], around(99.8, 0.1)).word == "agrees"
    assert verdict(dropout["accuracy_train"], around(60.0, 0.1)).word == "differs"
    # the share of the largest class of MNIST, which a constant prediction reaches, is 11.35 %
    assert verdict(pruned["accuracy_test"], around(11.35, 0.1)).word == "by design"
    assert verdict(pruned["accuracy_train"], around(40.0, 0.1)).word == "differs"
    asked = ("accuracy_train", "removed")
    assert all("book" in pruned[metric].not_comparable_in for metric in asked)
    assert not any(rows["MNIST, MLP, all images", "SBP"][metric].not_comparable_in for metric in asked)


DATA = ("", "CelebA, ")


def test_no_published_number_is_compared_because_its_classifier_is_another_one():
    values, _ = paper_values("imh-cifar10")
    assert all(value.reading > 0 and "our own classifier" in value.not_comparable for value in values)
    assert not paper_values("imh-mnist")[0] and not paper_values("imh-fmnist")[0]


def test_filtering_improved_every_published_curve():
    found = {(value.setting, value.method, value.metric): value.mean for value in paper_values("imh-cifar10")[0]}
    for data in DATA:
        for model in ("WGAN-GP", "VAE"):
            raw, filtered = (
                [found[data + model, method, metric] for metric in ("feature_fid", "classifier_score")]
                for method in ("Raw", "Independent, CCE")
            )
            assert filtered[0] < 0.95 * raw[0] and filtered[1] > raw[1]
        best = data + "WGAN-GP, best rejection rate"
        markov, independent = (found[best, method, "feature_fid"] for method in ("Markov, UB", "Independent, CCE"))
        assert markov < independent < found[data + "WGAN-GP", "Raw", "feature_fid"]


TEST_ROWS = {"boston": 51, "concrete": 103, "energy": 77, "power": 957, "protein": 4573, "wine": 160, "yacht": 31}


def _table_3(method: str = "sBNN") -> dict:
    metric = "rmse_test_at_50" if method == "sBNN-50" else "rmse_test"
    values = [value for value in paper_values("sbnn-uci")[0] if value.table == "Table 3"]
    return {value.setting: value for value in values if (value.method, value.metric) == (method, metric)}


@pytest.mark.parametrize("method", ["sBNN", "sBNN-50", "Dropout", "PBP"])
def test_table_3_is_judged_by_the_errors_of_both_over_splits_that_overlap(method):
    values = _table_3(method)
    assert len(values) == 10
    for value in values.values():
        if value.setting == "year":  # one split without a spread: 51,630 test rows with normal errors
            assert value.sd is None
            assert value.se == pytest.approx(value.mean / math.sqrt(2 * 51_630))
        else:
            splits = 5 if value.setting == "protein" else 20
            assert value.se == pytest.approx(value.sd * math.sqrt(1 + splits * 0.111))
            assert value.sd == 0.0 or value.df == splits - 1
        near = value.rounding + quantile(value.df) * value.se
        for ours, expected in ((near - 1e-6, "agrees"), (near + 1e-6, "worse"), (-near - 1e-6, "better")):
            found = verdict(value, [value.mean + ours] * 20)
            blurred = expected == "agrees" and found.quantile and found.quantile * found.error > value.interesting
            assert found.word == ("undecided" if blurred else expected)


def test_the_spread_in_table_3_is_one_standard_error():
    """Two of them over 20 splits (Protein: 5) are at least what normal errors give; less is printed on two sets."""
    printed = {name: value.sd for name, value in _table_3().items() if value.sd}
    least = {}
    for name, rows in TEST_ROWS.items():
        one_split = _table_3()[name].mean / math.sqrt(2 * rows)
        # a tenth of the rows is drawn without replacement, which takes off a factor sqrt(0.9)
        least[name] = math.sqrt(0.9) * one_split / math.sqrt(5 if name == "protein" else 20)
    for name in ("concrete", "protein"):
        assert printed[name] + 0.005 < 2.0 * least[name]
    # and no printed value is below one standard error
    assert all(printed[name] + 0.005 > least[name] for name in TEST_ROWS)


def test_error_bars_of_two_standard_errors_overlap_on_boston_and_concrete_only_as_the_text_has_it_when_doubled():
    sbnn, dropout = _table_3(), _table_3("Dropout")

    def overlap(name: str, times: float) -> bool:
        return abs(sbnn[name].mean - dropout[name].mean) <= times * (sbnn[name].sd + dropout[name].sd)

    assert overlap("boston", 2) and overlap("concrete", 2) and not overlap("concrete", 1)
    assert not overlap("protein", 2)  # which the text says it does


def test_table_2_and_table_3_agree_where_they_overlap():
    values, _ = paper_values("sbnn-uci")
    by_key = {(value.setting, value.method, value.metric): value for value in values}
    full, half = _table_3("sBNN"), _table_3("sBNN-50")
    for name, value in half.items():
        assert by_key[name, "sBNN", "rmse_test_at_50"].printed == value.printed.partition(" ")[0]
    for (setting, method, metric), value in by_key.items():
        if value.table == "Table 2":
            below = int(metric.rpartition("_")[2]) < 50
            printed = (full if below else half)[setting]
            year = value.mean / math.sqrt(2 * 51_630)  # one split: its own test rows
            assert value.se == pytest.approx(year if setting == "year" else printed.se)
            assert value.printed == by_key[setting, "sBNN", metric].printed and method in ("sBNN", "sBNN-50")


@pytest.mark.parametrize("name", CLOSED)
def test_what_was_chosen_on_the_test_images_is_not_comparable(name):
    """All but the numbers of Blundell et al. on MNIST, who held images out, those of methods not run here, and shares
    of weights where ours has the chosen settings."""
    for value in paper_values(name)[0]:
        theirs = "Blundell" in value.note or "copied" in value.note
        theirs |= value.metric == "share_below_quarter" and value.setting != "1200"
        assert ("test images" in value.not_comparable) is not theirs


def test_the_range_of_a_sentence_is_one_claim_without_a_direction():
    (value,) = paper_values("sbnn-importance")[0]
    assert (value.setting, value.direction) == ("*", "none")
    assert value.limits == (0.90, 0.95) and value.printed == "0.90 to 0.95"

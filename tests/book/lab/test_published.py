"""The files of published numbers: what they hold, what they mean, and what is refused."""

import math
import os
import tomllib
from statistics import stdev

import pytest

from bnnlib._files import StoreError
from book import lab
from book.lab import paper_values, published, verdict

ADAPTIVE = ("aeb-regression", "aeb-uci", "aeb-mnist", "aeb-fmnist", "aeb-fgsm", "aeb-resnet20")


@pytest.mark.parametrize("name", ADAPTIVE)
def test_the_numbers_of_paper_000_have_the_error_of_their_test_sets(name):
    values, _ = paper_values(name)
    for value in values:
        assert (value.replicates, value.tolerance) == (1, 0)
        share = value.mean / 100
        official = name in ("aeb-mnist", "aeb-fgsm", "aeb-resnet20")  # ours are on the same images
        expected = 0.0 if official else 100 * math.sqrt(max(share * (1 - share), 0.0) / 10_000)
        if name == "aeb-regression":
            expected = value.mean * math.sqrt({"mse_test": 2.0, "mae_test": math.pi / 2 - 1.0}[value.metric] / 50)
        elif name == "aeb-uci":
            expected = value.sd * math.sqrt(1 + 20 * 0.111)  # splits that overlap
            assert not value.not_comparable
        assert value.se == pytest.approx(expected)
        assert value.kind == ("own" if "-SA" in value.method else "rival")
        assert value.sd is not None or value.one_draw or "quoted" in value.note
        assert value.reading == (1.0 if name == "aeb-fgsm" else 0.0)


def test_table_1_has_normal_errors_except_for_one_misprint():
    """Normal errors have MSE / MAE^2 = pi / 2 = 1.57; over 50 of them its standard deviation is 0.12 (simulated)."""
    values, _ = paper_values("aeb-regression")
    by_key = {(value.setting, value.method, value.metric): value.mean for value in values}
    ratios = {key[:2]: by_key[*key[:2], "mse_test"] / by_key[key] ** 2 for key in by_key if key[2] == "mae_test"}
    odd = ratios.pop(("v0=0.01, sigma=1", "SGLD-EM"))
    # three standard deviations of eleven ratios; the twelfth is nineteen away
    assert all(abs(ratio - math.pi / 2) < 0.36 for ratio in ratios.values())
    assert odd > 3.5  # and with the MAE of the other sigma it would be regular
    mse = by_key["v0=0.01, sigma=1", "SGLD-EM", "mse_test"]
    assert mse / by_key["v0=0.01, sigma=2", "SGLD-EM", "mae_test"] ** 2 == pytest.approx(math.pi / 2, abs=0.02)


def test_the_spread_in_the_uci_table_is_a_standard_error():
    """One split alone varies by RMSE / sqrt(2 n), n its test rows: more than was printed, in every cell."""
    rows = {"boston": 51, "yacht": 31, "energy": 77, "wine-red": 160, "concrete": 103}
    values, _ = paper_values("aeb-uci")
    for value in values:
        assert value.sd < 2 / 3 * value.mean / math.sqrt(2 * rows[value.setting.partition(",")[0]])


def test_printed_digits_decide_the_rounding():
    values, also = paper_values("svbnn-simulation-2")
    by_key = {(value.method, value.metric): value for value in values}
    assert by_key["SVBNN", "rmse_test"].rounding == pytest.approx(0.005)
    assert by_key["SVBNN", "fnr"].rounding == pytest.approx(0.05)
    assert by_key["VBNN", "fpr"].rounding == pytest.approx(0.5)
    assert by_key["SVBNN", "fnr"].printed == "16.0 ± 8.14"
    assert by_key["SVBNN", "rmse_test"].where == "Table 2: SVBNN, Test RMSE"
    normal = {f"N(0,1){changed}" for changed in ("", ", Kaiming start", ", sigma0^2=2", ", Kaiming start, sigma0^2=2")}
    assert set(also) == normal | {"U(-1,1), sigma0^2=2"}


def test_an_interesting_difference_is_never_below_the_last_printed_digit():
    values, _ = paper_values("sbnn-uci")
    by_cell = {value.cell: value for value in values}
    assert by_cell["Naval, sBNN"].mean == 0.0 and by_cell["Naval, sBNN"].interesting == pytest.approx(0.01)
    assert by_cell["Boston, PBP"].interesting == pytest.approx(0.05 * 3.01)


@pytest.mark.parametrize(("method", "wrong"), [("SVBNN", 24), ("VD", 1), ("AGP", 2)])
def test_the_spread_in_table_2_is_the_standard_deviation(method, wrong):
    """Each of 30 replicates misses 0 or 1 of 5 inputs: its FNR is 0 or 20 %, which leaves one possible spread."""
    values, _ = paper_values("svbnn-simulation-2")
    value = next(value for value in values if (value.method, value.metric) == (method, "fnr"))
    fnr = [20.0] * wrong + [0.0] * (30 - wrong)
    assert sum(fnr) / 30 == pytest.approx(value.mean, abs=0.005)
    # a standard error would be sqrt(30) = 5.5 times smaller; the digits printed end at 0.01
    assert stdev(fnr) == pytest.approx(value.sd, abs=0.006)
    assert stdev(fnr) / math.sqrt(30) < value.sd / 5


def test_coverages_are_judged_by_their_distance_from_95():
    values, _ = paper_values("svbnn-simulation-1a")
    vd = next(value for value in values if (value.method, value.metric) == ("VD", "coverage"))
    assert vd.replicates == 60
    assert verdict(vd, [93.9, 94.1] * 30).word == "better"
    assert verdict(vd, [59.9, 60.1] * 30).word == "worse"


@pytest.mark.parametrize(
    ("name", "variants"), [("aeb-regression", {"SGLD, no L1": "SGLD", "SGLD-SA, w=0.1": "SGLD-SA"}), ("aeb-uci", None)]
)
def test_variants_of_ours_are_laid_beside_the_same_cells(name, variants):
    values, _ = paper_values(name)
    by_key = {(value.setting, value.method, value.metric): value for value in values}
    checked = 0
    for (setting, method, metric), value in by_key.items():
        base = (setting, variants.get(method, method)) if variants else (setting.partition(",")[0], method)
        if base != (setting, method):
            other = by_key[*base, metric]
            assert (value.printed, value.se, value.where) == (other.printed, other.se, other.where)
            checked += 1
    assert checked == (16 if variants else 36)


def test_every_published_cell_belongs_to_one_experiment_that_exists():
    """Counts over experiments may be added: no cell is in two of them."""
    seen = {}
    for name in lab.names():
        for value in paper_values(name)[0]:
            assert seen.setdefault((value.paper, value.where), name) == name
    files = published.ROOT.glob("chapters/*/published.toml")
    listed = {one["experiment"] for path in files for one in tomllib.loads(path.read_text()).get("source", [])}
    assert listed == set(seen.values())


SOURCE = """
[[source]]
paper = "x"
table = "Table 1"
experiment = "one"
replicates = 4
own = ["M"]
values = [{ setting = "a", method = "M", metric = "rmse_test", cell = "c", mean = 1.00 }]
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A source tree whose only published numbers are those given."""
    monkeypatch.setattr(published, "ROOT", tmp_path)

    def write(text: str, study: str = "study", age: int = 0) -> None:
        path = tmp_path / "chapters" / study / "published.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(age, age))  # a file that changes within one tick of the clock

    return write


def test_studies_need_no_registration(tree):
    tree(SOURCE)
    tree(SOURCE.replace('"one"', '"two"'), "another")
    assert [len(paper_values(name)[0]) for name in ("one", "two", "three")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rmse_test", "rmsd", "metric 'rmsd' is not in metrics.toml"),
        ("rmse_test", "ece", "no interesting difference is declared for 'ece'"),
        ("mean = 1.00", "mean = 1.00, tolarance = 1.0", "Table 1, c: unknown key tolarance"),
        ('cell = "c", ', "", "cell must be given"),
        ('paper = "x"', "", "Table 1: paper must be given"),
        ("replicates = 4", "replicates = 4\nbudgets = 4", "unknown key budgets"),
        ("replicates = 4", 'replicates = 4\ndirection = "up"', "direction 'up' is none of"),
        ('own = ["M"]', "", "give own, the list of methods"),
        ('own = ["M"]', "own = []\noracle = true", "give own, the list of methods"),
        ("mean = 1.00", "mean = 1.00, at_least = 2.0, at_most = 1.0", "at_least 2 is above at_most 1"),
        ("[[source]]", "[[source]", r"study/published.toml is damaged: .*; restore it"),
    ],
)
def test_a_mistake_in_the_file_is_named(tree, old, new, message):
    tree(SOURCE, age=1)
    assert paper_values("one")[0][0].interesting == pytest.approx(0.05)
    tree(SOURCE.replace(old, new), age=2)
    with pytest.raises(StoreError, match=message):
        paper_values("one")


def test_a_tree_without_published_numbers_says_so(tree):
    with pytest.raises(StoreError, match="take the published numbers from the repository"):
        paper_values("one")


def test_reasons_and_overrides_of_a_source_and_its_value_come_together(tree):
    more = 'not_comparable = "other data"\nbudget = 100\ntest_set = 50\ninteresting = { rmse = 0.3 }\nvalues = ['
    own = 'mean = 1.00, not_comparable = "other hardware", budget = 7, se = 0.3 }'
    tree(SOURCE.replace("values = [", more).replace("mean = 1.00 }", own))
    ((value,), _) = paper_values("one")
    assert (value.not_comparable, value.budget, value.interesting) == ("other data; other hardware", 7.0, 0.3)
    assert value.se == pytest.approx(math.hypot(0.3, 0.1))


@pytest.mark.parametrize(("key", "said"), [("*", "why"), ("U(", "why"), ("N( | U(", "why"), ("N(", "")])
def test_a_reason_goes_by_the_setting(key, said):
    assert published._reason({key: "why"}, {"setting": "U(-1,1)"}) == said


@pytest.mark.parametrize(
    ("limits", "expected", "printed"),
    [
        ("", None, "1.00"),
        (", at_least = 0.80", (0.8, math.inf), "≥ 0.80"),
        (", at_most = 3", (-math.inf, 3.0), "≤ 3"),
        (", at_least = 0.90, at_most = 0.95", (0.9, 0.95), "0.90 to 0.95"),
    ],
)
def test_a_claim_about_all_data_sets_has_limits(tree, limits, expected, printed):
    tree(SOURCE.replace("mean = 1.00", f"mean = 1.00{limits}"))
    ((value,), _) = paper_values("one")
    assert (value.limits, value.printed) == (expected, printed)


@pytest.mark.parametrize(
    ("line", "kind"),
    [('own = ["M"]', "own"), ("own = []", "rival"), ('own = ["N"]', "rival"), ("oracle = true", "oracle")],
)
def test_every_number_is_of_one_kind(tree, line, kind):
    tree(SOURCE.replace('own = ["M"]', line))
    ((value,), _) = paper_values("one")
    assert value.kind == kind


def test_the_five_papers_own_methods_are_those_that_they_propose():
    """377 numbers of them, 305 of others, 108 that check a reference of ours; counted cell by cell."""
    kinds = {(value.paper, value.where): value.kind for name in lab.names() for value in paper_values(name)[0]}
    found = {kind: sum(one == kind for one in kinds.values()) for kind in published.KINDS}
    assert found == {"own": 377, "rival": 305, "oracle": 108}


def test_a_spread_over_splits_counts_their_overlap_once(tree):
    own = "mean = 1.00, sd = 0.2 }"
    splits = "replicates = 4\nsplits = { number = 20, overlap = 0.1 }"
    tree(SOURCE.replace("mean = 1.00 }", own).replace("replicates = 4", splits))
    ((value,), _) = paper_values("one")
    assert value.se == pytest.approx(0.1 * math.sqrt(3)) and value.df == pytest.approx(19)
    tree(SOURCE.replace("mean = 1.00 }", own), age=3)
    ((value,), _) = paper_values("one")
    assert value.se == pytest.approx(0.1) and value.df == pytest.approx(3)


def test_the_best_epoch_on_the_test_images_stands_beside_ours_of_the_same_kind(tree):
    tree(SOURCE.replace("rmse_test", "error_test").replace("own =", 'best_epoch = ["error_test"]\nown ='))
    last, best = paper_values("one")[0]
    assert last.not_comparable == "theirs is the best epoch on the test images, ours the last"
    assert (best.metric, best.not_comparable, best.where) == ("error_test_best_epoch", "", last.where)
    tree(SOURCE.replace("own =", 'best_epoch = ["rmse_test"]\nown ='), age=4)
    with pytest.raises(StoreError, match=r"'rmse_test_best_epoch' is not in metrics\.toml"):
        paper_values("one")

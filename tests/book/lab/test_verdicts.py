"""The verdict rule, branch by branch, and the published numbers."""

from __future__ import annotations

import math
from itertools import product
from statistics import stdev

import pytest

from book import lab
from book.lab import paper_values, verdict
from book.lab.verdicts import PaperValue, metrics
from chapters.learned_priors.experiments import fgsm as aeb_fgsm
from chapters.learned_priors.experiments import regression as aeb_regression

EXPERIMENTS = ("svbnn-simulation-1a", "svbnn-simulation-1b", "svbnn-simulation-2", "svbnn-lambda", "svbnn-mnist")

ADAPTIVE = ("aeb-regression", "aeb-uci", "aeb-mnist", "aeb-fmnist", "aeb-fgsm", "aeb-resnet20")


def _value(**changes) -> PaperValue:
    given = {
        "paper": "002",
        "table": "Table 2",
        "cell": "SVBNN, Test RMSE",
        "experiment": "x",
        "setting": "a",
        "method": "SVBNN",
        "metric": "rmse_test",
        "unit": "",
        "direction": "lower",
        "nominal": None,
        "mean": 1.21,
        "sd": 0.05,
        "rounding": 0.005,
        "reading": 0.0,
        "tolerance": None,
        "replicates": 25,
        "note": "",
        "printed": "1.21 ± 0.05",
    }
    return PaperValue(**(given | changes))


# default tolerance of _value(): 0.005 + 2 sqrt(se^2 + (0.05 / 5)^2); with se = 0 it is 0.025
@pytest.mark.parametrize(
    ("changes", "mean", "se", "expected"),
    [
        ({}, 1.235, None, "reproduced"),
        ({}, 1.185, 0.0, "reproduced"),
        ({}, 1.2351, None, "within noise"),
        ({}, 1.2351, 0.01, "reproduced"),  # our own standard error widens the tolerance
        ({}, 1.26, None, "within noise"),
        ({}, 1.16, None, "within noise"),
        ({}, 1.2601, None, "not reproduced"),
        ({}, 1.1599, None, "better"),
        ({"direction": "higher"}, 1.2601, None, "better"),
        ({"direction": "higher"}, 1.1599, None, "not reproduced"),
        ({"direction": "none"}, 1.1599, None, "not reproduced"),
        ({"direction": "none"}, 1.2601, None, "not reproduced"),
        ({"direction": "nominal", "nominal": 1.0}, 1.1, None, "better"),
        ({"direction": "nominal", "nominal": 1.0}, 0.7, None, "not reproduced"),
        ({"tolerance": 0.1}, 1.31, None, "reproduced"),  # a given tolerance replaces the default
        ({"tolerance": 0.001}, 1.215, None, "within noise"),
        ({"sd": None}, 1.215, None, "reproduced"),  # only the rounding is left
        ({"sd": None}, 1.2151, None, "not reproduced"),  # without a spread nothing is within noise
        ({"sd": None}, 1.2049, None, "better"),
        ({"sd": None, "reading": 0.03}, 1.245, None, "reproduced"),
        ({"sd": 0.0, "mean": 100.0, "rounding": 0.5, "direction": "none"}, 99.5, 0.0, "reproduced"),
        ({"sd": 0.0, "mean": 100.0, "rounding": 0.5, "direction": "none"}, 99.4, 0.0, "not reproduced"),
    ],
)
def test_every_branch_of_the_rule(changes, mean, se, expected):
    assert verdict(_value(**changes), mean, se) == expected


def test_every_published_number_is_complete_and_unique():
    counts = {}
    for name in EXPERIMENTS:
        values, _ = paper_values(name)
        keys = [(value.setting, value.method, value.metric) for value in values]
        assert len(keys) == len(set(keys)), name
        counts[name] = len(keys)
        for value in values:
            assert value.paper == "002" and value.table and value.cell and value.replicates >= 1
            assert value.metric in metrics() and value.rounding > 0
            assert value.direction in {"lower", "higher", "nominal", "none"}
            assert value.sd is not None or value.reading or value.tolerance is not None or value.direction == "none"
    # Tables 1 and 2 hold 22 + 32 + 28 numbers, the curves 13 x 3, the text and Figure 3 four
    assert counts == dict(zip(EXPERIMENTS, (22, 32, 28, 39, 4), strict=True))


def test_the_numbers_of_paper_000_are_complete_and_their_tolerances_follow_from_the_test_sets():
    counts, seen = {}, set()
    for name in ADAPTIVE:
        values, _ = paper_values(name)
        counts[name] = len(values)
        for value in values:
            key = (name, value.setting, value.method, value.metric)
            assert key not in seen
            seen.add(key)
            assert value.paper == "000" and value.table and value.cell and value.note and value.replicates == 1
            if name == "aeb-regression":
                spread = {"mse_test": 2.0, "mae_test": math.pi / 2 - 1.0}[value.metric]
                expected = 2.0 * value.mean * math.sqrt(spread / 50)
            elif name == "aeb-uci":
                expected = 2.0 * value.sd
                other_target = value.setting.startswith("energy")
                assert (value.direction == "none") is other_target and ("cooling" in value.note) is other_target
            elif name == "aeb-fgsm":
                assert value.tolerance is None and value.reading == 1.0
                continue
            else:
                expected = 2.0 * math.sqrt(value.mean * (100.0 - value.mean) / 10_000)
            # written out to two digits, to three in the UCI table
            assert value.tolerance == pytest.approx(expected, abs=0.005001)
    # Table 1: 4 settings x 2 errors x (3 methods + 2 variants); UCI: 5 sets x 6 twice, and 6; Table 2: 2 x 4 twice;
    # Figure 2: 3 x 4; Table 3: 4 x 4 by two rules
    assert counts == dict(zip(ADAPTIVE, (40, 66, 8, 8, 12, 32), strict=True))


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
    assert set(also) == {"N(0,1)", "U(-1,1), sigma0^2=2"}


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
    assert verdict(vd, 94.0, 0.1) == "better"
    assert verdict(vd, 60.0, 0.1) == "not reproduced"


def test_the_published_settings_are_those_of_the_experiments():
    for name in set(EXPERIMENTS) & set(lab.names()):
        values, also = paper_values(name)
        cells = next(iter(lab.get(name).profiles.values()))()
        ours = {(cell.setting, cell.method) for cell in cells}
        for value in values:
            assert value.setting == "*" or (value.setting, value.method) in ours, value
        assert set(also) <= {setting for setting, _ in ours}


def test_variants_of_a_method_are_laid_beside_the_same_numbers():
    values, _ = paper_values("aeb-regression")
    by_key = {(value.method, value.setting, value.metric): value for value in values}
    for variant, method in {"SGLD, no L1": "SGLD", "SGLD-SA, w=0.1": "SGLD-SA"}.items():
        keys = [key[1:] for key in by_key if key[0] == variant]
        assert len(keys) == 8
        for key in keys:
            ours, other = by_key[variant, *key], by_key[method, *key]
            assert (ours.mean, ours.tolerance, ours.where) == (other.mean, other.tolerance, other.where)


def test_variants_of_a_data_set_are_laid_beside_the_same_numbers():
    values, _ = paper_values("aeb-uci")
    by_key = {(value.setting, value.method): value for value in values}
    variants = [key for key in by_key if "," in key[0]]
    assert len(variants) == 36
    for setting, method in variants:
        ours, other = by_key[setting, method], by_key[setting.partition(",")[0], method]
        assert (ours.printed, ours.tolerance, ours.where) == (other.printed, other.tolerance, other.where)


def test_the_published_settings_of_paper_000_are_those_of_the_experiments():
    for name in set(ADAPTIVE) & set(lab.names()):
        profiles = lab.get(name).profiles.values()
        ours = {(cell.setting, cell.method) for profile in profiles for cell in profile()}
        if name == "aeb-regression":  # a cell holds all chains of a data set
            settings = [aeb_regression.setting_name(*setting) for setting in aeb_regression.SETTINGS]
            ours = set(product(settings, aeb_regression.METHODS))
        if name == "aeb-fgsm":  # a cell holds all sizes of the attack
            ours = {(f"{setting} zeta={size:g}", method) for (setting, method), size in product(ours, aeb_fgsm.SIZES)}
        assert {(value.setting, value.method) for value in paper_values(name)[0]} <= ours, name

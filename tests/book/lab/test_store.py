"""A stored result survives whatever happens while another is written."""

import errno
import json
import os

import numpy as np
import pytest

from book import lab
from book.lab.store import ARRAYS_LIMIT


def _result(profile="smoke", done=2, total=2, value=1.25):
    row = {"setting": "a", "method": "SVBNN", "replicate": 0, "metric": "rmse_test", "value": value}
    cells = {"total": total, "done": done, "failed": 0}
    return {"experiment": "x", "profile": profile, "provenance": {"cells": cells}, "rows": [row]}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    return tmp_path


def test_numbers_come_back_bit_for_bit_and_the_file_is_strict_json(home):
    values = [0.1 + 0.2, 1e-320, -0.0, float("nan"), float("inf"), float("-inf"), np.float32(0.1)]
    result = _result()
    result["rows"] = [{**result["rows"][0], "replicate": i, "value": value} for i, value in enumerate(values)]
    path = lab.save_result(result)
    json.loads(path.read_text(), parse_constant=pytest.fail)
    loaded = [row["value"] for row in lab.load_result("x", "smoke")["rows"]]
    assert [float(a).hex() for a in loaded] == [float(b).hex() for b in values]


def test_one_line_a_row_in_a_file_that_others_can_read(home):
    path = lab.save_result(_result())
    text = path.read_text()
    assert '{"setting": "a", "method": "SVBNN", "replicate": 0, "metric": "rmse_test", "value": 1.25}\n' in text
    assert text.endswith("}\n") and path.stat().st_mode & 0o777 == 0o644


def test_the_best_complete_profile_is_taken(home):
    lab.save_result(_result("smoke"))
    assert lab.load_result("x")["profile"] == "smoke"
    lab.save_result(_result("book"))
    lab.save_result(_result("paper", done=1))
    assert lab.load_result("x")["profile"] == "book" and lab.load_result("x", "paper")["profile"] == "paper"
    lab.save_result(_result("paper"))
    assert lab.load_result("x")["profile"] == "paper"


def test_what_is_not_stored_says_how_to_make_it(home):
    with pytest.raises(lab.StoreError, match="python -m book run x --profile book"):
        lab.load_result("x")
    with pytest.raises(lab.StoreError, match="python -m book run x --profile paper"):
        lab.load_result("x", "paper")


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, ""), OSError(errno.EFBIG, ""), KeyboardInterrupt()])
def test_a_full_disk_and_an_interrupt_leave_the_old_result_untouched(home, monkeypatch, function, error):
    path = lab.save_result(_result())
    before = path.read_bytes()

    def stopped(*_):
        raise error

    monkeypatch.setattr(os, function, stopped)
    with pytest.raises((lab.StoreError, KeyboardInterrupt)) as caught:
        lab.save_result(_result(value=2.0))
    told = str(caught.value)
    assert not told or ("disk is full. What was stored before is untouched" in told and "same command again" in told)
    assert path.read_bytes() == before and [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_made_is_named(home):
    (home / "results").write_text("a file where the folder should be")
    with pytest.raises(lab.StoreError, match="could not be written to the folder 'results'"):
        lab.save_result(_result())


def test_arrays_come_back_and_large_ones_are_refused(home):
    # methods and names may have bars of their own
    where = [("1b/lambda=0.1", "SVBNN", 0, "curve"), ("a", "BN", 2, "SBN|draws"), ("a", "sBNN by |m|", 0, "cdf")]
    lab.save_result(_result(), {"|".join(map(str, key)): np.eye(2 + k) for k, key in enumerate(where)})
    loaded = lab.load_arrays("x", "smoke")
    assert set(loaded) == set(where) and np.array_equal(loaded[where[1]], np.eye(3))
    assert lab.load_arrays("x", "book") == {}
    noise = np.random.default_rng(0).normal(size=ARRAYS_LIMIT // 8 + 1000)
    with pytest.raises(lab.StoreError, match="at most 200,000 may lie beside a result"):
        lab.save_result(_result(value=2.0), {"a|b|0|noise": noise})
    assert lab.load_result("x")["rows"][0]["value"] == 1.25

"""Caching, merging, failures and provenance of a run in this process."""

import errno
import json
import math
import os
import socket
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from bnnlib import datasets
from bnnlib._files import StoreError
from book import lab
from book.lab import ExperimentError, catalog, keys, load_arrays, load_result, runner
from book.lab import store as files
from book.lab.cells import Cell, Need


def test_a_second_run_computes_nothing_locks_nothing_and_leaves_the_file(tiny, monkeypatch, capsys):
    lab.run("tiny-good")
    path = tiny.home / "results" / "tiny-good.smoke.json"
    before = path.stat().st_mtime_ns
    monkeypatch.setattr(files, "FileLock", lambda path: pytest.fail("it was locked"))
    lab.run("tiny-good")
    assert path.stat().st_mtime_ns == before and tiny.started() == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert "4 of 4 chosen ones are known" in capsys.readouterr().err


def test_runs_with_only_merge_into_one_result_and_count_all_minutes(tiny):
    first = lab.run("tiny-good", only="b SVBNN")
    assert first["provenance"]["cells"] == {"total": 4, "done": 1, "failed": 0}
    second = lab.run("tiny-good", only="d")
    assert [row["setting"] for row in second["rows"]] == ["b", "b", "d", "d"]
    whole = lab.run("tiny-good")
    assert [row["setting"] for row in whole["rows"]] == list("aabbccdd")
    assert tiny.started() == {"a": 1, "b": 1, "c": 1, "d": 1}
    entries = [json.loads(path.read_text()) for path in tiny.home.glob("cache/runs/tiny-good/*.json")]
    assert whole["provenance"]["minutes"] == round(sum(entry["seconds"] for entry in entries) / 60, 3)
    stored = load_result("tiny-good", "smoke")
    assert stored["rows"] == whole["rows"] and stored["provenance"] == whole["provenance"]


def test_known_cells_are_computed_again_when_asked(tiny):
    before = lab.run("tiny-good")
    after = lab.run("tiny-good", only="b SVBNN [0-1]", again=True)
    assert tiny.started() == {"a": 1, "b": 2, "c": 1, "d": 1}
    assert after["rows"] == before["rows"] and load_result("tiny-good", "smoke")["rows"] == before["rows"]
    assert after["provenance"]["command"].endswith('--again --only "b SVBNN [0-1]"')


def test_a_known_cell_that_fails_anew_is_a_failed_one(tiny, monkeypatch):
    lab.run("tiny-needs", only="network")
    monkeypatch.setenv("TINY_FAILS", "network")
    result = lab.run("tiny-needs", only="network", again=True)
    assert [row["metric"] for row in result["rows"]] == ["error"]
    monkeypatch.delenv("TINY_FAILS")
    assert [row["metric"] for row in lab.run("tiny-needs", only="network")["rows"]] == ["rmse_test"]


def test_a_cell_that_lacks_what_it_needs_keeps_what_is_known_of_it(tiny, monkeypatch):
    before = lab.run("tiny-needs")
    monkeypatch.setenv("TINY_FAILS", "network")
    after = lab.run("tiny-needs", again=True)
    kept = [[row for row in one["rows"] if row["setting"] != "network"] for one in (before, after)]
    assert kept[0] == kept[1] and [row["metric"] for row in after["rows"] if row["setting"] == "network"] == ["error"]


def test_wrong_counts_in_a_stored_result_are_put_right(tiny):
    whole = lab.run("tiny-good")
    wrong = whole | {"provenance": whole["provenance"] | {"cells": {"total": 4, "done": 1, "failed": 0}}}
    files.save_result(wrong)
    assert lab.run("tiny-good")["provenance"] == whole["provenance"] == load_result("tiny-good", "smoke")["provenance"]


def test_a_whole_label_chooses_one_cell_although_others_contain_it(tiny, monkeypatch):
    profiles = lab.get("tiny-good").profiles
    monkeypatch.setitem(profiles, "smoke", lambda: [Cell("a", "SVBNN", (0,)), Cell("not a", "SVBNN", (0,))])
    result = lab.run("tiny-good", only="a SVBNN [0]")
    assert [row["setting"] for row in result["rows"]] == ["a"]


def test_rows_do_not_depend_on_what_ran_before(tiny):
    alone = lab.run("tiny-good", only="c")["rows"]
    tiny.forget("tiny-good")
    everything = lab.run("tiny-good")["rows"]
    assert [row for row in everything if row["setting"] == "c"] == alone


def test_the_caller_keeps_its_threads_and_its_random_numbers(tiny):
    threads = torch.get_num_threads()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    lab.run("tiny-good", threads=1)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.rand(3), expected)


def test_a_fresh_clone_goes_on_from_the_committed_cells(tiny):
    lab.run("tiny-good", only="a")
    lab.run("tiny-good", only="b")
    tiny.forget("tiny-good", results=False)  # results are there, the cache is not
    whole = lab.run("tiny-good")
    assert tiny.started() == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert [row["setting"] for row in whole["rows"]] == list("aabbccdd")
    assert [(about["cell"]["setting"], about["rows"]) for about in whole["cells"]] == [(one, 2) for one in "abcd"]


def test_finished_cells_reach_the_result_one_by_one(tiny, monkeypatch):
    seen = []
    save = files.save_result
    counted = lambda result, *more: seen.append(result["provenance"]["cells"]["done"]) or save(result, *more)  # noqa: E731
    monkeypatch.setattr(files, "save_result", counted)
    lab.run("tiny-good")
    assert seen == [1, 2, 3, 4]


def test_a_raised_version_computes_again_and_the_old_rows_stay_until_then(tiny, monkeypatch):
    lab.run("tiny-arrays")
    old = tiny.rows_text("tiny-arrays")
    again = replace(lab.get("tiny-arrays"), version=2)
    monkeypatch.setattr(catalog, "_entry", lambda name: ("tiny_experiments", again))
    result = lab.run("tiny-arrays", only="a SVBNN")
    assert tiny.started() == {"a": 2, "b": 1}
    assert [(one["cell"]["setting"], one["version"]) for one in result["cells"]] == [("a", 2), ("b", 1)]
    assert tiny.rows_text("tiny-arrays") == old
    assert set(load_arrays("tiny-arrays", "smoke")) == {(one, "SVBNN", 0, "curve") for one in "ab"}
    assert [one["version"] for one in lab.run("tiny-arrays")["cells"]] == [2, 2]


def test_other_data_are_another_cell(tiny, monkeypatch):
    content = {"small-set": "the official one"}
    monkeypatch.setattr(datasets, "available", lambda name: True)
    monkeypatch.setattr(datasets, "fingerprint", content.__getitem__)
    assert lab.run("tiny-data")["cells"][0]["data"] == content
    content["small-set"] = "a lossy copy"
    keys._fingerprint.cache_clear()  # as in a new process
    assert lab.run("tiny-data")["cells"][0]["data"] == content and tiny.started() == {"a": 2}


def test_failures_stay_in_the_table_and_are_tried_again(tiny, monkeypatch):
    result = lab.run("tiny-failing")
    failed = {(row["setting"], row["replicate"]): row for row in result["rows"] if row["metric"] == "error"}
    # a cell that raises fails for all its replicates, a NaN only for the replicate that has it
    assert set(failed) == {("raises", 0), ("raises", 1), ("returns", 1)}
    assert failed["raises", 0]["note"] == "FloatingPointError: the loss is NaN at step 3; lower the learning rate"
    assert failed["returns", 1]["note"] == "rmse_test is NaN"
    assert all(math.isnan(row["value"]) for row in failed.values())
    assert sum(row["metric"] == "rmse_test" for row in result["rows"]) == 3
    assert result["provenance"]["cells"] == {"total": 3, "done": 2, "failed": 1}
    assert json.loads(tiny.result_text("tiny-failing"), parse_constant=pytest.fail)["rows"]  # strict JSON: no NaN token

    monkeypatch.setenv("TINY_MENDED", "1")
    mended = lab.run("tiny-failing")
    assert tiny.started() == {"fine": 1, "raises": 2, "returns": 1}
    assert mended["provenance"]["cells"]["failed"] == 0
    assert not list(tiny.home.glob("cache/runs/*/*.failed.json"))


def test_another_run_keeps_the_failed_rows_of_cells_it_does_not_choose(tiny):
    lab.run("tiny-failing", only="raises")
    result = lab.run("tiny-failing", only="fine")
    assert {row["setting"] for row in result["rows"] if row["metric"] == "error"} == {"raises"}


def test_provenance_says_where_the_rows_come_from_and_names_nobody(tiny):
    about = lab.run("tiny-good", "book", only="a")["provenance"]
    assert about["seeds"] == {"replicates": [0, 1, 2], "seed": [3]}
    assert about["command"] == 'python -m book run tiny-good --profile book --device auto --only "a"'
    assert about["versions"]["torch"] == torch.__version__
    assert about["machine"]["cores"] == os.cpu_count() and about["machine"]["cpu"]
    assert about["device"].startswith(("cpu", "NVIDIA"))
    assert about["minutes"] >= 0 and about["wall_minutes"] >= 0
    assert set(about) >= {"commit", "dirty", "data", "cells"}
    text = tiny.result_text("tiny-good", "book")
    for private in (socket.gethostname(), str(tiny.home), os.path.expanduser("~") + "/", os.getcwd()):
        assert private not in text


def test_data_sets_are_fetched_before_the_first_cell_and_named_in_the_provenance(tiny, monkeypatch):
    calls = []
    monkeypatch.setattr(datasets, "available", lambda name: bool(calls))
    monkeypatch.setattr(datasets, "fetch", lambda name: calls.append((name, sum(tiny.started().values()))))
    monkeypatch.setattr(datasets, "fingerprint", lambda name: f"sha256 of {name}")
    about = lab.run("tiny-data")["provenance"]
    assert calls == [("small-set", 0)] and about["data"] == {"small-set": "sha256 of small-set"}
    calls.clear()  # as in a fresh clone
    lab.run("tiny-data")
    assert not calls  # nothing is left to do with it
    lab.run("tiny-data", again=True)
    assert calls == [("small-set", 1)] and tiny.started() == {"a": 2}


def test_overlapping_cells_and_params_that_are_not_json_are_refused(tiny, monkeypatch):
    profiles = lab.get("tiny-good").profiles
    monkeypatch.setitem(profiles, "smoke", lambda: [Cell("a", "SVBNN", (0, 1)), Cell("a", "SVBNN", (1, 2))])
    with pytest.raises(ExperimentError, match="overlaps another cell"):
        lab.run("tiny-good")
    monkeypatch.setitem(profiles, "smoke", lambda: [Cell("a", "SVBNN", (0,), {"seed": torch.tensor(3)})])
    with pytest.raises(ExperimentError, match="cannot be written as JSON"):
        lab.run("tiny-good")


def test_the_key_depends_on_settings_version_needs_and_data_and_not_on_the_code(tiny):
    experiment = lab.get("tiny-good")
    cell = Cell("a", "SVBNN", (0, 1), {"epochs": 3})
    changes = [{"setting": "b"}, {"method": "VBNN"}, {"replicates": (0, 2)}, {"params": {"epochs": 4}}]
    changes += [{"needs": (Need("tiny-good", Cell(setting, "SVBNN", (0,))),)} for setting in "bc"]
    others = [replace(cell, **change) for change in changes]
    same = keys.identity(experiment, Cell("a", "SVBNN", (0, 1), {"epochs": 3}))
    assert keys.identity(experiment, cell) == same == keys.identity(lab.get("tiny-failing"), cell)
    assert keys.identity(replace(experiment, version={"SVBNN": 2}), cell) != same
    assert keys.identity(replace(experiment, version={"other": 2}), cell) == same
    assert len({same, *(keys.identity(experiment, one) for one in others)}) == 7
    assert keys.cache_key(same, {"mnist": "x"}) != keys.cache_key(same, {"mnist": "y"})
    assert len({keys.seed_of(one) for one in (cell, *others[:4])}) == 5
    assert keys.seed_of(replace(cell, replicates=(0,))) == 772834775410452918  # as it was when results were stored
    assert keys.seed_of(cell) == keys.seed_of(others[-1])  # what it starts from is no part of its own randomness


def test_several_gpus_are_dealt_out_in_turn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    from book.lab.cluster import spread

    assert [spread("cuda", worker) for worker in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert spread("cpu", 1) == "cpu" and spread("cuda:1", 0) == "cuda:1"
    assert spread("cuda", "tcp://other:40000") == "cuda"  # who starts workers elsewhere has given them their devices


def test_a_full_disk_keeps_finished_cells_and_the_earlier_result(tiny, monkeypatch):
    replaced = []
    rename = os.replace

    def full_after_two(source, target):
        if len(replaced) == 4:  # two cells, each once in the cache and once in the result
            raise OSError(errno.ENOSPC, "No space left on device")
        replaced.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "replace", full_after_two)
    with pytest.raises(StoreError, match=r"the disk is full\. What was stored before is untouched"):
        lab.run("tiny-good")
    monkeypatch.setattr(os, "replace", rename)
    assert [one["cell"]["setting"] for one in load_result("tiny-good", "smoke")["cells"]] == ["a", "b"]
    assert not list(tiny.home.glob("**/*.tmp"))
    lab.run("tiny-good")
    assert tiny.started() == {"a": 1, "b": 1, "c": 2, "d": 1}  # a and b were kept, c could not be written


@pytest.mark.parametrize(
    ("device", "params", "told"),
    [("cpu", {"bfloat16": True}, True), ("cpu", {"bfloat16": False}, False), ("cuda", {"precision": "bfloat16"}, 0)],
)
def test_a_processor_without_bfloat16_is_told_of(monkeypatch, capsys, device, params, told):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    task = SimpleNamespace(device=device, cell=SimpleNamespace(params=params))
    runner.warn_of_bfloat16([task])
    assert ("several times as long" in capsys.readouterr().err) == told

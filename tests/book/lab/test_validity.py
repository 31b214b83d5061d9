"""What is known of stored results when the code, the parameters, the version or the machine are other ones."""

import json
import shutil

import pytest

from bnnlib._files import StoreError
from book.__main__ import main
from book.lab import history, load_result, provenance, runner, validity, verify
from book.lab.store import result_path, save_result
from tests.book.lab.packs import MATHS


def _result():
    return load_result("probed", "book")


def test_a_run_leaves_the_probes_of_the_code_that_it_ran(pack):
    result = pack.run()
    kinds = [(one["cell"]["method"], one["cell"]["params"]) for one in result["probes"]]
    assert kinds == [("SVBNN", {"epochs": 1}), ("VD", {"epochs": 1})]
    assert result["probes"][0]["rows"] == [["a", "SVBNN", 0, "rmse_test", 1.0]]
    cells, probes = ({one["cell"]["method"]: one["code"] for one in result[part]} for part in ("cells", "probes"))
    assert cells == probes
    before = result_path("probed", "book").read_bytes()
    pack.run()
    assert result_path("probed", "book").read_bytes() == before  # and a run with nothing to do leaves all as it is
    assert runner.run("probed", "smoke")["probes"] == []


def test_an_interrupted_run_leaves_no_probe_and_the_next_one_does(pack, interrupting):
    interrupting()
    with pytest.raises(KeyboardInterrupt):
        pack.run()
    assert len(_result()["cells"]) == 1 and _result()["probes"] == []
    assert len(pack.run()["probes"]) == 2


def test_a_helper_moved_into_another_module_changes_nothing(pack):
    pack.run()
    pack.write("shared.py", MATHS)
    pack.edit("from probed.maths", "from probed.shared")
    (pack.folder / "maths.py").unlink()
    pack.forget()
    assert set(pack.words(verify.verify("probed", "book")).values()) <= {"current", "certified"}
    assert pack.run()["rows"] == _result()["rows"]


def test_equal_probes_certify_other_code_and_nothing_runs_again(pack):
    rows = pack.run()["rows"]
    pack.edit("RATE * slope(", "slope(1) * RATE * 1.0 * (")
    assert pack.words() == {"SVBNN": "moved", "VD": "current"}
    before = result_path("probed", "book").read_bytes()
    assert pack.words(verify.verify("probed", "book", write=False))["SVBNN"] == "certified"
    assert result_path("probed", "book").read_bytes() == before
    verify.verify("probed", "book")
    assert pack.words() == {"SVBNN": "certified", "VD": "current"}
    (certificate,) = _result()["certificates"]
    assert set(certificate["codes"]) == {"SVBNN"} and certificate["difference"] == 0.0
    assert [one["code"] for one in _result()["cells"][:2]] == certificate["since"]["SVBNN"] * 2
    assert pack.run()["rows"] == rows and validity.worst(validity.states("probed", "book")) == "certified"


def test_another_constant_is_named_with_its_cells(pack):
    pack.run()
    pack.edit("RATE = 2.0", "RATE = 2.5")
    changed, same = verify.verify("probed", "book")
    assert (changed.method, changed.word) == ("SVBNN", "changed since")
    assert changed.cells == ["a SVBNN [0-1]", "b SVBNN [0-1]"]
    assert changed.detail == "a SVBNN [0]: rmse_test is 1.25, was 1"
    assert (same.method, same.word) == ("VD", "current")
    assert not _result()["certificates"] and pack.words()["SVBNN"] == "moved"


def test_other_parameters_or_another_version_make_cells_outdated_until_they_run(pack):
    pack.run()
    pack.edit('Cell("b", "SVBNN", (0, 1), params)', 'Cell("b", "SVBNN", (0, 1), {"epochs": 20})')
    found = {(one.method, one.word): one.cells for one in validity.states("probed", "book")}
    assert found.pop(("SVBNN", "outdated")) == ["b SVBNN [0-1]"]
    assert found == {("SVBNN", "current"): ["a SVBNN [0-1]"], ("VD", "current"): ["c VD [0]"]}
    assert validity.worst(verify.verify("probed", "book")) == "outdated"
    pack.edit("version=1", 'version={"VD": 2}')
    assert pack.words()["VD"] == "outdated"
    pack.run()
    assert pack.words() == {"SVBNN": "current", "VD": "current"}
    assert [one["version"] for one in _result()["probes"] if one["cell"]["method"] == "VD"] == [2]


def test_after_a_raised_version_the_new_probes_are_what_is_compared(pack):
    pack.run()
    pack.edit("RATE = 2.0", "RATE = 2.5")
    pack.edit("version=1", "version=2")
    pack.run()
    pack.edit("RATE = 2.5", "RATE = 5.0 / 2")
    assert pack.words(verify.verify("probed", "book"))["SVBNN"] == "certified"


def test_a_reason_accepts_a_change_and_its_probes_are_the_next_measure(pack):
    pack.run()
    pack.edit("RATE = 2.0", "RATE = 2.5")
    (accepted, _) = verify.verify("probed", "book", accept="the paper's erratum")
    assert (accepted.word, accepted.detail) == ("accepted", "the paper's erratum")
    assert _result()["certificates"][0]["reason"] == "the paper's erratum" and pack.words()["SVBNN"] == "accepted"
    pack.edit("RATE = 2.5", "RATE = 5.0 / 2")
    assert pack.words(verify.verify("probed", "book"))["SVBNN"] == "certified"
    pack.edit("RATE = 5.0 / 2", "RATE = 2.0")  # back: the code that computed the cells
    assert pack.words()["SVBNN"] == "current"


def test_a_result_without_probes_says_so(pack):
    result = pack.run() | {"probes": []}
    save_result(result)
    assert pack.words() == {"SVBNN": "current", "VD": "current"}
    pack.edit("RATE = 2.0", "RATE = 4.0 / 2")
    moved, _ = verify.verify("probed", "book")
    assert (moved.word, moved.detail) == ("no probe", "no stored probe of a SVBNN [0]")
    assert [one["cell"]["method"] for one in _result()["probes"]] == ["VD"]  # of the cells that are current


def test_kinds_of_which_nothing_is_stored_are_not_asked_for(pack):
    pack.run()
    pack.edit('Cell("c", "VD"', 'Cell("d", "SVBNN", (0,), params | {"wide": True}), Cell("c", "VD"')
    pack.edit("RATE = 2.0", "RATE = 4.0 / 2")
    verify.verify("probed", "book")
    assert pack.words() == {"SVBNN": "certified", "VD": "current"}


def test_new_cells_of_other_code_beside_old_ones_are_told_and_judged_apart(pack, capsys):
    pack.run(only="a")
    pack.edit("RATE = 2.0", "RATE = 2.5")
    capsys.readouterr()
    pack.run(only="b")
    err = capsys.readouterr().err
    assert "the code of SVBNN has changed since a SVBNN [0-1] were computed (a SVBNN [0]: rmse_test is 1.25" in err
    assert "verify probed --profile book` decides" in err
    assert len(_result()["probes"]) == 1 and _result()["probes"][0]["rows"][0][4] == 1.0  # of the older cells
    (changed,) = verify.verify("probed", "book")
    assert (changed.word, changed.cells) == ("changed since", ["a SVBNN [0-1]"])


def test_a_probe_does_not_speak_for_cells_of_other_code(pack):
    pack.run(only="a")
    save_result(_result() | {"probes": []})
    pack.edit("RATE = 2.0", "RATE = 2.5")
    pack.run(only="b")
    assert [one["rows"][0][4] for one in _result()["probes"]] == [1.25]  # of b, the only probe there is
    (state,) = verify.verify("probed", "book")
    assert (state.word, state.cells) == ("no probe", ["a SVBNN [0-1]"])


def test_cells_of_several_codes_are_each_held_to_the_probe_of_their_kind(pack):
    pack.run(only="a")
    pack.edit('Cell("c", "VD"', 'Cell("d", "SVBNN", (0,), params | {"wide": True}), Cell("c", "VD"')
    pack.edit("RATE = 2.0", "RATE = 4.0 / 2")
    pack.run(only="d")
    assert len(_result()["probes"]) == 2  # a new kind with a probe of today leaves the others their own
    (state,) = verify.verify("probed", "book", write=False)
    assert (state.word, state.cells) == ("certified", ["a SVBNN [0-1]"])
    pack.edit("RATE = 4.0 / 2", "RATE = 6.0 / 3")
    assert [one.word for one in verify.verify("probed", "book")] == ["certified"]
    pack.edit("RATE = 6.0 / 3", "RATE = 2.5")
    (state,) = verify.verify("probed", "book")
    assert (state.word, state.cells) == ("changed since", ["a SVBNN [0-1]", "d SVBNN [0]"])


@pytest.mark.slow
def test_a_certificate_does_not_speak_for_cells_that_came_later(pack):
    pack.run(only="a")
    pack.edit("RATE = 2.0", "RATE = 4.0 / 2")
    verify.verify("probed", "book")
    pack.edit("RATE = 4.0 / 2", "RATE = 2.5")
    pack.run(only="b")
    pack.edit("RATE = 2.5", "RATE = 4.0 / 2")
    (state,) = validity.states("probed", "book")
    assert (state.word, state.cells) == ("moved", ["b SVBNN [0-1]"])


def test_a_probe_that_fails_does_not_fail_the_run(pack, capsys, monkeypatch):
    monkeypatch.setattr("book.lab.probes.run", lambda *_: 1 / 0)
    assert len(pack.run()["cells"]) == 3
    assert "the probe of VD failed: ZeroDivisionError" in capsys.readouterr().err


def _kind(probe):
    return verify.kind_of(probe["cell"])


def _elsewhere(part="cpu"):
    """The stored probes are of another processor, where the last bits differ."""
    result = _result()
    for probe in result["probes"]:
        probe["machine"] = probe["machine"] | {part: "another"}
        for row in probe["rows"]:
            row[4] *= 1 + 1e-7
    save_result(result)


def test_on_another_machine_the_probe_runs_at_an_earlier_commit_too(pack, monkeypatch):
    pack.run()
    _elsewhere()
    pack.edit("RATE = 2.0", "RATE = 4.0 / 2")
    rows = {kind: [["a", "SVBNN", 0, "rmse_test", 1.0]] for kind in map(_kind, _result()["probes"])}
    monkeypatch.setattr(history, "_git", lambda *_: b"c0ffee00")
    monkeypatch.setattr(history, "_answers", lambda *_: ({"SVBNN": rows}, ""))
    assert pack.words(verify.verify("probed", "book"))["SVBNN"] == "certified"
    pack.edit("RATE = 4.0 / 2", "RATE = 2.5")
    assert pack.words(verify.verify("probed", "book"))["SVBNN"] == "changed since"


@pytest.mark.parametrize(("precision", "word"), [("float32", "certified"), ("bfloat16", "moved")])
def test_another_bfloat16_counts_for_what_computes_in_it(pack, monkeypatch, precision, word):
    """As of a processor of the same name, with tiles or without; no commit is there to ask."""
    pack.run()
    _elsewhere("bfloat16")
    monkeypatch.setattr(verify.rounding, "share_of", lambda *_: verify.rounding.SHARE[precision])
    pack.edit("RATE = 2.0", "RATE = 4.0 / 2")
    assert pack.words(verify.verify("probed", "book"))["SVBNN"] == word


def test_a_history_that_cannot_tell_leaves_the_question_open(pack):
    pack.run()
    _elsewhere()
    pack.edit("RATE = 2.0", "RATE = 4.0 / 2")
    moved, _ = verify.verify("probed", "book")
    assert moved.word == "moved" and "no commit of this clone's history has code that agrees" in moved.detail


def test_the_command_line_verifies_all(pack, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    pack.run()
    capsys.readouterr()
    assert main(["verify", "--all", "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "probed", "profile": "book", "state": "current"}]
    pack.edit("RATE = 2.0", "RATE = 2.5")
    assert main(["verify", "--all", "--check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [{"name": "probed", "profile": "book", "state": "changed since"}]
    assert main(["verify", "probed"]) == 1
    out = capsys.readouterr().out
    assert "SVBNN: changed since: a SVBNN [0]: rmse_test is 1.25, was 1" in out and "a SVBNN [0-1]; b SVBNN" in out
    result_path("probed", "book").write_text("{")
    assert main(["verify", "--all", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [{"name": "probed", "profile": "book", "state": "damaged"}]


@pytest.mark.slow
def test_several_results_are_verified_side_by_side_and_told_in_their_order(tmp_path, monkeypatch):
    """By worker processes, which look into the same folder; damage to one leaves the others be."""
    names = ["fnd-linear.book", "aeb-logistic.paper", "aeb-coverage.book"]
    (tmp_path / "results").mkdir()
    for path in (result_path(*name.split(".")) for name in names):
        shutil.copy(path, tmp_path / "results" / path.name)
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    result_path("aeb-logistic", "paper").write_text("{")
    wanted = [tuple(name.split(".")) for name in names]
    for jobs in (1, 2):
        (*_, first), (*_, damaged), (*_, last) = found = list(verify.verify_several(wanted, jobs, write=False))
        assert [one[:2] for one in found] == wanted and isinstance(damaged, StoreError)
        assert {state.word for state in (*first, *last)} <= set(validity.GOOD)


def test_a_tree_with_changes_says_so_and_marks_its_cells(pack, capsys, monkeypatch):
    monkeypatch.setattr(provenance, "commit", lambda: {"commit": "c0ffee00", "dirty": True})
    result = pack.run()
    assert "the code has changes that are not committed" in capsys.readouterr().err
    assert {one["dirty"] for one in result["cells"]} == {True}
    runner.run("probed", "smoke")
    assert "not committed" not in capsys.readouterr().err

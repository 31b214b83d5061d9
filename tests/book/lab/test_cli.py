"""The command line: what scripts read from it, and how it fails."""

import json

import pytest

from bnnlib import datasets
from book.__main__ import main


@pytest.fixture
def cli(tiny, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)  # the handler of this process stays pytest's
    monkeypatch.setattr("os.nice", lambda _: 0)  # and so does its priority

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main(list(arguments))
        except SystemExit as stop:  # argparse
            code = stop.code
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_list_as_json_and_as_text(cli):
    assert cli("run", "tiny-good", "--only", "a")[0] == 0 and cli("run", "tiny-arrays")[0] == 0
    code, out, _ = cli("list", "--json")
    rows = json.loads(out)
    assert code == 0 and all(list(row) == ["name", "paper", "profiles", "done"] for row in rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["tiny-good"] == {"name": "tiny-good", "paper": "", "profiles": ["smoke", "book"], "done": []}
    assert by_name["tiny-arrays"]["done"] == ["smoke"]
    code, out, _ = cli("list")
    assert code == 0 and "smoke 1/4 current, book -" in out and "tiny-good for tests" in out
    header, *lines = out.splitlines()
    assert header.startswith("Experiment") and "certified:" in out and "paper 0" not in out
    assert max(map(len, [header, *lines])) <= 80


def test_run_prints_its_progress_on_standard_error_only(cli):
    code, out, err = cli("run", "tiny-good")
    assert (code, out) == (0, "")
    assert "[4/4] d SVBNN [0-1]" in err and "stored tiny-good.smoke.json: 4 cells done" in err


def test_a_failed_cell_is_exit_code_1_and_the_others_go_on(cli, tiny):
    code, _, err = cli("run", "tiny-failing")
    assert code == 1
    assert "failed: FloatingPointError: the loss is NaN at step 3" in err and "failed: rmse_test is NaN" in err
    assert set(tiny.started()) == {"fine", "raises", "returns"}


def test_known_cells_are_computed_again_when_asked(cli, tiny):
    assert cli("run", "tiny-good", "--only", "a")[0] == cli("run", "tiny-good", "--only", "a", "--again")[0] == 0
    assert tiny.started() == {"a": 2}


def test_devices_that_compute_a_cell_together_are_one_option(cli, tiny):
    assert cli("run", "tiny-together", "--device", "cpu", "--devices", "3")[0] == 0
    text = tiny.result_text("tiny-together")
    assert [row["value"] for row in json.loads(text)["rows"]] == [3.0, 3.0]
    assert json.loads(text)["provenance"]["command"].endswith("--device cpu --devices 3")


def test_table_as_json_has_exactly_the_promised_keys(cli):
    cli("run", "tiny-good")
    code, out, _ = cli("table", "tiny-good", "--json")
    rows = json.loads(out, parse_constant=pytest.fail)
    keys = ["setting", "method", "metric", "kind", "published", "mean", "se", "n", "profile", "verdict", "note"]
    assert code == 0 and len(rows) == 4 and all(list(row) == keys for row in rows)
    assert rows[0]["published"] is None and rows[0]["n"] == 2 and rows[0]["profile"] == "smoke"
    code, out, _ = cli("table", "tiny-good")
    assert code == 0 and "test RMSE" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "tiny-goood"), "unknown experiment 'tiny-goood'. Did you mean 'tiny-good'"),
        (("run", "tiny-good", "--profile", "boook"), "unknown profile 'boook'. Did you mean 'book'"),
        (("table", "tiny-goood", "--json"), "Did you mean 'tiny-good'"),
        (("table", "tiny-good", "--profile", "smoek"), "Did you mean 'smoke'"),
        (("run", "tiny-good", "--jobs", "many"), "invalid int value"),
        (("run", "tiny-good", "--profile", "paper"), "no profile 'paper': not run: no GPU"),
        (("run", "tiny-good", "--device", "gpu"), "give auto, cpu or cuda"),
        (("run", "tiny-good", "--only", "zebra"), "no cell matches --only 'zebra'. Cells: a SVBNN [0-1]"),
        (("run", "tiny-good", "--jobs", "0"), "both must be at least 1"),
        (("run", "tiny-good", "--devices", "2"), "must be 1, or more with one job of: tiny-together"),
        (("run", "tiny-together", "--devices", "0"), "devices=0, but it must be 1"),
        (("run", "tiny-together", "--devices", "2", "--jobs", "2"), "more with one job"),
        (("verify", "tiny-good", "--profile", "boook"), "unknown profile 'boook'. Did you mean 'book'"),
        (("run", "--all", "--again"), "leave --all out"),
        (("run", "--all", "--profile", "boook", "--dry-run"), "unknown profile 'boook'. Did you mean 'book'"),
        (("run", "tiny-good", "--scheduler", "nonsense"), "a worker answers at nonsense (it has no host and port)"),
        (("run", "tiny-good", "--scheduler", "tcp://127.0.0.1:9"), "Start one with `dask scheduler`"),
        (("table", "tiny-good"), "Make it with: python -m book run tiny-good --profile book"),
        (("table", "tiny-good", "--json"), "nothing is stored"),
        ((), "required: COMMAND"),
    ],
)
def test_wrong_usage_is_exit_code_2_with_a_hint_and_an_empty_standard_output(cli, tiny, arguments, message):
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "") and message in err and not tiny.started()


def test_data_that_cannot_be_had_and_profiles_that_are_not_stored_are_exit_code_1_and_a_sentence(
    cli, tiny, monkeypatch
):
    def offline(name):
        raise datasets.NotAvailableError(f"{name} is not here")

    monkeypatch.setattr(datasets, "available", lambda name: False)
    monkeypatch.setattr(datasets, "fetch", offline)
    assert cli("run", "tiny-data")[::2] == (1, "fetching data set 'small-set'\nbook: small-set is not here\n")
    cli("run", "tiny-good")
    code, _, err = cli("verify", "tiny-good")
    assert code == 1 and "is stored with profile book or paper; with others: smoke" in err


@pytest.mark.slow
def test_the_command_line_in_a_process_of_its_own(tiny):
    code, out, err = tiny.call("list", "--json")
    assert code == 0, err
    assert {row["name"] for row in json.loads(out)} >= {"tiny-good", "tiny-long"}
    code, out, err = tiny.call("run", "nothing")
    assert (code, out) == (2, "") and "Available: tiny-good" in err

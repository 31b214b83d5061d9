"""What the tests of benchmarks share."""

import json

import pytest


@pytest.fixture
def printed(capsys):
    """``printed(benchmark, *options)`` -> what it prints with ``--json``, which is what its function returns."""

    def rows(benchmark, *options: str):
        found = benchmark.main(["--json", *options])
        assert json.loads(capsys.readouterr().out) == found
        return found

    return rows

"""What every committed result has: its checksum, and of every cell the commit that it comes from."""

import re

import pytest

from book.lab import store

RESULTS = sorted((store.home() / "results").glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_stored_result_has_a_checksum_and_every_cell_a_commit(path):
    """A commit that was not written down with the cell is the one that brought its rows, and says so."""
    assert re.match(r'\{\n "sha256": "[0-9a-f]{64}",\n', path.read_text())
    result = store.read_result(path)
    assert result["rows"]
    for about in result["cells"]:
        assert re.fullmatch("[0-9a-f]{40}", about["commit"]), about["cell"]
        assert about.get("commit_from", "history") == "history" and not about.get("dirty")

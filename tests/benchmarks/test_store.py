"""What is kept beside a stored measurement."""

import json

from benchmarks import store, workers


def test_the_command_is_kept_without_where_its_work_lay(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    given = []
    monkeypatch.setattr(workers, "main", lambda arguments: given.append(arguments) or [{"one_s": 1.0}])
    path = store.main(["made", "workers", "--keep", "somewhere/file", "--only", "x", "--minutes", "3"])
    assert given == [["--keep", "somewhere/file", "--only", "x", "--minutes", "3", "--json"]]
    kept = json.loads(path.read_text())
    assert kept["about"]["command"] == "python -m benchmarks.workers --only x" and kept["rows"] == [{"one_s": 1.0}]
    assert store.read("made") == kept

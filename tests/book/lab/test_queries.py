"""What a text says of stored results."""

from __future__ import annotations

import pytest

from book import lab


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(None, "{:.1f}", "(not run)"), (0, "{}", "0"), (0.256, "{:.2f}", "0.26"), ("a, b", "{}", "a, b")],
)
def test_a_number_is_formatted_and_a_missing_one_says_so(value, form, text):
    assert lab.number(value, form) == text


def test_a_run_says_its_profile_replicates_and_minutes(tmp_path, monkeypatch):
    stored = lab.load_result("svbnn-lambda")
    said = lab.run_in_words("svbnn-lambda")
    assert said["profile"] == stored["profile"]
    assert int(said["replicates"]) == len(stored["provenance"]["seeds"]["replicates"])
    assert abs(int(said["minutes"]) - stored["provenance"]["minutes"]) <= 0.5
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    assert lab.run_in_words("svbnn-lambda") == {"profile": "not run", "replicates": "-", "minutes": "-"}

"""The statistics of keyed noise are about N(0, 1) where the law holds, and large where it does not."""

import pytest

from benchmarks import noise_law, store
from bnnlib import _noise as noise
from bnnlib import _redraw
from tests.book.test_what_layers_can import PAGE

fold = _redraw.fold


def largest(rows):
    return max(rows, key=lambda row: abs(row["z"]))


def test_keyed_noise_has_the_law_it_claims():
    # some twenty standardized statistics: one beyond 4.5 has probability 1e-4, and the seeds are fixed
    assert abs(largest(noise_law.normals(8) + noise_law.others(4))["z"]) < 4.5


@pytest.mark.parametrize(
    ("broken", "statistic"),
    [
        (lambda key, number: key if number < 2 else fold(key, number), "neighboring layers"),
        (lambda key, number: fold(key, min(number, 8)), "neighboring seeds"),
    ],
)
def test_keys_that_leave_something_out_are_found(monkeypatch, broken, statistic):
    monkeypatch.setattr(_redraw, "fold", broken)
    rows = {row["statistic"]: row["z"] for row in noise_law.normals(8)}
    assert abs(rows[statistic]) > 100


def test_numbers_of_another_law_are_found(monkeypatch):
    monkeypatch.setattr(noise_law, "draw_normal", lambda like, source: noise.draw_normal(like, source).clamp(-3, 3))
    assert largest(noise_law.normals(4))["statistic"] in {"moment 4", "1024 equal shares"}


def test_the_page_quotes_the_stored_run():
    stored = store.read("noise_law")
    rows, page = stored["rows"], PAGE.read_text(encoding="utf-8")
    worst = largest(rows)
    assert f"Of {len(rows)} statistics of 10⁸ such numbers" in page and "--millions" not in stored["about"]["command"]
    assert f"the one farthest from its law is {abs(worst['z'])} standard deviations away" in page

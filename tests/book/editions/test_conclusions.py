"""What the page says of the papers' conclusions is held by stored numbers, or the build stops."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from book.editions import conclusions
from book.editions.project import BookError

ROOT = Path(__file__).resolve().parents[3]
ENTRY = {"survives": False, "paper": "000", "claim": "From {second} to {first}.", "found": "No.", "experiment": "abc-x"}
ENTRY |= {"setting": "s", "method": "new", "other": "old", "metric": "error", "says": "below"}


def found(new=(1.0, 2.0, 3.0), old=(3.0, 4.5, 5.0)):
    rows = [
        {"setting": "s", "method": method, "metric": "error", "values": list(values), "published": published}
        for method, values, published in (("new", new, 1.5), ("old", old, None))
    ]
    return {"abc-x": {"runs": [{}], "rows": rows, "overlap": 0.0}}


def test_a_difference_is_taken_in_pairs():
    assert conclusions.measured(ENTRY, found()) == "−2.17 ± 0.17, n = 3"  # of -2, -2.5, -2


@pytest.mark.parametrize(
    ("says", "new", "old", "told"),
    [
        ("above", (1, 2, 3), (3, 4, 5), "is not 'above'"),
        ("no gain", (1, 2, 3), (3, 4, 5.1), "is not 'no gain'"),
        ("below", (1, 2, 3), (3, 4, 9), "is not 'below'"),
        ("below", (1, 5, 3), (3, 4, 5.5), "is not 'below'"),  # t standard errors are the limit
        ("below", (1, 2), (5, 6), "rests on 2 replicates"),
        ("below", (1, 2, 3), (5, 6), "no pairs"),
    ],
)
def test_numbers_that_say_something_else_stop_the_build(says, new, old, told):
    with pytest.raises(BookError, match=told):
        conclusions.measured(ENTRY | {"says": says}, found(new, old))


def test_an_interval_that_holds_zero_is_no_gain():
    noisy = found((1.0, 5.0, 3.0), (3.0, 4.0, 5.5))
    assert conclusions.measured(ENTRY | {"says": "no gain"}, noisy) == "−1.2 ± 1.1, n = 3"


def test_a_mean_is_laid_beside_a_number():
    entry = {key: value for key, value in ENTRY.items() if key != "other"} | {"than": 5.0}
    assert conclusions.measured(entry, found()) == "2.00 ± 0.58, n = 3"
    with pytest.raises(BookError, match="is not 'below'"):
        conclusions.measured(entry | {"than": 2.5}, found())


def test_what_is_not_comparable_concludes_nothing():
    rows = found()
    rows["abc-x"]["rows"][1]["verdict"] = "not comparable: budget 40 of 100 epochs"
    with pytest.raises(BookError, match="old is not comparable"):
        conclusions.measured(ENTRY, rows)


def test_a_tree_without_the_experiment_says_so():
    assert conclusions.measured(ENTRY, {}) == "(not run)"


@pytest.mark.parametrize("change", [{"says": "maybe"}, {"than": 1.0}, {"colour": "red"}])
def test_entries_are_checked(tmp_path, change):
    (tmp_path / "book").mkdir()
    told = {key: str(value).lower() if value is False else repr(value) for key, value in (ENTRY | change).items()}
    lines = [f"{key} = {value}" for key, value in told.items()]
    (tmp_path / conclusions.FILE).write_text("\n".join(["[[conclusion]]", *lines]), encoding="utf-8")
    with pytest.raises(BookError, match="From"):
        conclusions.listed(tmp_path)


def test_one_fell_two_stand_and_their_lists_name_the_reports():
    listed = conclusions.listed(ROOT)
    assert sorted(one["survives"] for one in listed) == [False] + [True] * 2
    studies = {"chapters/04_abc": SimpleNamespace(number=4, prefix="sbnn")}
    project = SimpleNamespace(root=ROOT, reports=studies)
    text = conclusions.told(project, {"sbnn-uci-causes": {"runs": [], "rows": []}}, False)
    assert "[04](reports/04_abc.md), `sbnn-uci-causes`" in text and "(not run)" in text and "{" not in text

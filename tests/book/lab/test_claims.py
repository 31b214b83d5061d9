"""What the papers claim: the schema of the files, the verdicts, and that every claim names something stored."""

import re

import pytest

from bnnlib._files import StoreError
from book import lab, studies
from book.lab import catalog, claims
from book.lab.claim_rows import Row
from book.lab.claims import Claim, _why
from tests.book.rows import numbers, row

GOOD = """[[claim]]
id = "tiny-one"
paper = "002"
place = "Table 1"
text = "A errs less than B."
kind = "order"
rows = [{ experiment = "svbnn-simulation-2", method = "A", metric = "rmse_test", minus = "B", says = "below" }]
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A function that writes the claims of a study and reads them."""
    monkeypatch.setattr(claims, "ROOT", tmp_path)

    def read(text):
        (tmp_path / "chapters/tiny").mkdir(parents=True, exist_ok=True)
        (tmp_path / "chapters/tiny/claims.toml").write_text(text)
        return claims.claims("tiny")

    return read


def test_a_file_is_read_and_a_study_without_one_claims_nothing(write):
    assert claims.claims("tiny") == []
    (one,) = write(GOOD)
    assert one == Claim(
        "tiny-one",
        "002",
        "Table 1",
        "A errs less than B.",
        "order",
        (Row("svbnn-simulation-2", method="A", metric="rmse_test", minus="B", says="below"),),
    )
    (one,) = write(GOOD[: GOOD.index("rows")] + 'not_tried = "nobody has B"')
    assert one.judge() == ("not tried", "nobody has B")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('place = "Table 1"', 'spot = "Table 1"', "tiny-one: unknown key spot; allowed: box, id, kind"),
        ('paper = "002"\n', "", "tiny-one: paper must be given"),
        ('id = "tiny-one"\n', "", "A errs less than B.: id must be given"),
        ('"order"', '"rank"', "tiny-one: kind 'rank' is none of value, order, universal, contrast"),
        ('"below"', '"under"', "tiny-one: says 'under' is none of above, below, near"),
        ("minus =", "less =", "tiny-one: unknown key less"),
        ('experiment = "svbnn-simulation-2", ', "", "tiny-one: experiment must be given"),
        ('kind = "order"', 'kind = "order"\nnot_tried = "why"', "tiny-one: give rows that decide it, or not_tried"),
        (GOOD[GOOD.index("rows") :], "", "tiny-one: give rows that decide it, or not_tried"),
        (GOOD[GOOD.index("rows") :], 'rows = []\nnot_tried = ""', "tiny-one: give rows that decide it, or not_tried"),
        ('kind = "order"', 'kind = "order"\nwhy = "bad luck"', "tiny-one: why begins with one of 'Cause: ', "),
        (GOOD, GOOD + GOOD, "two claims are called 'tiny-one'"),
        ('"Table 1"', '"Table 1', "tiny/claims.toml is damaged: .*; restore it from the repository"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(write, old, new, says):
    assert old in GOOD
    with pytest.raises(StoreError, match=says):
        write(GOOD.replace(old, new))


def test_an_experiment_that_does_not_exist_is_named(write):
    with pytest.raises(catalog.ExperimentError, match="svbnn-simulation-9"):
        write(GOOD.replace("simulation-2", "simulation-9"))


def _judge(stored, words, kind="order"):
    stored(*(row(f"s{k}", values=(1.0, 2.0, 3.0), published=1.0, verdict=word) for k, word in enumerate(words)))
    return Claim("tiny-one", "002", "Table 1", "A claim.", kind, (Row("an-experiment"),)).judge()


@pytest.mark.parametrize(
    ("words", "kind", "verdict"),
    [
        (("agrees", "better"), "order", "reproduced"),
        (("agrees", "by design: so"), "universal", "reproduced"),
        (("agrees", "undecided: one run"), "order", "partly"),
        (("agrees", "worse"), "order", "partly"),
        (("agrees", "worse"), "universal", "contradicted"),
        (("agrees", "agrees", "undecided: wide"), "universal", "partly"),
        (("worse", "differs"), "value", "contradicted"),
        (("worse", "undecided: wide"), "contrast", "contradicted"),
        (("undecided: wide", "undecided: one run"), "universal", "undecided"),
        (("undecided: wide", "not run: no GPU"), "order", "undecided"),
        (("not run: no GPU", "not comparable: another teacher"), "value", "not tried"),
    ],
)
def test_a_claim_is_called_by_what_its_rows_say(stored, words, kind, verdict):
    assert _judge(stored, words, kind)[0] == verdict


def _of_many(stored, kind, *shifts):
    """A claim that means are above zero, where each is four replicates with t = shift / .204124 and t(3) = 3.182."""
    spread = (-0.5, 0.0, 0.5, 0.0)
    stored(*(row(f"s{k}", values=tuple(shift + one for one in spread)) for k, shift in enumerate(shifts)))
    claim = Claim("tiny-one", "002", "Table 1", "A claim.", kind, (Row("an-experiment", says="above"),))
    return *claim.judge(), _why(claim, *claim.judge())


def test_a_claim_about_all_is_not_broken_by_one_of_many_rows_by_chance(stored):
    assert _of_many(stored, "universal", -0.7)[0] == "contradicted"  # t = 3.4, p = .042
    word, reason, short = _of_many(stored, "universal", -0.7, 5.0)
    assert word == "partly"
    assert short == "holds in 1, undecided in 1 (1 fails alone, not by Holm's correction) of 2 comparisons"
    assert reason == "holds in 1, fails in 0, undecided in 1 of 2 rows; 1 fails alone, but not by Holm's correction"
    assert _of_many(stored, "universal", -0.7, 0.0)[0] == "undecided"
    assert _of_many(stored, "universal", -5.0, 5.0, 5.0)[0] == "contradicted"  # t = 24
    assert _of_many(stored, "universal", 0.7, 0.7, 0.7)[0] == "reproduced"  # that all hold needs no correction
    assert [_of_many(stored, kind, -0.7, 0.0)[0] for kind in ("order", "contrast")] == ["undecided", "contradicted"]
    assert _of_many(stored, "order", -0.7)[0] == "contradicted" == _of_many(stored, "order", -5.0, 0.0)[0]


@pytest.mark.parametrize("kind", ["order", "universal"])
def test_a_claim_is_not_partly_so_by_one_of_many_rows_by_chance(stored, kind):
    word, reason, short = _of_many(stored, kind, 0.7, 0.0)  # t = 3.4, p = .042, of two rows
    assert word == "undecided"
    assert reason == "holds in 0, fails in 0, undecided in 2 of 2 rows; 1 holds alone, but not by Holm's correction"
    assert short == "undecided in 2 (1 holds alone, not by Holm's correction) of 2 comparisons"
    assert "; 2 hold and 1 fails alone, but not" in _of_many(stored, kind, 0.7, 0.7, -0.7)[1]
    assert _of_many(stored, kind, 0.7, -5.0)[0] == ("undecided" if kind == "order" else "contradicted")
    assert _of_many(stored, kind, 5.0, 0.0)[0] == "partly"  # t = 24
    assert _of_many(stored, kind, 0.7)[0] == "reproduced" == _of_many(stored, kind, 0.7, 0.7)[0]
    assert _of_many(stored, "contrast", 0.7, 0.0)[0] == "partly"


@pytest.mark.parametrize("kind", ["order", "universal"])
def test_rows_that_hold_are_counted_by_holm_as_those_that_fail_are(stored, kind):
    word, reason, short = _of_many(stored, kind, 5.0, 0.7, 0.0)
    assert word == "partly"
    assert short == "holds in 1, undecided in 2 (1 holds alone, not by Holm's correction) of 3 comparisons"
    assert reason == "holds in 1, fails in 0, undecided in 2 of 3 rows; 1 holds alone, but not by Holm's correction"


def test_an_order_that_fails_in_fewer_rows_than_hold_alone_is_not_contradicted(stored):
    few = (0.7, 0.7, *[0.0] * 7)  # of nine rows p = .042 is none
    assert _of_many(stored, "order", -5.0, *few)[0] == "undecided"
    assert _of_many(stored, "order", -5.0, -5.0, *few)[0] == "undecided"
    assert _of_many(stored, "order", -5.0, -5.0, -5.0, *few)[0] == "contradicted"
    assert _of_many(stored, "universal", -5.0, *few)[0] == "contradicted"


def test_published_cells_of_a_claim_about_all_are_corrected_too(stored):
    about = {"values": (1.0, 2.0, 3.0), "published": 0.0, "verdict": "worse", "margin": 0.1, "error": 0.4}
    every = (Row("an-experiment"),)
    for difference, broken, word in ((2.0, False, "partly"), (9.0, False, "contradicted"), (2.0, True, "contradicted")):
        bad = row("s0", difference=difference, universal=broken, **about)  # df 2, t = 4.75 and 22: p = .042, .002
        stored(bad, row("s1", values=(1.0, 2.0, 3.0), published=2.0))
        assert Claim("tiny-one", "002", "Table 1", "A claim.", "universal", every).judge()[0] == word


def test_the_reason_counts_rows_and_says_why_some_are_silent(stored):
    words = ("agrees", "worse", "undecided: wide", "not run: no GPU")
    reason = "holds in 1, fails in 1, undecided in 1 of 3 rows; 1 more have no say (not run: no GPU)"
    assert _judge(stored, words) == ("partly", reason)
    assert _judge(stored, ("not run: no GPU",) * 2) == ("not tried", "not run: no GPU")
    assert _judge(stored, ()) == ("not tried", "no row of this name is stored")


def test_judged_has_what_tables_show(write, stored):
    name = "svbnn-simulation-2"
    stored(numbers((1.0, 2.0, 3.0), "A", experiment=name), numbers((2.0, 3.0, 4.1), "B", experiment=name))
    write(GOOD)
    told = {"id": "tiny-one", "paper": "002", "place": "Table 1", "text": "A errs less than B.", "kind": "order"}
    told |= {"why": "", "verdict": "reproduced", "reason": "holds in 1, fails in 0, undecided in 0 of 1 rows"}
    assert claims.judged("tiny") == [told | {"evidence": [f"{name}, a, A, rmse_test, less B: -1.033 ± 0.033 (n = 3)"]}]


@pytest.mark.slow
@pytest.mark.parametrize("study", studies.all(), ids=lambda study: study.name)
def test_every_row_of_a_claim_names_something_stored_and_says_it_in_a_sentence(study):
    for one in claims.claims(study.name):
        assert one.id.startswith(f"{study.prefix}-"), one.id
        assert one.text.endswith("."), one.id
        for wanted in one.rows:
            assert list(wanted.evidence()), f"{one.id}: nothing stored is called {wanted}"


@pytest.mark.slow
@pytest.mark.parametrize("study", studies.all(), ids=lambda study: study.name)
def test_a_contradicted_claim_and_no_other_says_why(study):
    for one in claims.claims(study.name):
        assert bool(one.why) == (one.judge()[0] == claims.CONTRADICTED), one.id
        for name in re.findall("`([a-z]+-[a-z0-9-]+)`", one.why):  # runs that are named are stored
            assert any(row["n"] for row in lab.compare(name)), f"{one.id}: nothing is stored of {name}"


STUDIES = [study.name for study in studies.all() if claims.claims(study.name)]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_box_has_few_lines_and_every_verdict_that_the_claims_have(name):
    judged = {one.id: one.judge() for one in claims.claims(name)}
    every = {one.id: (one.box, judged[one.id][0]) for one in claims.claims(name)}
    box = lab.ResultsBox(name)
    assert 5 <= len(box.lines) <= 7  # with the line of counts at most eight
    assert all(len(claim.split()) <= 18 for claim, *_ in box.lines)
    # nothing is left out because of how it ended
    assert {word for text, word in every.values() if text} == {word for _, word in every.values()}
    for _, word in every.values():
        assert re.search(rf"\d+ {word}", box.caption)
    counted = re.findall(r"(\d+) (?=reproduced|partly|contradicted|undecided|not tried)", box.caption)
    assert sum(map(int, counted)) == len(every)
    for text, word, why in box.lines:  # the reasons are short, and those of the claims
        (claim,) = [one for one in claims.claims(name) if one.box == text.replace("\u00a0", " ")]
        verdict, reason = judged[claim.id]
        assert word.endswith(verdict) and 0 < len(why) < 120, (text, why)
        if verdict == claims.NOT_TRIED:
            assert why in reason
        else:
            assert why.endswith(("comparison", "comparisons"))


def test_both_forms_say_the_same():
    box = lab.ResultsBox(STUDIES[0])
    shown = re.sub(r"<[^>]+>", " ", box._repr_html_())
    for line in box.lines:
        assert all(cell in box._repr_markdown_() for cell in line)
        assert line[0] in shown and line[1] in shown

"""The box on top of a chapter says the paper's chief claims, the failed ones too, with what the store says of them."""

import re

import pytest

from book import lab, studies
from book.lab import claims

STUDIES = [study.name for study in studies.all() if claims.claims(study.name)]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_box_has_few_lines_and_every_verdict_that_the_claims_have(name):
    judged = {one.id: one.judge() for one in claims.claims(name)}
    every = {one.id: (one.box, judged[one.id][0]) for one in claims.claims(name)}
    box = lab.results_box(name)
    assert 5 <= len(box.lines) <= 7  # with the line of counts at most eight
    assert all(len(claim.split()) <= 18 for claim, *_ in box.lines)
    # nothing is left out because of how it ended
    assert {word for text, word in every.values() if text} == {word for _, word in every.values()}
    for _, word in every.values():
        assert re.search(rf"\d+ {word}", box.caption)
    assert sum(
        map(int, re.findall(r"(\d+) (?=reproduced|partly|contradicted|undecided|not tried)", box.caption))
    ) == len(every)
    for text, word, why in box.lines:  # the reasons are short, and those of the claims
        (claim,) = [one for one in claims.claims(name) if one.box == text.replace("\u00a0", " ")]
        verdict, reason = judged[claim.id]
        assert word.endswith(verdict) and 0 < len(why) < 120, (text, why)
        if verdict == claims.NOT_TRIED:
            assert why in reason
        else:
            assert why.endswith(("comparison", "comparisons"))


def test_both_forms_say_the_same():
    box = lab.results_box(STUDIES[0])
    shown = re.sub(r"<[^>]+>", " ", box._repr_html_())
    for line in box.lines:
        assert all(cell in box._repr_markdown_() for cell in line)
        assert line[0] in shown and line[1] in shown

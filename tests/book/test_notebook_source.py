"""Which equations count as tested: those that a test names, not those that merely occur in a file."""

from __future__ import annotations

from tests.book.notebook_source import equation_tests


def test_equation_tests_are_found_where_they_are_and_nowhere_else():
    tests = """
UNTESTED = {"svb-model": "a definition, nothing to compute"}
LABELS = ["svb-elsewhere"]

# equation: svb-prior, svb-family
def test_prior():
    assert 1

def test_kl():
    # equation: svb-kl
    check("svb-loose part", label="svb-bernoulli")

@pytest.mark.equation("svb-decorated")
def test_decorated():
    pass

# equation: svb-comment-of-nothing
def helper():
    return "svb-helper"
"""
    tested, excused = equation_tests([tests])
    assert {"svb-prior", "svb-family", "svb-kl", "svb-bernoulli", "svb-decorated"} <= tested
    assert not {"svb-elsewhere", "svb-helper", "svb-comment-of-nothing", "svb-loose", "svb-model"} & tested
    assert excused == {"svb-model": "a definition, nothing to compute"}

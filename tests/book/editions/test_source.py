"""Which equations count as tested: those that a test names, not those that merely occur in a file."""

from __future__ import annotations

from book.editions.source import equation_tests


def test_equation_tests_are_found_where_they_are_and_nowhere_else():
    tests = """
UNTESTED = {"svbnn-model": "a definition, nothing to compute"}
LABELS = ["svbnn-elsewhere"]

# equation: svbnn-prior, svbnn-family
def test_prior():
    assert 1

def test_kl():
    # equation: svbnn-kl
    check("svbnn-loose part", label="svbnn-bernoulli")

@pytest.mark.equation("svbnn-decorated")
def test_decorated():
    pass

# equation: svbnn-comment-of-nothing
def helper():
    return "svbnn-helper"
"""
    tested, excused = equation_tests([tests])
    assert {"svbnn-prior", "svbnn-family", "svbnn-kl", "svbnn-bernoulli", "svbnn-decorated"} <= tested
    assert not {"svbnn-elsewhere", "svbnn-helper", "svbnn-comment-of-nothing", "svbnn-loose", "svbnn-model"} & tested
    assert excused == {"svbnn-model": "a definition, nothing to compute"}

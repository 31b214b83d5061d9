"""What the notebook lint takes for prose, for one sentence, for a word and for a typed result."""

import pytest

from book.editions import prose


@pytest.mark.parametrize(
    "text",
    [
        "This is due to Hinton et al. The rest follows.",
        "Use a prior, e.g. Gaussian.",
        "**Lemma 4.1.** Let $x. Y$ be small.",
        "- *Proof.* By {cite:t}`a.B`.",
        "See Sec. 3 and `a. B`.",
        "| A. B | C. D |",
        "1. First point.",
        "```{list-table}\n* - A. B\n```",
        "# A title. With a stop",
        "A first line:\nwith a list after a colon.",
        "So it holds. $\\square$",
    ],
)
def test_what_is_one_sentence_is_left_alone(text):
    assert prose.split_sentences(text) == text and prose.wrapped_lines(text) == []


def test_sentences_are_split_and_items_stay_items():
    rest = "\n\n````{exercise} T. U\n:label: a. B\nWhy?{gap}Because.\n```{math}\nx. Y\n```\n````"
    text = "- One $x$. {numref}`a` two." + rest.replace("{gap}", " ")
    split = "- One $x$.\n  {numref}`a` two." + rest.replace("{gap}", "\n")
    assert prose.split_sentences(text) == split and prose.split_sentences(split) == split


@pytest.mark.parametrize(
    "text",
    [
        "The paper reports an accuracy of 98.2 %. <!-- published -->",
        "Coverage refers to the 95 % band. <!-- definition -->",
        "Our error is {eval}`said['error']` %.",
        "We use 0.1 as learning rate.",
        "The error of a 784-512-512-10 network under Conditions 4.1, 4.2 and 4.4.",
        "```{list-table}\n* - error\n  - 1.21\n```",
        "The error is $\\sigma = 1.5$.",
    ],
)
def test_what_is_no_typed_result_is_left_alone(text):
    assert prose.typed_results(text) == []


def test_words_count_prose_and_not_code_formulas_or_options():
    math, note = "```{math}\n:label: q\na b c\n```", "```{note}\nTwo more\n```"
    text = f"# Title\n\nThree plain words $x y z$ {{eq}}`a-b`.\n\n{math}\n\n{note}"
    assert prose.words(text) == 3 + 2 + 2  # a formula or role counts as one


@pytest.mark.parametrize("text", ["Our error is 1.21.", "Theorem 4.1 gives an error of 0.3.", "Coverage is 95 %."])
def test_a_typed_result_is_found_beside_names_of_theorems(text):
    assert prose.typed_results(text) == [text]

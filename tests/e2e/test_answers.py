"""Questions in the rendered page, from the disk: answered by keyboard, told apart, kept, and gone on paper."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from book import studies
from book.display import exercises
from book.display.exercises.judge import judge
from book.display.exercises.page import on_page
from book.display.exercises.rules import as_array
from tests.e2e.pages import opened_up

SPOKEN = "(form) => form.querySelector('output').textContent"
NO_STORAGE = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('refused'); }})"


def asked(page, name: str):
    """The form of one question."""
    return page.locator(f"form.bnn-question:has([id='answer-{name}-said'])")


def answered(page, name: str, answer: str) -> str:
    """Type or choose an answer, check it, and read what is said."""
    form = asked(page, name)
    options = form.get_by_role("radio")
    if options.count():
        form.get_by_role("radio", name=f"({answer})", exact=True).check()
        form.get_by_role("button", name="Check").click()
    else:
        form.get_by_role("textbox").fill(answer)
        form.get_by_role("textbox").press("Enter")
    page.wait_for_function(f"(form) => ({SPOKEN})(form) !== ''", arg=form.element_handle())
    return form.locator("output").inner_text()


@pytest.fixture
def path(small_book) -> Path:
    return small_book / "chapters/02_asked.html"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["desk", "phone"])
def test_each_task_has_its_question_and_says_what_is_wrong(open_page, path, width, dark):
    page = open_page(path, width=width, dark=dark)
    assert page.locator("form.bnn-question:visible").count() == 4
    # A question follows its task: the paragraph that names it, or the options behind that.
    assert asked(page, "ask-1").evaluate("(e) => e.previousElementSibling.textContent").startswith("(i)")
    assert asked(page, "ask-2").evaluate("(e) => e.previousElementSibling.localName") == "ul"
    assert answered(page, "ask-1", "3/4") == "✗ not yet: this is the rest."
    assert answered(page, "ask-1", "sqrt(1/16)") == "✓ right to 3 significant digits: 0.25."
    assert answered(page, "ask-2", "a") == "✗ not yet: one is odd."
    assert answered(page, "ask-2", "b") == "✓ right: two is even."
    assert answered(page, "ask-3", "[1, 3]").startswith("✗ not yet: 1 of 2 entries are off")
    assert answered(page, "ask-4", "7") == "✗ not yet: multiply instead."
    assert "is no number" in answered(page, "ask-4", "seven")
    assert page.locator(".bnn-progress [role=status]").inner_text() == "2 of 4 questions of this page are answered."
    for form in page.locator("form.bnn-question").all():
        box = form.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        assert all(part.bounding_box()["height"] >= 24 for part in form.locator("button, [type=text], summary").all())
    assert page.faults == []


def test_answered_questions_have_no_violation(open_page, path):
    axe = pytest.importorskip("tests.e2e.axe", reason="axe-playwright-python is not installed")
    page = open_page(path, reduced_motion="reduce")
    for name, answer in (("ask-1", "1/4"), ("ask-2", "a"), ("ask-3", "[1]"), ("ask-4", "six")):
        answered(page, name, answer)
    opened_up(page)
    assert axe.in_all_looks(page) == []


def test_a_question_is_answered_by_keyboard_and_spoken(open_page, path):
    page = open_page(path)
    form = asked(page, "ask-1")
    field = form.get_by_role("textbox", name="ask-1: a quarter (a number, to 3 significant digits)")
    field.focus()
    page.keyboard.type("0.75")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_function(f"(form) => ({SPOKEN})(form) !== ''", arg=form.element_handle())
    said = form.locator("output")
    assert said.get_attribute("aria-live") == "polite" and field.get_attribute("aria-invalid") == "true"
    assert field.get_attribute("aria-describedby") == said.get_attribute("id")
    hint = page.get_by_text("Cut it twice.")
    assert not hint.is_visible()
    page.locator("details", has=hint).locator("summary").focus()
    page.keyboard.press("Enter")
    assert hint.is_visible()
    asked(page, "ask-2").get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function(f"(form) => ({SPOKEN})(form).startsWith('✓')", arg=asked(page, "ask-2").element_handle())


def test_answers_are_kept_exported_forgotten_and_brought_back(open_page, path, tmp_path):
    page = open_page(path)
    answered(page, "ask-1", "1/4")
    answered(page, "ask-2", "c")
    page.reload()
    assert asked(page, "ask-1").get_by_role("textbox").input_value() == "1/4"
    assert asked(page, "ask-1").locator("output").inner_text().startswith("✓")
    assert asked(page, "ask-2").get_by_role("radio", name="(c)").is_checked()
    with page.expect_download() as kept:
        page.get_by_role("button", name="Export").click()
    kept.value.save_as(tmp_path / "answers.json")
    assert json.loads((tmp_path / "answers.json").read_text())["ask-1"] == {"answer": "1/4", "right": True}
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Reset").click()
    assert asked(page, "ask-1").get_by_role("textbox").input_value() == "1/4"
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Reset").click()
    assert asked(page, "ask-1").get_by_role("textbox").input_value() == ""
    page.reload()
    status = page.locator(".bnn-progress [role=status]")
    assert status.inner_text().startswith("0 of 4")
    bad = tmp_path / "bad.json"
    bad.write_text("no answers")
    page.locator(".bnn-progress [type=file]").set_input_files(bad)
    page.wait_for_function("document.querySelector('.bnn-progress [role=status]').textContent.startsWith('This file')")
    page.locator(".bnn-progress [type=file]").set_input_files(tmp_path / "answers.json")
    page.wait_for_function("document.querySelector('.bnn-progress [role=status]').textContent.startsWith('1 of 4')")
    assert page.faults == []


@pytest.mark.parametrize(
    "kept", [None, "[1, {", '"text"', "[1]", '{"ask-1": 5, "ask-2": {"answer": "z"}, "ask-3": {"answer": [2]}}']
)
def test_the_page_works_where_nothing_can_be_kept_or_something_else_was(open_page, path, kept):
    page = open_page(path)
    if kept is None:
        page.add_init_script(NO_STORAGE)  # of which the theme complains, too
    else:
        page.evaluate("(kept) => localStorage.setItem('bnn-answers', kept)", kept)
    page.reload()
    assert answered(page, "ask-1", "0.25").startswith("✓")
    assert page.locator(".bnn-progress [role=status]").inner_text().startswith("1 of 4")
    assert kept is None or page.faults == []


def test_on_paper_and_without_scripts_nothing_is_asked(open_page, path):
    page = open_page(path, java_script_enabled=False)
    assert page.locator(":is(.bnn-question, .bnn-closer, .bnn-progress):visible").count() == 0
    page = open_page(path)
    page.emulate_media(media="print")
    assert page.locator(":is(.bnn-question, .bnn-closer, .bnn-progress):visible").count() == 0


def test_no_right_answer_stands_in_the_source(path):
    page = path.read_text(encoding="utf-8")
    forms = re.findall('<form.*?</form>|<details class="bnn-closer".*?</details>', page, re.DOTALL)
    assert "Halve them." in "".join(forms) and "two is even" not in "".join(forms)


@pytest.mark.parametrize("study", studies.all(), ids=lambda study: study.name)
def test_every_question_of_the_book_is_answered_in_its_page(open_page, built_book, study):
    """The right answer is right, and the first mistake that is foreseen gets the words of the check in Python."""
    page = open_page(built_book / "chapters" / f"{study.notebook.removesuffix('.ipynb')}.html", formulas=False)
    names = [name for name in exercises.ids(study.prefix) if on_page(exercises.get(name)) is not None]
    assert page.locator("form.bnn-question:visible").count() == len(names)
    for name in names:
        exercise = on_page(exercises.get(name))
        right = exercise.reference()
        wrong = next(iter(exercise.options if exercise.kind == "choice" else exercise.mistakes))
        for answer in (wrong if exercise.kind == "choice" else wrong(), right):
            text = answer if isinstance(answer, str) else json.dumps(np.asarray(as_array(answer)).tolist())
            verdict = judge(exercise, answer)
            assert answered(page, name, text) == f"{'✓' if verdict.right else '✗'} {verdict.message}"
            asked(page, name).locator("output").evaluate("(one) => { one.textContent = ''; }")
    total = page.locator(".bnn-progress [role=status]").inner_text()
    assert total.startswith(f"{len(names)} of {len(names)} ") and page.faults == []

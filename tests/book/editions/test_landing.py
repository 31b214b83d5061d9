"""What the landing page and the page for teachers say of the chapters is what the chapters and the registry say."""

import re
from types import SimpleNamespace

import pytest

from book import studies
from book.editions import landing, lessons, teaching
from book.editions.project import Project, read_notebook, source_of

STUDY = SimpleNamespace(notebook="03_here.ipynb", number=3, title="Here", name="here", figure="here-fig")
POSED = "```{exercise} Half\n:label: here-ex-half\n\nWhat is half of one?\n```\n\n```{solution-start} here-ex-half\n```"
KIND = {"here-1": "number", "here-2": "function"}.__getitem__
CLAIMS = {"here": [{"verdict": word} for word in ("partly", "reproduced", "not tried", "reproduced")]}


@pytest.fixture
def lesson(make_notebook) -> lessons.Lesson:
    words = "word " * 1500
    return lessons.lesson(
        STUDY,
        make_notebook(
            ("text-title", "# Here\n\nAfter this chapter you can count {term}`nats <Nat>`\nand sleep.\nYou need time."),
            ("text-more", words),
            ("text-ex", POSED),
            ("solution", 'exercises.check("here-1", 1 / 2)\nexercises.check("here-2", half)'),
            ("text-end", f"{words}\n\n```{{solution-end}}\n```"),
            ("text-open", "```{exercise} Why?\n:label: here-ex-why\nWhy?\n```"),
        ),
    )


def test_a_lesson_knows_its_words_outside_of_solutions_and_its_exercises(lesson):
    assert lesson.able == "count {term}`nats <Nat>` and sleep"
    assert lesson.minutes == 10  # 1,500 words and a few, at 150 a minute; the solution's are not counted
    assert [(task.label, task.title, task.ids) for task in lesson.tasks] == [
        ("here-ex-half", "Half", ("here-1", "here-2")),
        ("here-ex-why", "Why?", ()),
    ]


def test_a_card_leads_to_its_chapter_and_has_a_mark_for_each_claim_and_the_same_in_words(lesson):
    text = landing.cards([lesson], CLAIMS, {})
    assert ":link: ../chapters/03_here\n:link-type: doc" in text and "3. Here" in text
    assert "You learn to count nats and sleep." in text and "10 minutes, 2 exercises" in text
    assert ">✓✓◐–</span>" in text
    assert 'aria-label="4 claims of the paper: 2 reproduced, 1 partly, 1 not tried"' in text
    assert "bnn-marks" not in landing.cards([lesson], {}, {})


def test_a_card_has_the_picture_that_its_chapter_names(lesson, make_notebook, drawn):
    notebook = make_notebook(("here-fig", "draw()"), ("other-fig", "draw()"))
    for cell in notebook["cells"]:
        drawn(cell, f"Seen in {cell['id']}.\nTwo lines.")
    chapters = {"chapters/03_here.ipynb": notebook}
    text = landing.tables([lesson], chapters, {})["cards"]()
    assert text.count(":img-top: data:image/webp;base64,") == 1 and ":img-alt: Seen in here-fig. Two lines." in text
    assert "img-top" not in landing.tables([lesson], {"chapters/03_here.ipynb": make_notebook()}, {})["cards"]()


def test_every_card_names_a_figure_of_its_chapter(root, real):
    for one in real:
        cells = {cell["id"]: cell for cell in read_notebook(root / f"{one.document}.ipynb")["cells"]}
        about = cells[one.figure]["metadata"]["mystnb"]
        assert about["image"]["alt"] and not about["figure"]["caption"].startswith("Explorer"), one.figure


def test_a_card_has_the_title_of_its_chapter(root):
    for study in studies.all(root / "chapters"):
        first = source_of(read_notebook(root / "chapters" / study.notebook)["cells"][0])
        assert first.startswith(f"# {study.title}\n"), study.name


def test_the_explorer_is_that_of_its_chapter(make_notebook):
    shown = {"data": {"text/html": ["<div>", "moves</div>"]}, "output_type": "display_data"}
    notebook = make_notebook((landing.MOVED, "explore()"))
    notebook["cells"][0]["outputs"] = [shown]
    chapters = {"a": make_notebook(("other", "1")), "b": notebook}
    assert landing.explorer(chapters) == "```{raw} html\n<div>moves</div>\n```" and landing.explorer({}) == ""


def test_an_exercise_is_as_hard_as_its_hardest_part_and_takes_as_long_as_all(lesson):
    half, why = lesson.tasks
    assert teaching.judged(half, KIND) == ("write", 30) and teaching.judged(why, KIND) == teaching.OPEN
    rows = teaching.exercises([lesson], KIND).split("\n")[2:]
    assert rows == [
        "| write | {ref}`here-ex-half` | `here-1`, `here-2` | 30 |",
        "| research | {ref}`here-ex-why` | no check | 60 |",
    ]


def test_a_chapter_of_two_sessions_is_read_in_halves(lesson):
    two = tuple(teaching.Session(title, (3,), "talk") for title in ("One", "Two"))
    lines = teaching.plan(two, [lesson], KIND).split("\n")[2:]
    assert [line.split(" | ")[-2:] for line in lines] == [["5", "15 |"]] * 2


@pytest.fixture(scope="module")
def real(root) -> list[lessons.Lesson]:
    project = Project(root)
    return lessons.read(project, {name: read_notebook(root / name) for name in project.notebooks})


def test_every_chapter_says_what_one_can_do_afterwards_and_every_check_is_registered(real):
    from book.display import exercises

    assert len(real) == 10 and all(one.able and one.tasks for one in real)
    asked = [name for one in real for task in one.tasks for name in task.ids]
    assert sorted(asked) == sorted(exercises.ids())
    assert {exercises.get(name).kind for name in asked} <= set(teaching.KINDS)


@pytest.mark.parametrize("plan", [teaching.SIX, teaching.TWELVE])
def test_a_course_visits_chapters_of_the_book(plan, real):
    visited = {number for session in plan for number in session.chapters}
    assert visited <= {one.number for one in real}
    if len(plan) == 12:
        assert visited == {one.number for one in real}


def test_the_map_of_methods_is_the_same_on_the_landing_page_and_in_the_readme(root):
    def rows(path) -> list[list[str]]:
        text = (root / path).read_text(encoding="utf-8").split("| You want | Look at | Chapter |\n|---|---|---|\n")[1]
        table = text.split("\n\n")[0].split("\n")
        parts = [[part.strip() for part in line.strip("|").split("|")] for line in table]
        return [[want, look, *re.findall(r"chapters/(\w+)", chapters)] for want, look, chapters in parts]

    assert rows("book/index.md") == rows("README.md")
    chapters = {path.stem for path in (root / "chapters").glob("*.ipynb")}
    assert {name for row in rows("README.md") for name in row[2:]} < chapters


def test_the_carrying_explorer_is_in_the_book(root):
    texts = [path.read_text(encoding="utf-8") for path in (root / "chapters").glob("*.ipynb")]
    assert sum(f'"{landing.MOVED}"' in text for text in texts) >= 1

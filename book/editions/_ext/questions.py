"""Sphinx extension: below each task of an exercise a field for the answer, which the page checks without Python.

What it says to which answer stands in the metadata of the executed chapter (`book/editions/build.py`), made from the
checks of the study. ``book/_static/answers.js`` applies it; where no script runs, the fields stay hidden.
"""

import json
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx_exercise.nodes import is_exercise_node

PROGRESS = """<div class="bnn-progress" hidden>
<p>Answers are checked here, without Python: numbers such as 0.25, 1e-3, 1/3 or sqrt(2). They are kept in this browser
alone. Tasks that ask for a function are checked in the chapter's notebook, which the button at the top downloads.</p>
<p><meter min="0" max="{count}" value="0" aria-label="Questions answered"></meter> <span role="status"></span></p>
<button type="button" data-do="export">Export</button> <button type="button" data-do="import">Import</button>
<button type="button" data-do="reset">Reset</button>
<input type="file" accept=".json,application/json" aria-label="File with exported answers" hidden></div>
"""


class Question(nodes.General, nodes.Element):
    """The field of one question; ``asked`` holds what the page needs of it."""


class CloserHints(nodes.General, nodes.Element):
    """The hints to single questions of an exercise; ``asked`` holds those questions, by name."""


class Progress(nodes.General, nodes.Element):
    """How many of the page's questions are answered."""


class AskQuestions(SphinxTransform):
    """Put each question behind the paragraph, or list of options, that names it, its hint behind the general one."""

    default_priority = 400  # before Sphinx takes the titles of exercises apart

    def apply(self, **_) -> None:
        path = Path(str(self.env.doc2path(self.env.docname)))
        if path.suffix != ".ipynb":
            return
        notebook = json.loads(path.read_text(encoding="utf-8"))
        asked = dict(notebook["metadata"].get("bnn_book", {}).get("questions", {}))
        exercises = [one for one in self.document.findall(nodes.Element) if is_exercise_node(one)]
        count = 0
        for exercise in exercises:
            closer = []
            for name, place in [(code.astext(), code.parent) for code in exercise.findall(nodes.literal)]:
                if name not in asked:
                    continue
                parent, at = place.parent, place.parent.index(place) + 1
                while at < len(parent) and isinstance(parent[at], (Question, nodes.bullet_list, nodes.enumerated_list)):
                    at += 1
                parent.insert(at, Question("", asked=asked.pop(name)))
                closer += [parent[at]["asked"]] if parent[at]["asked"]["hint"] else []
                count += 1
            if closer:
                exercise += CloserHints("", asked=closer)
        if count:
            exercises[0].parent.insert(exercises[0].parent.index(exercises[0]), Progress("", count=count))


def coded(asked: dict) -> str:
    """What the page needs, so that nobody reads the right answer in its source by chance; answers.js turns it back."""
    text = json.dumps(asked, ensure_ascii=False, separators=(",", ":"))
    return "".join(chr(33 + (ord(sign) + 14) % 94) if "!" <= sign <= "~" else sign for sign in text)


def visit_question(writer, node: Question) -> None:
    asked = node["asked"]
    name, field = escape(asked["id"]), f"answer-{escape(asked['id'])}"
    words = f'<code>{name}</code>: {escape(asked["label"])} <span class="bnn-asked">({escape(asked["asked"])})</span>'
    check = '<button type="submit">Check</button>'
    if asked["kind"] == "choice":
        options = "".join(
            f'<label><input type="radio" name="{field}" value="{one}" aria-describedby="{field}-said"> ({one})</label>'
            for one in asked["options"]
        )
        body = f'<fieldset><legend>{words}</legend><div class="bnn-fields">{options}{check}</div></fieldset>'
    else:
        body = (
            f'<label for="{field}">{words}</label><div class="bnn-fields"><input type="text" id="{field}" '
            f'autocomplete="off" autocapitalize="off" spellcheck="false" aria-describedby="{field}-said">{check}</div>'
        )
    writer.body.append(
        f'<form class="bnn-question" hidden data-question="{escape(coded(asked))}">{body}'
        f'<output id="{field}-said" aria-live="polite"></output></form>\n'
    )
    raise nodes.SkipNode


def visit_hints(writer, node: CloserHints) -> None:
    """Below the exercise's own hint, which says less."""
    for asked in node["asked"]:
        of = f" for <code>{escape(asked['id'])}</code>" if len(node["asked"]) > 1 else ""
        writer.body.append(
            f'<details class="bnn-closer" hidden><summary>A closer hint{of}</summary><p>{escape(asked["hint"])}</p>'
            "</details>\n"
        )
    raise nodes.SkipNode


def visit_progress(writer, node: Progress) -> None:
    writer.body.append(PROGRESS.format(count=node["count"]))
    raise nodes.SkipNode


def load(app, pagename, templatename, context, doctree) -> None:
    """The script and the style sheet, on pages that ask something."""
    if doctree is not None and next(doctree.findall(Question), None) is not None:
        app.add_js_file("answers.js", loading_method="defer")
        app.add_css_file("answers.css")


def setup(app) -> dict:
    app.add_node(Question, html=(visit_question, None))
    app.add_node(CloserHints, html=(visit_hints, None))
    app.add_node(Progress, html=(visit_progress, None))
    app.add_transform(AskQuestions)
    app.connect("html-page-context", load)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

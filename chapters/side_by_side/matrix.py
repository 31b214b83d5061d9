"""The answer in one table: methods down, questions across, a mark for each task that `standing` has decided."""

import html
from collections.abc import Mapping, Sequence

from bnnlib.contest import METHODS
from book.lab.intervals import estimate
from book.lab.tables import markdown_table
from chapters.side_by_side.costs import costs
from chapters.side_by_side.standing import BUDGETS, KEEPS_ALL, standing, values
from chapters.side_by_side.standing import QUESTIONS as REFERENCES

SIMULATIONS = ("simulation-2", "sparse-teacher", "correlated")
NAMES = {
    "deterministic": "one network (Adam)",
    "deterministic_sgd": "one network (SGD)",
    "ensemble": "deep ensemble",
    "dropout": "Monte Carlo dropout",
    "laplace": "last-layer Laplace",
    "batch_norm": "batch norm",
    "stochastic_batch_norm": "stochastic batch norm",
    "sghmc": "SGHMC",
    "sghmc_sa": "SGHMC with learned prior",
    "adaptive_variational": "adaptive variational optimizer",
    "gaussian": "Gaussian mean field",
    "spike_slab": "Dirac spike and slab",
    "gaussian_spike_slab": "Gaussian spike and slab",
    "sparse_vd": "sparse variational dropout",
    "horseshoe": "horseshoe",
    "unit_noise": "structured Bayesian pruning",
    "group_lasso": "group lasso (SGD)",
    "group_lasso_adam": "group lasso (Adam)",
    "gradual_pruning": "gradual pruning",
    "lottery_ticket": "lottery ticket",
    "random_pruning": "random pruning",
    "small_dense": "small dense network",
}
RIVAL_NAMES = {
    "lasso": "lasso",
    "random_forest": "random forest",
    "gradient_boosting": "boosted trees",
    "knockoffs": "knockoffs",
}
CALLED = {"simulation-2": "simulation II", "sparse-teacher": "sparse teacher", "correlated": "correlated inputs"}
MARKS = {"better": "▲", "tie": "=", "worse": "▼", "undecided": "·", "small but wrong": "△", "reference": "ref"}
MARKS["by design"] = "○"
WORDS = {mark: word for word, mark in MARKS.items() if mark != "ref"} | {"–": "not run"}
# question: (metric, what it is compared with)
QUESTIONS = {
    "Accurate": ("rmse", "deep ensemble"),
    "Small": ("bytes", "gradual pruning"),
    "Fast": ("flops", "gradual pruning"),
    "Honest doubt": ("nll", "deep ensemble"),
    "Which inputs": ("selection_error", "lasso"),
    "Good when shipped": ("rmse_shipped", "one network"),
}


IMAGE_QUESTIONS = {
    "Accurate": ("accuracy", "deep ensemble"),
    "Small": ("bytes", "gradual pruning"),
    "Fast": ("flops", "gradual pruning"),
    "Honest doubt": ("nll_tempered", "deep ensemble"),
    "Knows the unknown": ("auroc_unknown", "deep ensemble"),
    "Good when shipped": ("accuracy_shipped", "one network"),
}


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """Rows of words as a table of the page; a cell of marks has their words for who cannot see them."""
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return _table(columns, body, caption, caption)


def _table(columns: Sequence[str], body: str, caption: str, label: str) -> str:
    head = "".join(f'<th scope="col" style="text-align: left">{name}</th>' for name in columns)
    return (
        f'<div class="bnn-table" role="region" tabindex="0" aria-label="{label}" style="overflow-x: auto">'
        f'<table><caption style="text-align: left">{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _hidden(words: str) -> str:
    """Words for a screen reader alone; JupyterLab has no class for this, so the style stands here."""
    style = "position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap"
    return f'<span style="{style}">{html.escape(words)}</span>'


def _cell(text: str) -> str:
    if not text or set(text) - set(WORDS):
        return f'<td style="text-align: left">{html.escape(text)}</td>'
    words = ", ".join(WORDS[mark] for mark in text)
    # of one width each, so that those of one data set stand below each other
    marks = "".join(f'<span style="display: inline-block; width: 1em">{mark}</span>' for mark in text)
    return (
        f'<td style="text-align: left; white-space: nowrap"><span aria-hidden="true">{marks}</span>'
        f"{_hidden(words)}</td>"
    )


class Matrix:
    """Marks of all methods at one budget; leave it on a cell's last line.

    Args:
        budget: B.
        tasks: a mark for each, in this order; a task that is not run at this budget has "–".
        kind: "tuned" or "default".
        questions: question to (metric, what it is compared with); without them those of regressions.
    """

    def __init__(
        self,
        budget: int,
        tasks: Sequence[str] = SIMULATIONS,
        kind: str = "tuned",
        questions: Mapping[str, tuple[str, str]] = QUESTIONS,
    ) -> None:
        self.budget, self.tasks, self.questions = budget, tuple(tasks), dict(questions)
        said = {
            (question, task): {row["method"]: row["verdict"] for row in standing(task, budget, metric, kind)}
            for question, (metric, _) in self.questions.items()
            for task in self.tasks
        }
        for (question, task), verdicts in said.items():
            if self.questions[question][0] in ("bytes", "flops"):  # of what is shipped, so it must not err more
                errors = standing(task, budget, self.questions["Good when shipped"][0], kind, "gradual_pruning")
                wrong = {row["method"] for row in errors if row["verdict"] == "worse"}
                verdicts.update(
                    dict.fromkeys(wrong & {m for m, v in verdicts.items() if v == "better"}, "small but wrong")
                )
        self.cells = {
            method: {
                question: tuple(said[question, task].get(method, self._unjudged(method, metric)) for task in self.tasks)
                for question, (metric, _) in self.questions.items()
            }
            for method in METHODS
        }
        price = "the cost of one training" if budget == 1 else f"{budget} times the cost of one training"
        settings = "by default" if kind == "default" else kind
        self.caption = (
            f"Where each method stands at {price} (B = {budget}), {settings}. One mark each for "
            f"{', '.join(CALLED.get(task, task) for task in self.tasks)}: ▲ better than the reference, ▼ worse, "
            "= a tie, · undecided, △ smaller, but it errs more as shipped, – not run"
        )
        self.caption += ", ○ keeps all inputs by design" if "Which inputs" in self.questions else ""

    def _unjudged(self, method: str, metric: str) -> str:
        return "by design" if metric == "selection_error" and method in KEEPS_ALL else "not run"

    def count(self, method: str, question: str, verdict: str) -> int:
        """On how many tasks the method has this verdict."""
        return self.cells[method][question].count(verdict)

    def _rows(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """(name, [(marks, words) for each question])."""
        found, join = [], " " if len(self.tasks) < 6 else ""
        for method, answers in self.cells.items():
            marks = [
                (join.join(MARKS.get(one, "–") for one in verdicts), ", ".join(verdicts))
                for verdicts in answers.values()
            ]
            found.append((NAMES[method], [("ref", "the reference") if "reference" in m[1] else m for m in marks]))
        return found

    def _repr_html_(self) -> str:
        named = (f"{one}<br><small>beside {reference}</small>" for one, (_, reference) in self.questions.items())
        body = ""
        for name, marks in self._rows():
            cells = "".join(
                f'<td style="text-align: center; white-space: nowrap"><span aria-hidden="true">{mark}</span>'
                f"{_hidden(words)}</td>"
                for mark, words in marks
            )
            body += f'<tr><th scope="row" style="text-align: left; min-width: min(15rem, 30vw)">{name}</th>{cells}</tr>'
        return _table(["Method", *named], body, self.caption, f"Answers at B = {self.budget}")

    def _repr_markdown_(self) -> str:
        columns = ("Method", *(f"{one} (beside {reference})" for one, (_, reference) in self.questions.items()))
        lines = [(name, *(mark for mark, _ in marks)) for name, marks in self._rows()]
        return f"{self.caption}\n\n{markdown_table(columns, lines)}"


class Table:
    """Columns, rows and a caption, as a page and a printer show them."""

    columns: Sequence[str]
    rows: list[Sequence[str]]
    caption: str

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.rows, self.caption)

    def _repr_markdown_(self) -> str:
        return f"{self.caption}\n\n{markdown_table(self.columns, self.rows)}"


class Means(Table):
    """Means over the seeds with standard errors, a row for each method and a column for each measure.

    Args:
        task: of the comparison.
        methods: of `METHODS`, in this order.
        measures: column to (metric, format of a number).
    """

    def __init__(self, task: str, methods: Sequence[str], measures: Mapping[str, tuple[str, str]]) -> None:
        self.columns, self.rows, counts = ("Method", *measures), [], set()
        for method in methods:
            row = [NAMES[method]]
            for metric, form in measures.values():
                found = values(task, 1, method, metric)
                counts.add(len(found))
                mean, error, n = estimate(found.tolist()) if len(found) > 1 else (0.0, 0.0, 0)
                row.append(f"{mean:{form}}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{error:{form}}" if n else "–")
            self.rows.append(row)
        self.caption = f"{task} at B = 1, tuned: means of {max(counts)} seeds with standard errors"


class Decided(Table):
    """Who is decidedly better or worse in one metric, a row for each task and stored budget.

    Args:
        metric: of `standing.QUESTIONS`.
        tasks: of the comparison.
    """

    columns = ("Task", "B", "Decidedly better", "Decidedly worse", "Ties", "Undecided")

    def __init__(self, metric: str, tasks: Sequence[str] = SIMULATIONS) -> None:
        self.rows = []
        for task in tasks:
            for budget in BUDGETS:  # without results one has no row
                said = standing(task, budget, metric)
                if len(said) < len(costs()[task]):  # a budget of which not all methods are stored
                    continue
                groups: dict[str, list[str]] = {name: [] for name in ("better", "worse", "tie", "undecided")}
                for row in said:
                    if row["verdict"] in groups:
                        groups[row["verdict"]].append((NAMES | RIVAL_NAMES)[row["method"]])
                words = [", ".join(groups[one]) or "none" for one in ("better", "worse", "tie")]
                self.rows.append((CALLED[task], str(budget), *words, str(len(groups["undecided"]))))
        self.caption = f"{metric.upper()} beside that of the {(NAMES | RIVAL_NAMES)[REFERENCES[metric][0]]}"

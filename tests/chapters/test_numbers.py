"""What text and docstrings say and the code has: stored numbers, equations, declared causes, and examples."""

import doctest
import importlib
import re
from pathlib import Path

import pytest
import torch

import chapters
from book import lab, studies
from book.display.equations import equation_sources
from book.editions.project import expressions_of, read_notebook, source_of
from book.editions.source import ROOT
from book.lab.intervals import estimate, side
from book.lab.published import Cause

STUDIES = studies.all(ROOT / "chapters")
SAYING = [study for study in STUDIES if (study.folder / "numbers.py").exists()]
KEY = re.compile(r"""said\[["']([^"']+)["']\]""")


def told(study) -> dict[str, str]:
    experiments = [name for name in lab.names() if name.startswith(f"{study.prefix}-")]
    rows = {name.removeprefix(f"{study.prefix}-"): lab.compare(name) for name in experiments}
    return importlib.import_module(f"chapters.{study.name}.numbers").numbers(rows)


def keys(study) -> set[str]:
    """What the chapter's text takes from `said`, without what its own cells put there."""
    cells = read_notebook(ROOT / "chapters" / study.notebook)["cells"]
    put = {key for cell in cells if cell["cell_type"] == "code" for key in KEY.findall(source_of(cell))}
    return {key for cell in cells for one in expressions_of(cell) for key in KEY.findall(one)} - put


@pytest.mark.slow
@pytest.mark.parametrize("study", SAYING, ids=lambda study: study.name)
def test_the_text_says_every_stored_number_and_no_other(study):
    texts = told(study)
    # An experiment whose run the text says nothing of is no fault.
    assert keys(study) == {key for key in texts if not key.startswith("run-") or key in keys(study)}
    assert all(isinstance(text, str) and text and "not run" not in text for text in texts.values())


@pytest.mark.parametrize("study", SAYING, ids=lambda study: study.name)
def test_what_is_not_stored_is_said_to_be_so(study, tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    texts = told(study)
    assert keys(study) <= set(texts)
    settings = {key for key, text in texts.items() if re.fullmatch(r"[\d.,]+", text)}  # of the experiment, not results
    assert set(map(texts.get, set(texts) - settings)) <= {"(not run)", "not run", "-"}
    assert "(not run)" in texts.values() and len(settings) < 10


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_equation_that_the_library_names_stands_in_the_chapter(study):
    text = "".join(map(source_of, read_notebook(ROOT / "chapters" / study.notebook)["cells"]))
    missing = [label for label in equation_sources(study.prefix) if f":label: {label}\n" not in text]
    assert not missing, f"docstrings cite {missing}, which the chapter does not number"


DECLARED = {(name, cause) for name in lab.names() for value in lab.paper_values(name)[0] for cause in value.causes}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cause"), sorted(DECLARED, key=str))
def test_a_declared_suspect_has_a_run_that_says_something(name: str, cause: Cause):
    """Whether it explains a number or not: without a stored run it is a suspicion, and has no place there."""
    told = [row["cause"] + row["tried"] for row in lab.compare(name)]
    assert any(cause.text in one and cause.run in one for one in told)


def test_the_order_explains_nothing_of_a_closed_form():
    """Weights ranked by another rule than p* say nothing of p*, wherever their errors land."""
    rows = [row for row in lab.compare("sbnn-uci") if "by |m| / sigma" in row["cause"]]
    assert not rows


@pytest.mark.parametrize("method", ["Vanilla", "Dropout"])
def test_attacks_by_the_raw_gradient_are_weaker(method):
    sizes = [f"MNIST zeta={size}" for size in ("0.2", "0.5")]
    for size in sizes:
        own, raw = (lab.stored_values("aeb-fgsm", size, method, one) for one in ("accuracy", "accuracy_max_log"))
        gaps = raw - own
        assert side(*estimate(gaps)) == 1


HERE = Path(chapters.__path__[0])
MODULES = sorted(
    ".".join(path.relative_to(HERE.parent).with_suffix("").parts)
    for path in HERE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    torch.manual_seed(0)
    failed, tried = doctest.testmod(module, extraglobs={"torch": torch})
    assert not failed and tried

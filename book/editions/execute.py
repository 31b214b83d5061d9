"""Execute the stale chapters with papermill, several at a time, and keep what a reader needs of the outcome."""

import json
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from book.editions.numbers import ASKED, answered, asking, said
from book.editions.pictures import packed
from book.editions.processes import Processes
from book.editions.project import BookError, Project, code_cells, expressions_of, read_notebook, source_of, tags_of

# A cell that runs longer is stopped and reported. This is a guard against hanging, generous enough for a busy machine.
CELL_SECONDS = {"smoke": 600, "book": 1800, "paper": 7200}
WIDGET = "application/vnd.jupyter.widget-view+json"
# Of a kernel that does not start. Its ports are chosen before it takes them, and another kernel may be faster.
NO_START = ("Kernel didn't respond", "Kernel died before replying")
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass
class Outcome:
    """What became of one chapter: ``error`` is None when it ran through; ``numbers`` are those of the text."""

    name: str
    seconds: float
    error: str | None = None
    numbers: list[str] = field(default_factory=list)


def _failure(what: str, source: str | None = None, traceback: str = "", stopped: bool = True) -> dict:
    return {"what": what, "source": source, "traceback": traceback, "stopped": stopped}


def _run(root: str, name: str, profile: str, threads: int) -> dict:
    """Execute one chapter into ``_build/running``; runs in a worker process and returns only plain data."""
    import logging

    from book.editions.preloaded import Config, PapermillExecutionError, execute_notebook

    project = Project(Path(root))
    source, target = project.root / name, project.running / name
    target.parent.mkdir(parents=True, exist_ok=True)
    logging.getLogger("papermill").setLevel(logging.ERROR)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ.update(
        BNN_STATIC="1",  # explorers draw frames and native sliders instead of widgets
        PYTHONPATH=os.pathsep.join(paths),  # this tree's bnnlib, whatever else is installed
        OMP_NUM_THREADS=str(threads),
        MPLBACKEND="module://matplotlib_inline.backend_inline",
        PYDEVD_DISABLE_FILE_VALIDATION="1",
    )
    if profile == "smoke":  # the same outputs wherever it runs; the folder does not exist
        os.environ["BNNLIB_DATA"] = str(project.running / "no-data")
    # The first silences a warning per kernel, whose connection stays on this machine. The file would else lie in the
    # user's folder, for good where the kernel is killed.
    kernel = {"transport_encryption": "auto", "connection_file": f"{target}.kernel"}
    started = time.perf_counter()
    failure = None
    for last in (False, True):
        target.write_text(json.dumps(asking(read_notebook(source))), encoding="utf-8")
        try:
            execute_notebook(
                str(target),
                str(target),
                parameters={"PROFILE": profile},
                kernel_name="python3",  # the running environment's kernel, whatever name the notebook was saved with
                cwd=str(source.parent),
                progress_bar=False,
                start_timeout=120,
                execution_timeout=CELL_SECONDS[profile],
                config=Config({"AsyncKernelManager": kernel}),
            )
        except PapermillExecutionError as error:
            failure = _failure(f"{error.ename}: {error.evalue}", error.source, "\n".join(error.traceback))
        except Exception as error:  # a dead kernel, a timeout, a broken notebook: reported like a failing cell
            what = str(error).strip().splitlines()[0]
            if not last and what.startswith(NO_START):
                continue
            failure = _failure(f"{type(error).__name__}: {what}")
        break
    return {"seconds": time.perf_counter() - started, "failure": failure}


def _own_cells(notebook: dict) -> list[dict]:
    """The code cells of the source in an executed copy, without those that papermill and the builder put in."""
    return [cell for cell in code_cells(notebook) if not {"injected-parameters", ASKED} & set(tags_of(cell))]


def _failed_cell(notebook: dict) -> tuple[int, dict] | None:
    """Number (from 1, among the code cells) and content of the cell at which the run ended.

    A cell that raised holds an error. One that was stopped, or whose kernel died, is marked completed by papermill like
    those before it; it is the last one that was started.
    """
    last = None
    for number, cell in enumerate(_own_cells(notebook), start=1):
        if any(output["output_type"] == "error" for output in cell.get("outputs", [])):
            return number, cell
        if cell["metadata"].get("papermill", {}).get("start_time"):
            last = number, cell
    return last


def describe_failure(name: str, failure: dict, partial: Path, shown: str) -> str:
    """The message for the terminal: where, what, the cell's source, the traceback, where the partial notebook lies."""
    where, source = name, failure["source"]
    if failure["stopped"] and partial.exists():
        found = _failed_cell(json.loads(partial.read_text(encoding="utf-8")))
        if found:
            where = f"{name}, code cell {found[0]} (id {found[1].get('id', 'none')})"
            source = source or source_of(found[1])
    lines = [f"FAILED {where}", f"  {failure['what']}"]
    if source:
        lines += ["  The cell:", *(f"    | {line}" for line in source.splitlines())]
    if failure["traceback"]:
        text = failure["traceback"] if sys.stdout.isatty() else ANSI.sub("", failure["traceback"])
        lines += ["  The traceback:", *(f"    {line}" for line in text.splitlines())]
    if partial.exists():
        lines.append(f"  The notebook as far as it got: {shown}")
    return "\n".join(lines)


def finish(executed: dict, source: dict, run: dict) -> dict:
    """A clean executed copy: the source's cells with outputs and numbers, without papermill's traces and widget state.

    ``run`` (key, profile, seconds, numbers) is kept in the notebook's metadata as ``bnn_book``.

    The code cells of the executed copy match the source's one to one, but for those that were put in. The same routine
    carries old outputs and numbers into a chapter whose prose alone changed.
    """
    done, numbers = iter(_own_cells(executed)), iter(run["numbers"])
    cells, count = [], 0
    for cell in source["cells"]:
        cell = json.loads(json.dumps(cell))
        if cell["cell_type"] == "code":
            ran = next(done)
            count += ran["execution_count"] is not None
            cell["outputs"] = [o | {"execution_count": count} if "execution_count" in o else o for o in ran["outputs"]]
            for data in (output.get("data", {}) for output in cell["outputs"]):
                if "image/png" in data:
                    data["image/png"] = packed("".join(data["image/png"]))
            cell["execution_count"] = None if ran["execution_count"] is None else count
        elif expressions_of(cell):
            cell = said(cell, numbers)
        cells.append(cell)
    metadata = {key: value for key, value in source["metadata"].items() if key not in ("papermill", "widgets")}
    return {**source, "cells": cells, "metadata": {**metadata, "bnn_book": run}}


def _progress(project: Project, name: str) -> str:
    """How far a running chapter is, read from the copy that papermill saves after every cell."""
    try:
        cells = code_cells(json.loads((project.running / name).read_text(encoding="utf-8")))
    except (OSError, json.JSONDecodeError):  # not written yet, or just being written
        return "starting"
    done = sum(cell["metadata"].get("papermill", {}).get("status") == "completed" for cell in cells)
    return f"cell {done} of {len(cells)}"


def _kept(project: Project, name: str, result: dict) -> Outcome:
    """Judge a finished run; a failed one leaves its partial notebook below ``_build/failed``."""
    partial, kept = project.running / name, project.failed / name
    failure = result["failure"]
    ran = code_cells(read_notebook(partial)) if failure is None else []
    if ids := [one["id"] for one in ran if any(WIDGET in output.get("data", {}) for output in one["outputs"])]:
        failure = _failure(
            f"live widget in the output of cell {', '.join(ids)}: without a kernel its slider would move "
            "and its figure would not. Show it with book.display.curves.",
            stopped=False,
        )
    if failure is None:
        try:
            numbers = answered(read_notebook(partial))
        except BookError as error:
            failure = _failure(str(error), stopped=False)
        else:
            kept.unlink(missing_ok=True)
            return Outcome(name, result["seconds"], numbers=numbers)
    if partial.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(partial, kept)
    return Outcome(name, result["seconds"], describe_failure(name, failure, kept, f"_build/failed/{name}"))


def execute(project: Project, names: list[str], profile: str, jobs: int, keep, say=print, every=15.0) -> list[Outcome]:
    """Run the chapters ``names`` in ``jobs`` processes; one that fails does not stop the others.

    ``keep`` is called with each outcome as soon as it is known; a successful copy then lies in ``_build/running``.
    """
    if not names:
        return []
    shutil.rmtree(project.running, ignore_errors=True)
    workers = min(jobs, len(names))
    threads = max(1, (os.cpu_count() or 1) // workers)
    outcomes: list[Outcome] = []
    started = time.perf_counter()
    with Processes(_run, {name: (str(project.root), name, profile, threads) for name in names}, workers) as processes:
        while processes:
            finished = processes.finished(every)
            for name, result, seconds in finished:
                if result is None:
                    failure = _failure("its process was killed (out of memory?). Try again with JOBS=1.")
                    result = {"seconds": seconds, "failure": failure}
                outcomes.append(_kept(project, name, result))
                keep(outcomes[-1])
                mark = "failed" if outcomes[-1].error else "done"
                say(f"  [{len(outcomes)}/{len(names)}] {name} {mark} in {outcomes[-1].seconds:.1f} s")
            if not finished:
                states = [f"{name} {_progress(project, name)}" for name in processes.running]
                states += [f"{len(processes.waiting)} waiting"] if processes.waiting else []
                say(f"  {time.perf_counter() - started:4.0f} s: {', '.join(states)}")
    return outcomes

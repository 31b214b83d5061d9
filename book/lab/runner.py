"""Run an experiment's grid, or those of all: what is finished stays, the rest is computed and stored as it comes."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from bnnlib import datasets
from bnnlib._files import StoreError
from book.lab import catalog, engine, provenance
from book.lab.cells import ExperimentError
from book.lab.plan import Plan, minutes
from book.lab.result import Result
from book.lab.store import read_entry
from book.lab.worker import Task


def run(
    name: str,
    profile: str = "smoke",
    device: str = "auto",
    jobs: int = 1,
    scheduler: str | None = None,
    threads: int = 1,
    only: str | None = None,
    devices: int = 1,
    again: bool = False,
) -> dict[str, Any]:
    """Compute the cells of a profile that are neither stored nor in the cache, and store each as it comes.

    Finished cells lie in ``data/cache/runs/NAME`` under a hash of what they are and of the data that they read, not of
    the code: whether that has changed is told by `book.lab.validity`. A failed cell keeps its ``error`` rows in the
    result and is tried again by the next run. Every cell runs with a fixed number of threads and its own seed, so its
    rows are the same bits wherever it runs, whatever the number of jobs or the order.

    Args:
        name: the experiment.
        profile: smoke, book or paper.
        device: ``"auto"`` (CUDA when there is one), or any torch device.
        jobs: worker processes on this machine; 1 means this process.
        scheduler: address of a Dask scheduler, ``"tcp://host:8786"``, whose workers take the place of ``jobs``.
        threads: torch threads of each cell.
        only: run only the cell of this label (setting, method, replicates), or where there is none those whose label
            contains this text; what is known of the others stays.
        devices: how many devices compute a cell together, for experiments that can; its batches are divided.
        again: compute the chosen cells although they are known; what is known of a cell stays until then, and the same
            call after an interrupt goes on with what it has left. The numbers are the same if the code, the versions
            and the machine are; a version control's difference of the result shows it.

    Returns:
        The result, as stored; see `book.lab.store.load_result`.

    Raises:
        ExperimentError: unknown experiment, profile or device, or nothing matches ``only``.
        StoreError: a cell or the result could not be written.
        KeyboardInterrupt: on Ctrl-C, after the finished cells are merged and stored.
    """
    experiment = catalog.get(name)
    check(jobs, threads)
    if devices != 1 and (devices < 1 or jobs > 1 or scheduler or not experiment.several_devices):
        able = [one for one in catalog.names() if catalog.get(one).several_devices]
        raise ExperimentError(f"devices={devices}, but it must be 1, or more with one job of: {', '.join(able)}")
    command = command_of(name, profile, device, jobs, scheduler, threads, only, devices, again)
    device = device_of(device)
    if profile in experiment.profiles:
        warn_of_changes(profile)

    plan = Plan(name, profile, device, threads, devices)
    if missing := plan.missing(only, again):  # before the workers start: they would otherwise all download one file
        for data in sorted(missing):
            fetch(data)
        plan = Plan(name, profile, device, threads, devices)
    if again:
        plan.renew(only)
    chosen, todo = plan.chosen(only), plan.todo(only)
    known = sum(map(plan.known, chosen))
    if 0 < len(plan.renewed) < len(chosen):
        say(f"going on with {len(plan.renewed)} of {len(chosen)} cells, which an interrupt of this command has left")
    say(f"{name} ({profile}): {len(plan.tasks)} cells, {known} of {len(chosen)} chosen ones are known")
    (result,) = compute([plan], todo, [Result(plan, command)], jobs, scheduler, command)
    return result


def compute(plans, todo, results, jobs, scheduler, command, heard=None) -> list[dict[str, Any]]:
    """Run the tasks and store every finished cell in the results of its plans at once.

    ``heard(task, entry)`` is told of each; what it raises ends the run as Ctrl-C would.
    """
    owners = {task.name: number for number, plan in enumerate(plans) for task in plan.tasks}
    touched = set() if len(plans) > 1 else {0}
    if scheduler is None:
        warn_of_bfloat16(todo)
    try:
        with contextlib.closing(engine.outcomes(todo, jobs, scheduler)) as finished:
            guesses = [(task, _minutes(plans[owners.get(task.name, 0)], task)) for task in todo]
            for task, entry in _progress(finished, guesses):
                _keep(task, entry)
                if heard is not None:
                    heard(task, entry)
                number = owners.get(task.name)
                if number is None:
                    continue  # of another experiment, which needs it only as a beginning
                known = plans[number].entries[task.key]
                lost = entry.get("lost") or (entry["failed"] and plans[number].known(task))
                if lost and known and not known["failed"]:
                    continue  # it ran again for its product alone, or not at all, and its rows are good
                results[number].take(task, entry)
                results[number].save()
                touched.add(number)
    except KeyboardInterrupt:
        _refresh(plans)
        for result in results:
            result.save()
        done = sum(plan.known(task) for plan in plans for task in plan.tasks)
        say(
            f"interrupted: {done} of {sum(len(plan.tasks) for plan in plans)} cells are finished and stored; nothing "
            f"is lost. The same command goes on from there:\n  {command}"
        )
        raise
    _refresh(plans)
    stored = [result.save() for result in results]
    for number, plan in enumerate(plans):
        if number in touched:
            done, failed = results[number].count()
            left = len(plan.tasks) - done - failed
            say(f"stored {results[number].path.name}: {done} cells done, {failed} failed, {left} not run")
            if plan.profile != "smoke":
                from book.lab import verify

                stored[number] = verify.keep_probes(plan.experiment.name, plan.profile, say)
    return stored


def _keep(task: Task, entry: dict[str, Any]) -> None:
    """Into the cache, where a worker that does not see it could not put it."""
    product = entry.pop("sent", None)
    if entry.get("lost") and task.marked is not None:
        return  # what is known of it stays, and it is asked for again
    missing = not (Path(task.folder) / f"{task.key}.json").exists()
    if missing or product is not None or entry["failed"] or task.marked is not None:
        task.keep(entry, product)


def _refresh(plans: list[Plan]) -> None:
    """What another run, or a worker whose rows were still on their way, has put into the cache meanwhile."""
    for plan in plans:
        for task in plan.tasks:
            if plan.known(task) or (task.key in plan.renewed and task.marked is not None):
                continue
            plan.entries[task.key] = read_entry(Path(task.folder), task.key) or plan.entries[task.key]
            plan.renewed.discard(task.key)


def check(jobs: int, threads: int) -> None:
    if jobs < 1 or threads < 1:
        raise ExperimentError(f"jobs={jobs} and threads={threads} were given; both must be at least 1")


def device_of(given: str) -> str:
    if given == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(given)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ExperimentError(f"device {given!r} cannot be used ({reason}); give auto, cpu or cuda") from error
    return given


def fetch(name: str) -> None:
    """A data set onto this machine.

    Raises:
        StoreError: it cannot be had.
    """
    say(f"fetching data set {name!r}")
    try:
        datasets.fetch(name)
    except datasets.DatasetError as error:
        raise StoreError(str(error)) from error


def warn_of_changes(profile: str) -> None:
    if profile != "smoke" and provenance.commit()["dirty"]:
        say("the code has changes that are not committed: the cells are marked, for their numbers cannot be traced")


def warn_of_bfloat16(todo) -> None:
    """Where a processor has no bfloat16 PyTorch convolves in plain loops, and an hour is a day."""
    emulated = not getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)()
    if emulated and any(
        task.device == "cpu" and (task.cell.params.get("bfloat16") or task.cell.params.get("precision") == "bfloat16")
        for task in todo
    ):
        say("this processor has no bfloat16, in which some of these cells compute: they take several times as long")


def spelled(seconds: float) -> str:
    """A time as ``--budget`` takes it."""
    return f"{seconds / 60:g}m" if seconds >= 120 else f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def command_of(name, profile, device, jobs, scheduler, threads, only=None, devices=1, again=False, budget=None) -> str:
    """The command line that asks for this."""
    words = [f"python -m book run {name} --profile {profile} --device {device}"]
    words += [f"--devices {devices}"] if devices > 1 else []
    words += [f"--jobs {jobs}"] if jobs > 1 else []
    words += ["--scheduler tcp://HOST:PORT"] if scheduler else []  # an address would name a machine
    words += [f"--threads {threads}"] if threads > 1 else []
    words += [f"--budget {spelled(budget)}"] if budget else []
    words += ["--again"] if again else []
    words += [f'--only "{only}"'] if only else []
    return " ".join(words)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _minutes(plan: Plan, task: Task) -> float | None:
    with contextlib.suppress(ExperimentError):
        return minutes(plan, task, {})
    return None


def _progress(outcomes: Iterator[engine.Outcome], todo: list[tuple[Task, float | None]]) -> Iterator[engine.Outcome]:
    bar, total = None, len(todo)
    if total and sys.stderr.isatty():
        with contextlib.suppress(ImportError):  # else a line a cell, as in a log file
            from tqdm import tqdm

            bar = tqdm(total=total, unit="cell", file=sys.stderr)
            guesses = [guess for _, guess in todo]
            # a first cell may take an hour, in which a bar without a rate says nothing
            about = "unknown length" if None in guesses else f"about {sum(guesses):.0f} min of work"
            bar.set_postfix_str(f"{about}, first {todo[0][0].cell.label}")
    for number, (task, entry) in enumerate(outcomes, 1):
        state = f"FAILED: {entry['rows'][0]['note']}" if entry["failed"] else f"{entry['seconds']:.1f} s"
        if bar is None:
            say(f"[{number}/{total}] {task.cell.label}: {state}")
        else:
            bar.update()
            bar.set_postfix_str(task.cell.label)
            if entry["failed"]:
                bar.write(f"{task.cell.label}: {state}", file=sys.stderr)
        yield task, entry
    if bar is not None:
        bar.close()

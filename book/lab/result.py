"""The committed result of a profile: it grows cell by cell, and keeps what was there until something better is."""

import copy
import time
from typing import Any

import numpy as np

from book.lab import inputs, provenance, store
from book.lab.plan import Entry, Plan, entries_of, matching
from book.lab.validity import cell_of
from book.lab.worker import Task

_KEPT = ("id", "cell", "version", "code", "data", "failed", "seconds", "device", "commit", "commit_from", "dirty")
_KEPT += ("noise", "product", "starts")


class Result:
    """The result of a plan's profile, written again whenever a cell is finished, with the command in its provenance."""

    def __init__(self, plan: Plan, command: str) -> None:
        self.plan, self.command, self.started = plan, command, time.perf_counter()
        self.path = store.result_path(plan.experiment.name, plan.profile)
        self.old = store.read_result(self.path) if self.path.exists() else None
        self.before = self.old["provenance"].get("wall_minutes", 0.0) if self.old else 0.0  # of the earlier parts
        self._own: set[str] = set()  # keys of the cells that this run has computed
        self._seen, self._known = plan.stamp, {name: _about(entry) for name, entry in plan.stored.items()}

    def take(self, task: Task, entry: Entry) -> None:
        """A cell that has been computed."""
        self.plan.entries[task.key] = entry
        self.plan.renewed.discard(task.key)
        self._own.add(task.key)

    def count(self) -> tuple[int, int]:
        """(done, failed) cells."""
        known = [entry for entry in self.plan.entries.values() if entry]
        failed = sum(entry["failed"] for entry in known)
        return len(known) - failed, failed

    def save(self) -> dict[str, Any]:
        """Write the result, unless the stored one says the same; return the merged one."""
        result, new = self._next()
        if not new and store.stamp(self.path) == self._seen:
            return result
        with store.locked(self.plan.experiment.name, self.plan.profile):
            if store.stamp(self.path) not in (None, self._seen):
                self._adopt()
            result, new = self._next()
            if new:
                store.save_result(result, self._arrays(result))
                self._look(result)
        return result

    def _next(self) -> tuple[dict[str, Any], bool]:
        """The merged result, and whether the file says something else."""
        result, old = self.merge(), self.old
        if not result["cells"]:
            return result, False
        if old and all(store.to_json(old[part]) == store.to_json(result[part]) for part in ("cells", "rows")):
            # nothing new, but for the counts: the provenance of the run that made the rows stays
            result["provenance"] = old["provenance"] | {"cells": result["provenance"]["cells"]}
            if result["provenance"] == old["provenance"]:
                return old, False
        return result, True

    def _look(self, result: dict[str, Any]) -> None:
        """Remember the result as what stands in the file."""
        self.old, self._seen = result, store.stamp(self.path)
        self._known = {one["id"]: _about(one) for one in result["cells"]}

    def _adopt(self) -> None:
        """Take over the cells that another run has written into the file since this one has read it."""
        now = store.read_result(self.path)
        new = {name: entry for name, entry in entries_of(now).items() if self._known.get(name) != _about(entry)}
        for task in self.plan.tasks:
            if task.key not in self._own and (entry := matching(new, task)):
                self.plan.entries[task.key] = entry
        self._look(now)

    def outdated(self) -> list[Entry]:
        """Cells of the stored result that are asked for in another form now, and whose place nothing new has taken.

        They stay until the profile is complete.
        """
        stored = entries_of(store.read_result(self.path)) if self.path.exists() else {}
        now = {task.about["id"]: self.plan.entries[task.key] for task in self.plan.tasks}
        taken = {place for entry in self.plan.entries.values() if entry for place in _places(entry)}
        left = [one for name, one in stored.items() if now.get(name) is None]
        return [one for one in left if not taken & _places(one)]

    def merge(self) -> dict[str, Any]:
        """The result as it would be written now."""
        plan, (done, failed) = self.plan, self.count()
        known = [entry for task in plan.tasks if (entry := plan.entries[task.key])]
        if done + failed < len(plan.tasks):
            known += self.outdated()
        cells = [task.cell for task in plan.tasks]
        seeds = {"replicates": sorted({replicate for cell in cells for replicate in cell.replicates})}
        if own := sorted({cell.params["seed"] for cell in cells if "seed" in cell.params}):
            seeds["seed"] = own
        wall = self.before + (time.perf_counter() - self.started) / 60
        about = {
            **provenance.commit(),
            "cell_commits": sorted({entry["commit"] for entry in known if entry.get("commit")}),
            "command": self.command,
            "seeds": seeds,
            "versions": provenance.versions(),
            "machine": provenance.machine(),
            "device": " + ".join(sorted({entry["device"] for entry in known if "device" in entry})),
            "minutes": round(sum(entry["seconds"] for entry in known) / 60, 3),
            "wall_minutes": round(wall, 3),
            "data": plan.data,
            "cells": {"total": len(plan.tasks), "done": done, "failed": failed},
        }
        return {
            "experiment": plan.experiment.name,
            "profile": plan.profile,
            "provenance": about,
            "cells": [{k: one[k] for k in _KEPT if k in one} | {"rows": len(one["rows"])} for one in known],
            "probes": self._probes(known),
            "certificates": self.old["certificates"] if self.old else [],
            "rows": [row for entry in known for row in entry["rows"]],
        }

    def _probes(self, known: list[Entry]) -> list[dict[str, Any]]:
        """The stored probes; of cells that are others now under the same label they say nothing any more."""
        if not self.old:
            return []
        now, before = ({cell_of(one["cell"]).label: one["id"] for one in many} for many in (known, self.old["cells"]))
        others = {label for label, name in before.items() if now.get(label, name) != name}
        probes = copy.deepcopy(self.old["probes"])
        for probe in probes:
            inputs.forget(probe.get("real", {}), others)
        return probes

    def _arrays(self, result: dict[str, Any]) -> dict[str, np.ndarray]:
        """Arrays of the merged cells: those of the cache, and for carried cells those that lie beside the result."""
        name, profile = self.plan.experiment.name, self.plan.profile
        before = store.load_arrays(name, profile) if self.path.with_suffix(".npz").exists() else {}
        arrays = {}
        known = {task.about["id"]: self.plan.entries[task.key] for task in self.plan.tasks}
        for about in result["cells"]:
            where = (about["cell"]["setting"], about["cell"]["method"], about["cell"]["replicates"][0])
            if about["failed"]:
                continue
            own = (known.get(about["id"]) or {}).get("arrays")
            if own is None:
                own = {key[3]: value for key, value in before.items() if key[:3] == where}
            arrays |= {"|".join(map(str, (*where, array))): value for array, value in own.items()}
        return arrays


def _about(entry: Entry) -> dict[str, Any]:
    """A cell without its rows."""
    return {key: entry[key] for key in _KEPT if key in entry}


def _places(entry: Entry) -> set[tuple[str, str, int]]:
    cell = entry["cell"]
    return {(cell["setting"], cell["method"], replicate) for replicate in cell["replicates"]}

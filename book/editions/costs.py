"""The numbers and the picture of the page on what a step costs, from `benchmarks/stored`."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

from book.editions.compared import markdown

TABLE = re.compile(r"^% table: (\w+)$", re.MULTILINE)  # a MyST comment, invisible where nothing fills it
PICTURE = "book/step_cost.svg"
KINDS = {
    "gaussian": "Gaussian",
    "gaussian-local": "Gaussian, local reparameterization",
    "gaussian-flipout": "Gaussian, flipout",
    "spike-slab": "Dirac spike and slab",
    "gaussian-spike-slab": "Gaussian spike and slab, closed form",
    "scale-mixture": "scale mixture",
    "sparse-vd": "sparse variational dropout",
    "horseshoe": "horseshoe",
    "sgld": "SGLD",
    "sghmc": "SGHMC",
    "sghmc-euler": "SGHMC, Euler scheme",
    "sghmc-sa": "SGHMC with the learned prior",
    "avo": "adaptive variational optimizer",
    "avo-natural": "the same, natural-gradient form",
}
PEERS = ("torchbnn", "bayesian-torch", "posteriors", "ivon")
SAMPLERS = tuple(list(KINDS)[8:])
Rows = list[dict[str, Any]]


def stored(root: Path) -> dict[str, dict[str, Any]]:
    """What the benchmarks have stored, by name."""
    files = sorted((root / "benchmarks" / "stored").glob("step_*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def fill(template: str, found: dict[str, dict[str, Any]]) -> str:
    """The page with a table in the place of each comment that asks for one."""
    tables = {"step_time_cpu": _times, "step_time_h100": _graphs, "prediction": _predictions}

    def table(match: re.Match) -> str:
        name = match[1]
        source = found.get(f"step_{name}" if name == "prediction" else name)
        if source is None:
            return f"*Not measured: `benchmarks/stored` has no result for {name.replace('_', ' ')}.*"
        about = source["about"]
        said = f"*{about['device']}, {_threads(about)}torch {about['torch']}, {about['date']}: `{about['command']}`.*"
        return f"{tables[name](source['rows'], found)}\n\n{said}"

    return TABLE.sub(table, template)


def _threads(about: dict[str, Any]) -> str:
    number = about.get("threads")
    return "" if number is None else f"{number} thread{'s' if number > 1 else ''}, "


def _times(rows: Rows, found: dict[str, dict[str, Any]]) -> str:
    """Ratio and quartiles by layer and library, and the bytes that a step moves."""
    by = {(row["library"], row["layer"], row["batch"]): row for row in rows}
    moved = _moved(found)
    lines = []
    for kind, name in KINDS.items():
        cells = [name]
        for batch in (128, 1024):
            cells.append(_ratio(by.get(("bnnlib", kind, batch))))
        peers = {peer: by.get((peer, kind, 128)) for peer in PEERS}
        cells.append("; ".join(f"{peer} {row['ratio']:.2f}" for peer, row in peers.items() if row) or "–")
        cells.append(f"{moved['bnnlib', kind, 128] / 1e6:.0f}" if ("bnnlib", kind, 128) in moved else "–")
        if cells[1] != "–":
            lines.append(cells)
    return markdown(["Layer or sampler", "128 rows", "1,024 rows", "Others, 128 rows", "MB moved"], lines)


def _ratio(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    low, high = row.get("quartiles", (None, None))
    return f"{row['ratio']:.2f}" if low is None else f"{row['ratio']:.2f} ({low:.2f} to {high:.2f})"


def _graphs(rows: Rows, _: dict[str, dict[str, Any]]) -> str:
    """Milliseconds of a step on a GPU, as it is and as a graph; and the ratio of whole networks' steps as graphs."""
    by = {(row["library"], row["mode"], row["layer"], row["batch"]): row for row in rows}
    lines = []
    for kind, name in KINDS.items():
        eager, graph = (by.get(("bnnlib", mode, kind, 128)) for mode in ("eager", "graphs"))
        if eager:
            recorded = [f"{graph['ms']:.2f}", f"{graph['ratio']:.2f}"] if graph else ["–", "–"]
            peers = [_peer(by, peer, kind) for peer in PEERS if (peer, "eager", kind, 128) in by]
            lines.append([name, f"{eager['ms']:.2f}", f"{eager['ratio']:.2f}", *recorded, "; ".join(peers) or "–"])
    head = ["Layer or sampler", "ms", "ratio", "ms, recorded", "ratio, recorded", "Others: ratio, and recorded"]
    return "\n\n".join(filter(None, [markdown(head, lines), _convolutions(by)]))


def _peer(by: dict[tuple, dict[str, Any]], peer: str, kind: str) -> str:
    graph = by.get((peer, "graphs", kind, 128))
    recorded = f"{graph['ratio']:.2f}" if graph else "cannot be recorded"
    return f"{peer} {by[peer, 'eager', kind, 128]['ratio']:.2f}, {recorded}"


def _convolutions(by: dict[tuple, dict[str, Any]]) -> str:
    """The ratio of recorded steps of two convolutional networks, by kind, or nothing where none is stored."""
    columns = [(network, batch) for network in ("lenet5", "resnet20") for batch in (128, 1024)]
    lines = []
    for kind, name in KINDS.items():
        found = [by.get(("bnnlib", "graphs", f"{network}-{kind}", batch)) for network, batch in columns]
        if any(found):
            lines.append([name, *(f"{row['ratio']:.2f}" if row else "–" for row in found)])
    heads = ["LeNet-5, 128 rows", "LeNet-5, 1,024 rows", "ResNet20, 128 rows", "ResNet20, 1,024 rows"]
    return markdown(["Layer, ratio recorded", *heads], lines) if lines else ""


def _predictions(rows: Rows, _: dict[str, dict[str, Any]]) -> str:
    """Milliseconds of the draws, by network and rows."""
    columns = list(dict.fromkeys((row["network"], row["batch"]) for row in rows))
    by = {(row["library"], row["layer"], row["way"], row["network"], row["batch"]): row for row in rows}
    lines = [
        [
            f"{library}, {layer}, {way}",
            *(f"{1e3 * by[library, layer, way, *column]['seconds']:,.0f}" for column in columns),
        ]
        for library, layer, way in dict.fromkeys((row["library"], row["layer"], row["way"]) for row in rows)
    ]
    return markdown(["Draws", *(f"{network}, {batch} row{'s' * (batch > 1)}" for network, batch in columns)], lines)


def _moved(found: dict[str, dict[str, Any]]) -> dict[tuple[str, str, int], int]:
    rows = found.get("step_traffic", {"rows": []})["rows"]
    return {(row["library"], row["layer"], row["batch"]): row["bytes"] for row in rows}


def picture(found: dict[str, dict[str, Any]]) -> str:
    """Time of a step against the bytes that it moves, as SVG; the same text for the same numbers."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from book.display.style import MARKERS, PALETTE, RC

    times, moved = found["step_time_cpu"]["rows"], _moved(found)
    with mpl.rc_context(RC | {"svg.hashsalt": "step cost", "svg.fonttype": "path"}):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot()
        base = [row["base_ms"] for row in times if row["batch"] == 128 and row["layer"] in KINDS]
        points = {"bnnlib": [], "other libraries": [], "samplers of bnnlib": []}
        for row in times:
            key = (row["library"], row["layer"], row["batch"])
            if row["batch"] == 128 and key in moved and row["layer"] in KINDS:
                sampler = row["layer"] in SAMPLERS
                name = (
                    "samplers of bnnlib" if sampler else "bnnlib" if row["library"] == "bnnlib" else "other libraries"
                )
                if row["library"] == "bnnlib" or not sampler:
                    points[name].append((moved[key] / 1e6, row["ms"], row["layer"]))
        plain = (moved["torch", "none", 128] / 1e6, sorted(base)[len(base) // 2])
        axes.plot(*plain, MARKERS[3], color=PALETTE[3], label="deterministic, Adam", linestyle="none")
        for (name, found_points), color, marker in zip(points.items(), PALETTE, MARKERS, strict=False):
            x, y = [p[0] for p in found_points], [p[1] for p in found_points]
            axes.plot(x, y, marker, color=color, label=name, linestyle="none")
        widest = max(p[0] for some in points.values() for p in some)
        rate = found["step_traffic"]["bandwidth"] / 1e9
        line = [plain[1], plain[1] + (widest - plain[0]) / rate]
        axes.plot(
            [plain[0], widest], line, "-", color=PALETTE[6], label=f"traffic at the rate of a copy, {rate:.1f} GB/s"
        )
        axes.set(xlabel="bytes read and written in a step (MB)", ylabel="time of a step (ms)", ylim=(0, None))
        axes.set_xlim(0, None)
        axes.legend(loc="lower right")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()

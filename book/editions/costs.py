"""Tables and the picture of pages from `benchmarks/stored`: what a step costs, and the estimators beside others."""

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
    folder = root / "benchmarks" / "stored"
    files = [*sorted(folder.glob("step_*.json")), *folder.glob("estimators.json")]
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def fill(template: str, found: dict[str, dict[str, Any]]) -> str:
    """The page with a table in the place of each comment that asks for one."""
    tables = {"step_time_cpu": _times, "step_time_h100": _graphs, "prediction": _predictions}
    tables |= {"stacks": _stacks, "workers": _workers, "convolutions": _processor_convolutions}
    tables |= {"draws": _draws, "noise": _noise}
    tables["estimators"] = _estimators

    def table(match: re.Match) -> str:
        name = match[1]
        source = found.get(name, found.get(f"step_{name}"))
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


def _noise(rows: Rows, _: dict[str, dict[str, Any]]) -> str:
    """Nanoseconds of a number by its source; and steps as they are and with noise that costs nothing."""
    spread = "{:.2f} ({:.2f} to {:.2f})".format
    ways = [[row["way"], spread(row["ns"], *row["ns_quartiles"])] for row in rows if "way" in row]
    steps = [
        [KINDS[row["layer"]], *(spread(row[key], *row[f"{key}_quartiles"]) for key in ("ratio", "free"))]
        for row in rows
        if "layer" in row
    ]
    heads = ["Layer, ratio with 128 rows", "noise drawn", "noise for nothing"]
    return "\n\n".join([markdown(["Source of numbers", "ns a number"], ways), markdown(heads, steps)])


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


def _processor_convolutions(rows: Rows, _: dict[str, dict[str, Any]]) -> str:
    """The same two networks on a processor, and noise on units and statistics on the networks of their papers."""
    noise = {
        "sbp-lenet-500-300": "SBP, LeNet-500-300",
        "sbp-lenet-500-300-hidden": "the same, hidden layers alone",
        "sbp-lenet5": "SBP, LeNet-5",
        "sbn-lenet5": "SBN, LeNet-5",
    }
    by = {(row["layer"], row["batch"]): row for row in rows if row["library"] == "bnnlib"}
    batches = sorted({batch for _, batch in by})
    lines = [[name, *(_ratio(by.get((key, batch))) for batch in batches)] for key, name in noise.items()]
    layers = {("bnnlib", "graphs", *key): row for key, row in by.items()}
    heads = [f"{batch:,} rows" for batch in batches]
    return "\n\n".join([_convolutions(layers, "ratio"), markdown(["Noise, network", *heads], lines)])


def _convolutions(by: dict[tuple, dict[str, Any]], said: str = "ratio recorded") -> str:
    """The ratio of steps of two convolutional networks, by kind, or nothing where none is stored."""
    names = {"lenet5": "LeNet-5", "resnet20": "ResNet20"}
    measured = {(layer.partition("-")[0], batch) for *_, layer, batch in by}
    columns = [(network, batch) for network in names for batch in (128, 1024) if (network, batch) in measured]
    lines = []
    for kind, name in KINDS.items():
        found = [by.get(("bnnlib", "graphs", f"{network}-{kind}", batch)) for network, batch in columns]
        if any(found):
            lines.append([name, *(f"{row['ratio']:.2f}" if row else "–" for row in found)])
    heads = [f"{names[network]}, {batch:,} rows" for network, batch in columns]
    return markdown([f"Layer, {said}", *heads], lines) if lines else ""


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


def _stacks(rows: Rows, _: dict[str, dict[str, Any]]) -> str:
    """Milliseconds an epoch and network, by width and number of networks; bold where more networks gain under 10 %."""
    numbers = sorted({row["replicates"] for row in rows})
    lines = []
    for width in dict.fromkeys(row["width"] for row in rows):
        own = {row["replicates"]: row for row in rows if row["width"] == width}
        least = min(row["ms"] for row in own.values())
        full = next(number for number in sorted(own) if own[number]["ms"] <= 1.1 * least)
        texts = {number: f"{row['ms']:.{2 if row['ms'] < 10 else 1}f}" for number, row in own.items()}
        texts[full] = f"**{texts[full]}**"
        weights = f"{next(iter(own.values()))['weights']:,}"
        lines.append([str(width), weights, *(texts.get(number, "–") for number in numbers)])
    heads = [f"{number} network{'s' * (number > 1)}" for number in numbers]
    return markdown(["Width", "Weights each", *heads], lines)


def _workers(rows: Rows, _: dict[str, dict[str, Any]]) -> str:
    lines = [[f"{row['one_s']:.0f}", f"{row['two_s']:.0f}", f"{row['efficiency']:.2f}"] for row in rows]
    return markdown(["One worker, s", "Two workers, s", "Efficiency"], lines)


def _draws(rows: Rows, _: dict[str, dict[str, Any]]) -> str:
    """Memory in draws of one size, and milliseconds a draw, by where a store keeps them."""
    lines = []
    for row in rows:
        held = [f"{row[name] / row['draw_mb']:.1f}" for name in ("kept_mb", "used_mb")]
        times = [f"{row[name]:.0f}" for name in ("offer_ms", "predict_ms")]
        lines.append([f"{row['draws']} in {row['place'].replace('folder', 'a folder')}", *held, *times])
    heads = ["Memory while kept, draws", "While they predict, draws", "To keep one, ms", "To predict by one, ms"]
    return markdown(["Draws of ResNet20", *heads], lines)


def _estimators(rows: Rows, _: dict[str, dict[str, Any]]) -> str:
    """Error, intervals, noise, selected inputs and time by set and method; means and standard errors over splits."""
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        some = [row for row in rows if row["set"] == name]
        measured = [row for row in some if "note" not in row]
        size = f", {measured[0]['rows']:,} rows of {measured[0]['inputs']} inputs" if measured else ""
        lines.append([f"**{name.replace('_', ' ')}**{size}", *[""] * 6])
        for row in some:
            if "note" in row:
                lines.append([row["method"], row["note"], *["–"] * 5])
                continue
            judged = "coverage" if "coverage" in row else "nll"
            cells = [_spread(row, "error", 1 if row["error"] >= 10 else 2)]
            cells.append(f"{_spread(row, judged, 1 if judged == 'coverage' else 3)}{'' if judged == 'nll' else ' %'}")
            cells += [_spread(row, "noise", 1 if row.get("noise", 0) >= 10 else 2), _spread(row, "selected", 1)]
            lines.append([row["method"], *cells, f"{row['cpu_s']:.1f}", str(row["splits"])])
    return markdown(["", "error", "coverage, or nats", "noise", "selected", "s", "splits"], lines)


def _spread(row: dict[str, Any], key: str, digits: int) -> str:
    if key not in row:
        return "–"
    error = f" ± {row[f'{key}_se']:.{digits}f}" if f"{key}_se" in row else ""
    return f"{row[key]:.{digits}f}{error}"


def _moved(found: dict[str, dict[str, Any]]) -> dict[tuple[str, str, int], int]:
    rows = found.get("step_traffic", {"rows": []})["rows"]
    return {(row["library"], row["layer"], row["batch"]): row["bytes"] for row in rows}


def picture(found: dict[str, dict[str, Any]]) -> str:
    """Time of a step against the bytes that it moves, as SVG; the same text for the same numbers."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from book.display.style import MARKERS, PALETTE, PANEL_WIDTH, RC

    times, moved = found["step_time_cpu"]["rows"], _moved(found)
    with mpl.rc_context(RC | {"svg.hashsalt": "step cost", "svg.fonttype": "path"}):
        figure = Figure(figsize=(PANEL_WIDTH[1], 4.4), layout="constrained")
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
        figure.legend(loc="outside lower center", ncols=2, columnspacing=1.0, handletextpad=0.4)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()

"""Tables and the picture of pages from `benchmarks/stored`: what a step costs, estimators, conversions."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import comparison_tables, conversion_tables
from benchmarks.goals import GOALS
from book.editions.templates import markdown, svg

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
    "ivon": "IVON",
}
NOISE = {
    "sbp-lenet-500-300": "SBP, LeNet-500-300",
    "sbp-lenet-500-300-hidden": "the same, hidden layers alone",
    "sbp-lenet5": "SBP, LeNet-5",
    "sbn-lenet5": "SBN, LeNet-5",
}
PEERS = ("torchbnn", "bayesian-torch", "posteriors", "ivon")
SAMPLERS = tuple(list(KINDS)[8:])
Row = dict[str, Any]
Rows = list[Row]
Found = dict[str, dict[str, Any]]


def stored(root: Path) -> Found:
    """What the benchmarks have stored, by name."""
    patterns = ("step_*", "estimators", "selections", "conversions", "time_to_answer")
    files = [path for pattern in patterns for path in root.glob(f"benchmarks/stored/{pattern}.json")]
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(files)}


def tables(found: Found) -> dict[str, Callable[[], str]]:
    """Each table with the machine and the command that measured it."""
    made = {"step_time_cpu": partial(_times, found=found), "step_time_h100": _graphs, "prediction": _predictions}
    made |= {"stacks": _stacks, "workers": _workers, "convolutions": _convolutions, "draws": _draws, "noise": _noise}
    made |= {"memory": _memory, "memory_h100": _memory, "noise_h100": _passes, "time_to_answer": _answers}
    made |= {"estimators": comparison_tables.estimators, "selections": comparison_tables.selections}
    made |= {"conversions": conversion_tables.counts}
    said = {"conversions_reasons": conversion_tables.reasons, "conversions_networks": conversion_tables.networks}
    filled = {name: partial(_table, name, make, found) for name, make in made.items()}
    if "conversions" not in found:
        return filled | dict.fromkeys(said, lambda: "")
    # without the source, which the first table of the conversions has said
    return filled | {name: partial(make, found["conversions"]["rows"]) for name, make in said.items()}


def _table(name: str, make: Callable[[Rows], str], found: Found) -> str:
    source = found.get(name, found.get(f"step_{name}"))
    if source is None:
        return f"*Not measured: `benchmarks/stored` has no result for {name.replace('_', ' ')}.*"
    about, number = source["about"], source["about"].get("threads")
    threads = "" if number is None else f"{_count(number, 'thread')}, "
    said = f"*{about['device']}, {threads}torch {about['torch']}, {about['date']}: `{about['command']}`.*"
    return f"{make(source['rows'])}\n\n{said}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number > 1)}"


def _by(rows: Rows, *keys: str) -> dict[tuple, Row]:
    return {tuple(row[key] for key in keys): row for row in rows}


def _times(rows: Rows, found: Found) -> str:
    """Ratio and quartiles by layer and library, the goal, and the bytes that a step moves."""
    by, moved, lines = _by(rows, "library", "layer", "batch"), _moved(found), []
    for kind, name in KINDS.items():
        if ("bnnlib", kind, 128) in by:
            alone = by.get(("bnnlib", kind, 1))
            own = [f"{alone['ratio']:.1f}" if alone else "–"]
            own += [_spread(by.get(("bnnlib", kind, batch)), "ratio") for batch in (128, 1024)]
            peers = [f"{one} {by[one, kind, 128]['ratio']:.2f}" for one in PEERS if (one, kind, 128) in by]
            bytes_ = moved.get(("bnnlib", kind, 128))
            goals = [f"{GOALS[kind, batch]:.2f}" if (kind, batch) in GOALS else "–" for batch in (128, 1024)]
            goal = "–" if set(goals) == {"–"} else "; ".join(goals)
            told = ["–", "–"]
            if bytes_ is not None:  # the limit: all beyond the deterministic step moves its bytes at the rate of a copy
                more = (bytes_ - moved["torch", "none", 128]) / found["step_traffic"]["bandwidth"]
                told = [f"{bytes_ / 1e6:.0f}", f"{1.0 + 1e3 * more / by['bnnlib', kind, 128]['base_ms']:.2f}"]
            lines.append([name, *own, goal, "; ".join(peers) or "–", *told])
    heads = ["Layer or sampler", "1 row", "128 rows", "1,024 rows", "Goals", "Others, 128 rows"]
    heads += ["MB moved", "Limit by bytes"]
    return markdown(heads, lines)


def _memory(rows: Rows) -> str:
    """Bytes a weight at the worst moment of a step and between steps, by layer and library."""
    lines = []
    for row in rows:
        name = "" if row["library"] == "torch" else f"{row['library']}, "
        name += KINDS.get(row["layer"], row["layer"])
        lines.append([name, f"{row['peak']:.0f}", f"{row['standing']:.0f}"])
    return markdown(["Network", "At the worst moment, bytes", "Between steps, bytes"], lines)


def _answers(rows: Rows) -> str:
    """Seconds to a loss on held-out rows by network and task; the least loss where a run did not arrive."""
    names = {"deterministic": "deterministic", "estimator": "`SparseRegressor`, its whole fit"} | KINDS
    by, tasks = _by(rows, "layer", "task"), _by(rows, "task")
    lines = []
    for layer in dict.fromkeys(row["layer"] for row in rows):
        cells = [by.get((layer, *task)) for task in tasks]
        lines.append([names[layer], *("–" if row is None else _arrival(row) for row in cells)])
    called = {"mnist": "MNIST", "simulation-2": "simulation II"}
    heads = (f"{called.get(task, task)}, loss {row['target']:g}" for (task,), row in tasks.items())
    return markdown(["Network", *heads], lines)


def _arrival(row: Row) -> str:
    if row["seconds"] is None:
        return f"not reached: {row['least']:.3f}"
    short = row["layer"] == "estimator" or row["arrived"] < row["runs"]
    return f"{row['seconds']:.1f} s" + (f" ({row['least']:.3f})" if short else "")


def _spread(row: Row | None, key: str) -> str:
    """A number with its quartiles, where they are known; bold for a ratio that meets the goal of a processor."""
    if row is None:
        return "–"
    quartiles = row.get(f"{key}_quartiles", row.get("quartiles"))
    text = f"{row[key]:.2f}" + (f" ({quartiles[0]:.2f} to {quartiles[1]:.2f})" if quartiles else "")
    goal = GOALS.get((row.get("layer"), row.get("batch")), 0.0) if row.get("device") == "cpu" else 0.0
    return f"**{text}**" if key == "ratio" and round(row[key], 2) <= goal else text


def _noise(rows: Rows) -> str:
    """Nanoseconds of a number by its source; and steps with noise from a generator, for nothing, and by key."""
    ways = [[row["way"], _spread(row, "ns")] for row in rows if "way" in row]
    keys = ("ratio", "free", "keyed")
    steps = [[KINDS[row["layer"]], *(_spread(row, key) for key in keys)] for row in rows if "layer" in row]
    heads = ["Layer, ratio with 128 rows", "from a generator", "noise for nothing", "by key"]
    return "\n\n".join([markdown(["Source of numbers", "ns a number"], ways), markdown(heads, steps)])


def _passes(rows: Rows) -> str:
    """Of a GPU: nanoseconds of a number where there are most of them, and the bytes moved beside those of a copy."""
    most = max(row["count"] for row in rows)
    some = [row for row in rows if row["count"] == most]
    lines = [[one["way"], f"{one['ns']:.4f}", f"{one['gb_s']:,.0f}", f"{100 * one['of_copy']:.0f}"] for one in some]
    return markdown([f"Pass over {most:,} numbers", "ns a number", "GB/s", "of a copy's, %"], lines)


def _graphs(rows: Rows) -> str:
    """Milliseconds of a step on a GPU, as it is and as a graph; and the ratio of whole networks' steps as graphs."""
    by, lines = _by(rows, "library", "mode", "layer", "batch"), []
    for kind, name in KINDS.items():
        eager, graph = (by.get(("bnnlib", mode, kind, 128)) for mode in ("eager", "graphs"))
        if eager:
            recorded = [f"{graph['ms']:.2f}", f"{graph['ratio']:.2f}"] if graph else ["–", "–"]
            peers = [_peer(by, peer, kind) for peer in PEERS if (peer, "eager", kind, 128) in by]
            lines.append([name, f"{eager['ms']:.2f}", f"{eager['ratio']:.2f}", *recorded, "; ".join(peers) or "–"])
    head = ["Layer or sampler", "ms", "ratio", "ms, recorded", "ratio, recorded", "Others: ratio, and recorded"]
    own = {key[2:]: row for key, row in by.items() if key[:2] == ("bnnlib", "graphs")}
    return "\n\n".join(filter(None, [markdown(head, lines), _networks(own, "ratio recorded")]))


def _peer(by: dict[tuple, Row], peer: str, kind: str) -> str:
    graph = by.get((peer, "graphs", kind, 128))
    recorded = f"{graph['ratio']:.2f}" if graph else "cannot be recorded"
    return f"{peer} {by[peer, 'eager', kind, 128]['ratio']:.2f}, {recorded}"


def _convolutions(rows: Rows) -> str:
    """The same two networks on a processor, and noise on units and statistics on the networks of their papers."""
    by = _by([row for row in rows if row["library"] == "bnnlib"], "layer", "batch")
    batches = sorted({batch for _, batch in by})
    lines = [[name, *(_spread(by.get((key, batch)), "ratio") for batch in batches)] for key, name in NOISE.items()]
    heads = [_count(batch, "row") for batch in batches]
    return "\n\n".join([_networks(by, "ratio"), markdown(["Noise, network", *heads], lines)])


def _networks(by: dict[tuple[str, int], Row], said: str) -> str:
    """The ratio of steps of two convolutional networks, by kind, or nothing where none is stored."""
    names = {"lenet5": "LeNet-5", "resnet20": "ResNet20"}
    measured = {(layer.partition("-")[0], batch) for layer, batch in by}
    columns = [(network, batch) for network in names for batch in (128, 1024) if (network, batch) in measured]
    lines = []
    for kind, name in KINDS.items():
        found = [by.get((f"{network}-{kind}", batch)) for network, batch in columns]
        if any(found):
            lines.append([name, *(f"{row['ratio']:.2f}" if row else "–" for row in found)])
    heads = [f"{names[network]}, {_count(batch, 'row')}" for network, batch in columns]
    return markdown([f"Layer, {said}", *heads], lines) if lines else ""


def _predictions(rows: Rows) -> str:
    """Milliseconds of the draws, by network and rows."""
    by, columns = _by(rows, "library", "layer", "way", "network", "batch"), _by(rows, "network", "batch")
    lines = [
        [", ".join(way), *(f"{1e3 * by[*way, *column]['seconds']:,.0f}" for column in columns)]
        for way in _by(rows, "library", "layer", "way")
    ]
    heads = (f"{network}, {_count(batch, 'row')}" for network, batch in columns)
    return markdown([f"Milliseconds for {rows[0]['samples']} draws", *heads], lines)


def _stacks(rows: Rows) -> str:
    """Milliseconds an epoch and network, by width and number of networks; bold where more networks gain under 10 %."""
    numbers, lines = sorted({row["replicates"] for row in rows}), []
    for width in dict.fromkeys(row["width"] for row in rows):
        own = {row["replicates"]: row for row in rows if row["width"] == width}
        full = next(n for n in sorted(own) if own[n]["ms"] <= 1.1 * min(row["ms"] for row in own.values()))
        texts = {number: f"{row['ms']:.{2 if row['ms'] < 10 else 1}f}" for number, row in own.items()}
        texts[full] = f"**{texts[full]}**"
        lines.append([str(width), f"{own[full]['weights']:,}", *(texts.get(number, "–") for number in numbers)])
    return markdown(["Width", "Weights each", *(_count(number, "network") for number in numbers)], lines)


def _workers(rows: Rows) -> str:
    lines = [[f"{row['one_s']:.0f}", f"{row['two_s']:.0f}", f"{row['efficiency']:.2f}"] for row in rows]
    return markdown(["One worker, s", "Two workers, s", "Efficiency"], lines)


def _draws(rows: Rows) -> str:
    """Memory in draws of one size, and milliseconds a draw, by where a store keeps them."""
    lines = []
    for row in rows:
        held = [f"{row[name] / row['draw_mb']:.1f}" for name in ("kept_mb", "used_mb")]
        times = [f"{row[name]:.0f}" for name in ("offer_ms", "predict_ms")]
        lines.append([f"{row['draws']} in {row['place'].replace('folder', 'a folder')}", *held, *times])
    heads = ["Memory while kept, draws", "While they predict, draws", "To keep one, ms", "To predict by one, ms"]
    return markdown(["Draws of ResNet20", *heads], lines)


def _moved(found: Found) -> dict[tuple, int]:
    rows = found.get("step_traffic", {"rows": []})["rows"]
    return {key: row["bytes"] for key, row in _by(rows, "library", "layer", "batch").items()}


def picture(found: Found) -> str:
    """Time of a step against the bytes that it moves, as SVG."""
    from book.display.style import MARKERS, PALETTE

    moved = _moved(found)
    rows = [row for row in found["step_time_cpu"]["rows"] if row["batch"] == 128 and row["layer"] in KINDS]
    points = {"bnnlib": [], "other libraries": [], "samplers of bnnlib": []}
    for row in rows:
        own, sampler = row["library"] == "bnnlib", row["layer"] in SAMPLERS
        if (row["library"], row["layer"], 128) in moved and (own or not sampler):
            name = "samplers of bnnlib" if sampler else "bnnlib" if own else "other libraries"
            points[name].append((moved[row["library"], row["layer"], 128] / 1e6, row["ms"]))
    base = sorted(row["base_ms"] for row in rows)
    plain = (moved["torch", "none", 128] / 1e6, base[len(base) // 2])
    widest = max(x for some in points.values() for x, _ in some)
    rate = found["step_traffic"]["bandwidth"] / 1e9

    def draw(figure, axes) -> None:
        axes.plot(*plain, MARKERS[3], color=PALETTE[3], label="deterministic, Adam", linestyle="none")
        for (name, some), color, marker in zip(points.items(), PALETTE, MARKERS, strict=False):
            axes.plot([x for x, _ in some], [y for _, y in some], marker, color=color, label=name, linestyle="none")
        line = [plain[1], plain[1] + (widest - plain[0]) / rate]
        told = f"traffic at the rate of a copy, {rate:.1f} GB/s"
        axes.plot([plain[0], widest], line, "-", color=PALETTE[6], label=told)
        axes.set(xlabel="bytes read and written in a step (MB)", ylabel="time of a step (ms)", ylim=(0, None))
        axes.set_xlim(0, None)
        figure.legend(loc="outside lower center", ncols=2, columnspacing=1.0, handletextpad=0.4)

    return svg("step cost", 4.4, draw)

"""Tables of the estimators beside other methods: what they predict, and what they select."""

from typing import Any

from book.editions.templates import markdown

Rows = list[dict[str, Any]]


def estimators(rows: Rows) -> str:
    """The default by table: error, by how many nats it is ahead of each rival, coverage, selection and time."""
    own = {row["set"]: row for row in rows if row["method"] == "spike_slab" and "note" not in row}
    rivals = {(row["set"], row["method"]): row for row in rows if "nll_behind" in row}
    names = list(dict.fromkeys(method for _, method in rivals))
    lines = []
    for name, row in own.items():
        ahead = [_mean(rivals[name, one], "nll_behind", 2) if (name, one) in rivals else "–" for one in names]
        size = f"{name.replace('_', ' ')} ({row['rows']:,} × {row['inputs']:,})"
        cells = [_mean(row, "error", 1 if row["error"] >= 10 else 2), *ahead]
        thirds = [row[f"coverage_{number}"] for number in (1, 2, 3) if f"coverage_{number}" in row]
        cells += [f"{min(thirds):.0f} to {max(thirds):.0f} %" if thirds else "–", f"{row['selected']:.1f}"]
        lines.append([size, *cells, f"{row['cpu_s']:.1f}", str(row["splits"])])
    ahead = [f"nats ahead of the {one}" if one == "lasso" else f"of {one}" for one in names]
    return markdown(["table (rows × inputs)", "error", *ahead, "coverage", "selected", "seconds", "splits"], lines)


def selections(rows: Rows) -> str:
    """What each method selects: of noise, beside a copy, among correlated inputs; and how far a seed moves it."""
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        some = [row for row in rows if row["method"] == method]
        by = {row["set"]: row for row in some}
        noise = [_mean(by[name], "selected", 1) if name in by else "–" for name in ("null_200", "null_labels_200")]
        known = [
            f"{by[name]['power']:.0f} %, {by[name]['false']:.0f} %" if name in by else "–"
            for name in ("copied_200", "correlated_150", "linear_100_200")
        ]
        moved = [row["moved"] for row in some if "moved" in row]
        lines.append([method.replace("_", " "), *noise, *known, f"{max(moved):.2f}" if moved else "–"])
    known = ["beside a copy", "neighbors correlated by 0.9", "5 of 200 inputs, 100 rows"]
    return markdown(["method", "of 50, numbers are noise", "labels are noise", *known, "moved by a seed"], lines)


def _mean(row: dict[str, Any], key: str, digits: int) -> str:
    if key not in row:
        return "–"
    error = f" ± {row[f'{key}_se']:.{digits}f}" if f"{key}_se" in row else ""
    return f"{row[key]:z.{digits}f}{error}".replace("-", "−")

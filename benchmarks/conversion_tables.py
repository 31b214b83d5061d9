"""Tables of what becomes of networks of other libraries: counts, reasons, and all networks."""

import re
from collections import Counter
from typing import Any

from book.editions.templates import markdown

COLUMNS = ("converted", "trained", "predicted", "exported", "compressed")
PACKAGES = {"own": "ours", "torch": "torch.nn", "torchvision": "torchvision", "timm": "timm",
            "transformers": "Transformers"}  # fmt: skip
Rows = list[dict[str, Any]]


def counts(rows: Rows) -> str:
    """How many networks of each package say yes, and how many say it in part."""
    lines = []
    for key, name in [*PACKAGES.items(), ("", "all")]:
        own = [row for row in rows if key in ("", row["package"])]
        if own:
            lines.append([name, str(len(own)), *(_counted(own, column) for column in COLUMNS)])
    return markdown(["", "networks", *COLUMNS], lines)


def _counted(rows: Rows, column: str) -> str:
    found = Counter(row[column] for row in rows)
    partly = f" + {found['partly']} partly" if found["partly"] else ""
    return f"{found['yes']}{partly}" if found["yes"] or partly else "–"


def reasons(rows: Rows) -> str:
    """Why not: for each column the groups of reasons, with how many networks and the first three of them."""
    lines = []
    for column in COLUMNS:
        groups: dict[str, list[str]] = {}
        for row in rows:
            if row[column] in ("no", "partly"):
                groups.setdefault(row[f"{column}_reason"], []).append(row["network"])
        for reason, names in sorted(groups.items(), key=lambda group: -len(group[1])):
            shown = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
            lines.append([column, reason.replace("|", "/"), str(len(names)), shown])
    return markdown(["", "reason", "networks", "such as"], lines)


def networks(rows: Rows) -> str:
    """A line for each network: its size, the share with a posterior, what was said, and what compression leaves."""
    lines = []
    for row in rows:
        share = f"{row['share']:.1f} %" if "share" in row else "–"
        left = f"{row['left']:.0f} % left" if row["compressed"] == "yes" else row["compressed"]
        if row.get("stay"):
            left += f", {row['stay']:.0f} % of units stay"
        between = ", ".join(f"{one}: {row[one]}" for one in COLUMNS[1:4] if row[one] != "yes") or "yes"
        said = [share if row["converted"] == "yes" else row["converted"], between, left]
        name = re.sub(r"(?<=_)|(?<=[a-z])(?=[A-Z])", "<wbr>", row["network"])  # long names may be broken
        size = f"{row['parameters']:,}" if "parameters" in row else "–"
        lines.append([f"{PACKAGES[row['package']]}: {name}", size, *said])
    return markdown(["network", "parameters", COLUMNS[0], ", ".join(COLUMNS[1:4]), COLUMNS[4]], lines)

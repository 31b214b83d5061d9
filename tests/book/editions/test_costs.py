"""The page on what a step costs says what the benchmarks have stored."""

import re
from pathlib import Path

from book.editions import costs

ROOT = Path(__file__).resolve().parents[3]
ABOUT = {
    "device": "cpu (some)",
    "threads": 1,
    "torch": "2.13",
    "date": "2026-01-01",
    "command": "python -m benchmarks.x",
}


def row(library="bnnlib", layer="gaussian", batch=128, **more):
    return {"library": library, "layer": layer, "batch": batch, "ratio": 2.0, "ms": 10.0, "base_ms": 5.0} | more


def found():
    times = [
        row(quartiles=[1.9, 2.25]),
        row(batch=1024, ratio=1.2),
        row("torchbnn", ratio=2.5),
        row(layer="sghmc", ratio=1.4, ms=7.0),
    ]
    moved = [
        row("torch", "none", bytes=25e6),
        row(bytes=100e6),
        row("torchbnn", bytes=165e6),
        row(layer="sghmc", bytes=42e6),
    ]
    draws = [
        {"library": "bnnlib", "layer": "gaussian", "way": way, "network": "13-50-1", "batch": 1, "seconds": seconds}
        for way, seconds in (("calls", 0.05), ("at once", 0.0071))
    ]
    return {
        "step_time_cpu": {"about": ABOUT, "rows": times},
        "step_traffic": {"about": ABOUT, "bandwidth": 5e9, "rows": moved},
        "step_prediction": {"about": ABOUT, "rows": draws},
    }


def test_tables_hold_the_stored_numbers():
    text = costs.fill("before\n\n% table: step_time_cpu\n\n% table: prediction\n\n% table: step_time_h100\n", found())
    assert "| Gaussian | 2.00 (1.90 to 2.25) | 1.20 | torchbnn 2.50 | 100 |" in text
    assert "| SGHMC | 1.40 | – | – | 42 |" in text and "horseshoe" not in text
    assert "| Draws | 13-50-1, 1 row |" in text and "| bnnlib, gaussian, at once | 7 |" in text
    assert "*cpu (some), 1 thread, torch 2.13, 2026-01-01: `python -m benchmarks.x`.*" in text
    assert "no result for step time h100" in text and "% table" not in text


def test_the_picture_is_the_same_text_for_the_same_numbers():
    first, again = costs.picture(found()), costs.picture(found())
    assert first == again and first.lstrip().startswith("<?xml") and "<svg" in first
    other = found()
    other["step_time_cpu"]["rows"][0]["ms"] = 11.0
    assert costs.picture(other) != first


def test_everything_that_the_page_asks_for_is_stored():
    template = (ROOT / "book" / "step_cost.md").read_text(encoding="utf-8")
    assert len(costs.TABLE.findall(template)) == 3
    text = costs.fill(template, costs.stored(ROOT))
    assert "Not measured" not in text
    rows = re.findall(r"^\| .* \|$", text, re.MULTILINE)
    assert len(rows) > 25 and "nan" not in text

"""An explorer as HTML for the page: native range inputs and radio buttons, no ids, no outside requests.

There are no ids because several explorers, or one explorer shown twice, may stand on the same page: labels wrap
their input and the script walks each explorer's own element. Print and pages without scripts show the default picture
by style alone.
"""

import html
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any
from urllib.parse import quote

from book.display.control import Control
from book.display.data import UNIT, dashes, shape
from book.display.draw import names
from book.display.frames import Frame
from book.display.picture import DARK, LIGHT, Band, Bars, Item, Panel, Picture, Points

# What may stand in a data address within double quotes as it is.
SAFE = " !$'()*,/:;=?@[]"
HERE = Path(__file__).resolve().parent


def fragment(explorer: Any, still: Frame, pictures: Sequence[Picture], data: dict) -> str:
    """The fragment that draws one of `pictures` at each point of the grid.

    Args:
        explorer: whose grid it is.
        still: the default's picture, for print.
        pictures: one for each point.
        data: the same in numbers, from `book.display.data.encode`.
    """
    # As wide as the longest number beside an axis at any stop: otherwise the panels would jump.
    room = max(len(text) for p in pictures for panel in p.panels for text in ["", *panel.ticks("y").values()])
    data = data | {"unit": UNIT, "room": room}
    default = pictures[explorer.grid.index(explorer.defaults)]
    longest = max(data["headings"], key=lambda text: sum(math.ceil(len(line) / 40) for line in text.split("\n")))
    heading = f'<p class="bnn-heading" data-room="{_escaped(longest)}"><span>{_escaped(default.heading)}</span></p>'
    drawn = "".join(map(_panel, default.panels, ascii_lowercase if len(default.panels) > 1 else [""]))
    alt = _escaped(explorer.describe(explorer.defaults))
    card = (
        f'<div class="bnn-first" role="img" aria-label="{alt}">{heading if longest else ""}'
        f'<div class="bnn-panels">{drawn}</div></div>'
        # Percent signs, unlike base64, leave the text to gzip.
        f'<img class="bnn-print" src="data:{still.mime},{quote(still.data, safe=SAFE)}" alt="{alt}" '
        f'width="{still.width}" height="{still.height}" decoding="sync">'
    )
    data |= {
        "alts": [explorer.describe(settings) for settings in explorer.grid],
        "texts": [[control.text(v) for v in control.values] for control in explorer.controls.values()],
    }
    # "</script>" inside an alternative text must not end the block.
    payload = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    shown = ", ".join(f"{c.label} {c.text(c.default)}" for c in explorer.controls.values())
    title, single = _escaped(explorer.title), " bnn-single" if len(default.panels) == 1 else ""
    return "".join(
        [
            f'<div class="bnn-explorer bnn-data{single}" role="group" aria-label="{title}">'
            f'<style>{_style()}</style><p class="bnn-title">{title}</p><div class="bnn-controls" hidden>',
            *(_control(control) for control in explorer.controls.values()),
            f'</div><div class="bnn-card">{card}</div><p class="bnn-said" role="status"></p>',
            f"<noscript><p>The controls need JavaScript; the picture shows {html.escape(shown)}.</p></noscript>",
            f'<script type="application/json">{payload}</script><script>{_script()}</script></div>',
        ]
    )


def _style() -> str:
    text = re.sub(r"/\*.*?\*/", "", (HERE / "explorer.css").read_text(encoding="utf-8"))
    for word, colors in (("LIGHT", LIGHT), ("DARK", DARK)):
        text = text.replace(word, ";".join(f"--bnn-{look}:{color}" for look, color in colors.items()))
    return text.replace("\n", " ")


def _script() -> str:
    parts = [(HERE / f"{name}.js").read_text(encoding="utf-8") for name in ("curves", "controls")]
    return (
        '(() => { for (const root of document.querySelectorAll(".bnn-data:not([data-ready])")) {\n'
        "const find = (selector) => root.querySelector(selector);\n"
        "const data = JSON.parse(find(\"script[type='application/json']\").textContent);\n"
        f"{''.join(parts)}}} }})();"
    )


def _escaped(text: str) -> str:
    # An attribute's line break would be read as a space.
    return html.escape(text, quote=True).replace("\n", "&#10;")


def _panel(panel: Panel, letter: str) -> str:
    letter = letter and f"<b>{letter}</b>&ensp;"
    legend = "".join(f"<span>{_swatch(item)}{_escaped(item.name)}</span>" for item in names(panel))
    words = {"xlabel": panel.xlabel, "ylabel": panel.ylabel}
    labels = "".join(f' data-{name}="{_escaped(text)}"' for name, text in words.items() if text)
    bare = "" if panel.axes else " data-bare"
    return (
        f'<div class="bnn-panel"><p>{letter}{_escaped(panel.title)}</p><svg class="bnn-plot"{labels}{bare}></svg>'
        f'<div class="bnn-legend">{legend}</div></div>'
    )


def _swatch(item: Item) -> str:
    fill = 'fill="none"' if getattr(item, "hollow", False) else 'fill="currentColor"'
    edge = 'stroke="currentColor"' if getattr(item, "hollow", False) else ""
    if isinstance(item, Points):
        drawn = f'<path d="M15 6{shape(item.shape, min(item.size, 10))}" {fill} {edge}/>'
    elif isinstance(item, Bars | Band):
        faint = f'opacity="{item.alpha}"' if isinstance(item, Band) else ""
        drawn = f'<path d="M5 1h20v10h-20z" {fill} {edge} {faint}/>'
    else:
        line = f'stroke-width="{item.width}" stroke-dasharray="{dashes(item.style, item.width)}"'
        drawn = f'<path d="M0 6h30" fill="none" stroke="currentColor" {line}/>'
    return f'<svg width="30" height="12" style="color:var(--bnn-{item.look})" aria-hidden="true">{drawn}</svg>'


def _control(control: Control) -> str:
    at = control.values.index(control.default)
    texts = [_escaped(control.text(value)) for value in control.values]
    label, default = html.escape(control.label), f'<span class="bnn-default">{texts[at]}</span>'
    if control.choice:
        buttons = "".join(
            f'<label><input type="radio" autocomplete="off"{" checked" if i == at else ""}>'
            f'<span data-room="{text}">{text}</span></label>'
            for i, text in enumerate(texts)
        )
        return (
            f'<div class="bnn-control" role="radiogroup" aria-label="{_escaped(control.label)}"><span>{label}</span>'
            f'<div class="bnn-tabs">{buttons}</div>{default}</div>'
        )
    # Room for the longest value: otherwise the slider would grow and shrink under the reader's finger.
    return (
        f'<div class="bnn-control"><label><span>{label}</span>'
        f'<input type="range" min="0" max="{len(texts) - 1}" step="1" value="{at}" '
        f'aria-valuetext="{texts[at]}" autocomplete="off"></label>'
        # The slider announces its value itself: a live region would say everything twice.
        f'<output class="bnn-value" aria-live="off" data-room="{"&#10;".join(texts)}">{texts[at]}</output>'
        f"{default}</div>"
    )

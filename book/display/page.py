"""The static life of an explorer as HTML: native range inputs, no ids, no outside requests.

There are no ids because several explorers, or one explorer shown twice, may stand on the same page: labels wrap
their input and the script walks each explorer's own element. Print shows the default frame by style alone.

One frame is shown at a time, whole: layers that the browser scales one by one leave seams where they meet. What
frames have in common is shared in the stored text instead, an element of their SVG at a time.
"""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from book.display.explorer import Explorer
    from book.display.frames import Frame

# What may stand in a data address within double quotes as it is.
SAFE = " !$'()*,/:;=?@[]"

STYLE = """
.bnn-explorer{max-width:100%;margin:0 auto;color:inherit;font-size:1rem;line-height:1.4;text-align:left}
.bnn-explorer .bnn-title{font-weight:600;margin:0 0 .5rem}
.bnn-explorer .bnn-controls{display:grid;align-items:center;gap:.25rem .9rem;margin:0 0 .75rem;
grid-template-columns:fit-content(45%) minmax(9rem,1fr) minmax(3.5em,max-content)}
.bnn-explorer .bnn-controls[hidden]{display:none}
.bnn-explorer .bnn-control,.bnn-explorer label{display:contents}
.bnn-explorer input{box-sizing:border-box;width:100%;min-width:0;height:2rem;margin:0;cursor:pointer;
accent-color:#0072b2;touch-action:pan-y}
.bnn-explorer input:focus-visible{outline:3px solid #0072b2;outline-offset:-3px;border-radius:.25rem}
.bnn-explorer .bnn-value{font-variant-numeric:tabular-nums;font-weight:600}
.bnn-explorer .bnn-value::after{content:attr(data-room);display:block;height:0;overflow:hidden;visibility:hidden;
white-space:pre}
.bnn-explorer .bnn-default{display:none}
.bnn-explorer .bnn-card{display:block;box-sizing:border-box;background:#fff;
border-radius:.75rem;padding:.5rem;overflow:hidden}
.bnn-explorer .bnn-card img{display:block;max-width:100%;height:auto;margin:0;padding:0;border-radius:0}
.bnn-explorer .bnn-card .bnn-print{display:none}
.bnn-explorer .bnn-said{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);
white-space:nowrap;margin:0}
html[data-theme=dark] .bd-content div.cell_output .text_html:has(> .bnn-explorer .bnn-card){background:transparent;
color:inherit;padding:0}
html[data-theme=dark] .bd-content div.cell_output .bnn-explorer .bnn-card img{
padding:0;background:transparent;border-radius:0;filter:none}
html[data-theme=dark] .bnn-explorer input,[data-jp-theme-light=false] .bnn-explorer input{
accent-color:#6cb9ef;color-scheme:dark}
html[data-theme=dark] .bnn-explorer input:focus-visible,[data-jp-theme-light=false] .bnn-explorer input:focus-visible{
outline-color:#6cb9ef}
@media (pointer:coarse){.bnn-explorer input{height:2.75rem}}
@media (max-width:576px){
.bnn-explorer .bnn-controls{grid-template-columns:minmax(0,1fr) max-content;row-gap:0}
.bnn-explorer input{grid-column:1/-1;grid-row:auto}
.bnn-explorer .bnn-control{display:grid;grid-template-columns:subgrid;grid-column:1/-1;margin-bottom:.25rem}
.bnn-explorer .bnn-control label span{grid-row:1}
.bnn-explorer .bnn-value{grid-row:1;grid-column:2;text-align:right}
}
@media print{
.bnn-explorer{break-inside:avoid}
.bnn-explorer .bnn-controls,.bnn-explorer .bnn-controls[hidden]{display:grid;grid-template-columns:max-content 1fr}
.bnn-explorer input,.bnn-explorer .bnn-value,.bnn-explorer .bnn-said,.bnn-explorer noscript{display:none}
.bnn-explorer .bnn-default{display:inline;font-weight:600}
.bnn-explorer .bnn-card .bnn-print{display:block}
.bnn-explorer[data-ready] .bnn-card .bnn-first{display:none}
}
"""

SCRIPT = """
for (const root of document.querySelectorAll(".bnn-explorer:not([data-ready])")) {
  const find = (selector) => root.querySelector(selector);
  const data = JSON.parse(find("script[type='application/json']").textContent);
  const inputs = [...root.querySelectorAll("input")];
  const outputs = [...root.querySelectorAll("output")];
  const [first, said] = [".bnn-first", ".bnn-said"].map(find);
  const still = first.cloneNode();
  still.className = "bnn-print";
  first.after(still);
  const picture = (number) => {
    const svg = data.frames[number].map((piece) => data.pieces[piece]).join("");
    return "data:image/svg+xml," + encodeURIComponent(svg);
  };
  let speak = 0;
  const show = (moved) => {
    let point = 0;
    inputs.forEach((input, i) => {
      const text = data.texts[i][input.value];
      outputs[i].value = text;
      input.setAttribute("aria-valuetext", text);
      point = point * data.texts[i].length + Number(input.value);
    });
    const number = data.index[point];
    first.alt = data.alts[point];
    if (root.dataset.frame !== String(number)) first.src = number ? picture(number) : still.src;
    root.dataset.frame = number;
    clearTimeout(speak);
    if (moved) speak = setTimeout(() => { said.textContent = data.alts[point]; }, 600);
  };
  for (const input of inputs) {
    input.value = input.getAttribute("value");
    input.addEventListener("input", () => show(true));
  }
  find(".bnn-controls").hidden = false;
  root.dataset.ready = "";
  show(false);
}
"""


def render(explorer: Explorer, frames: list[Frame], index: list[int]) -> str:
    """The fragment; `frames` and `index` are `explorer.frames`."""
    point = explorer.grid.index(explorer.defaults)
    pieces: dict[str, int] = {}
    # Frame 0 is the default's picture and already in the page.
    split = [[], *(re.split("(?<=>)(?=<)", frame.data.decode()) for frame in frames[1:])]
    data = {
        "index": index,
        "frames": [[pieces.setdefault(piece, len(pieces)) for piece in parts] for parts in split],
        "pieces": list(pieces),
        "alts": [explorer.describe(settings) for settings in explorer.grid],
        "texts": [[control.text(v) for v in control.static_values] for control in explorer.controls.values()],
    }
    # "</script>" inside an alternative text must not end the block.
    payload = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    title = html.escape(explorer.title, quote=True)
    first = frames[0]
    # Percent signs, unlike base64, leave the text to gzip.
    src = f"data:{first.mime},{quote(first.data, safe=SAFE)}"
    return "".join(
        [
            f'<div class="bnn-explorer" role="group" aria-label="{title}" style="width:{first.width + 16}px">'
            f"<style>{STYLE}</style>"
            f'<p class="bnn-title">{title}</p><div class="bnn-controls" hidden>',
            *(_control(control) for control in explorer.controls.values()),
            '</div><div class="bnn-card">',
            f'<img class="bnn-first" src="{src}" alt="{html.escape(data["alts"][point], quote=True)}" '
            f'width="{first.width}" height="{first.height}" decoding="sync"></div>',
            '<p class="bnn-said" role="status"></p>',
            f"<noscript><p>{_without_script(explorer)}</p></noscript>",
            f'<script type="application/json">{payload}</script><script>(() => {{{SCRIPT}}})();</script></div>',
        ]
    )


def _control(control) -> str:
    at = control.static_values.index(control.default)
    text = html.escape(control.text(control.default), quote=True)
    # Room for the longest value: otherwise the slider would grow and shrink under the reader's finger.
    room = "&#10;".join(html.escape(control.text(value), quote=True) for value in control.static_values)
    return (
        f'<div class="bnn-control"><label><span>{html.escape(control.label)}</span>'
        f'<input type="range" min="0" max="{len(control.static_values) - 1}" step="1" value="{at}" '
        f'aria-valuetext="{text}" autocomplete="off"></label>'
        # The slider announces its value itself: a live region would say everything twice.
        f'<output class="bnn-value" aria-live="off" data-room="{room}">{text}</output>'
        f'<span class="bnn-default">{text}</span></div>'
    )


def _without_script(explorer: Explorer) -> str:
    values = ", ".join(f"{c.label} {c.text(c.default)}" for c in explorer.controls.values())
    return html.escape(f"The sliders need JavaScript; the picture shows {values}.")

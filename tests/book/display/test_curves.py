"""Explorers that send data: what the page gets is what `compute` says, to a 4,000th of an axis."""

import json
import re

import numpy as np
import pytest

from book.display import Band, Bars, Control, Line, Panel, Picture, Points, Rule, Text, curves, data, draw, span
from book.display.explorer import Explorer
from chapters.spike_slab.figures.networks import network
from tests.refused import refusals

X = np.linspace(0.1, 5, 23)


def compute(k: int, scale: str) -> Picture:
    """Everything that a panel can hold, on linear and on logarithmic axes."""
    y = np.where(np.abs(X - 3) < 0.2, np.nan, np.sin(X + k))
    first = [
        Band(X, -0.5, np.cos(X * k), "band", 2),
        Line(X, y, "curve", 0),
        Line([], [], "gone", 1),
        Points([1, 2], [0.1 * k, -0.2], "mark", 3, hollow=True),
        Rule(x=1 + k / 10),
        Rule(),
        Text(2.0, 0.5, "here <b>", "middle"),
    ]
    second = [
        Bars([1, 2, 3], [10.0, 100 + k, 1e4], "bars", 4),
        Line([1, 4], [2, 3e3], "line", "ink", dash=2),
        Rule(y=30 if scale == "small" else 300),
    ]
    graph = network("graph", [3, 2, 1], {"kept": [(0, 0, 0)] * (k > 3) + [(1, 0, 0)]})
    return Picture(
        [
            Panel("linear", first, "x", "y", (0, 5), (-1, 1)),
            Panel("log", second, "n", "count", (0, 5), (1, 1e5), ylog=True, xticks={1: "one", 3: "three"}),
            graph,
        ],
        f"k is {k}",
    )


CONTROLS = {"k": Control("Number k", range(12), 4), "scale": Control("Scale", ("small", "large"), "small", choice=True)}


def make(function=compute, controls=CONTROLS, **kwargs) -> Explorer:
    alt = kwargs.pop("alt", lambda k, scale: f"k {k}, {scale}")
    return curves(function, controls, title="All items", alt=alt, **{"static": True} | kwargs)


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return make()


def payload(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def sent(found: dict, stop: int) -> tuple[str, list[list[tuple]]]:
    """(heading, [[(style, arrays in axis units, further data) of each item] of each panel]), as the page reads them."""

    def shared(pool: str, one):
        return found[pool][one] if isinstance(one, int) else one

    heading, *panels = found["stops"][stop]
    read = []
    for panel in panels:
        items = [shared("items", item) for item in shared("panels", panel)[2]]
        read.append(
            [
                (found["styles"][style], [np.cumsum(np.cumsum(shared("arrays", one))) for one in arrays], more)
                for style, arrays, *more in items
            ]
        )
    return found["headings"][heading], read


def test_every_stop_holds_what_compute_says(explorer):
    found = payload(explorer.to_html())
    assert len(found["stops"]) == len(found["alts"]) == 24
    for number, settings in enumerate(explorer.grid):
        picture = compute(**settings)
        heading, panels = sent(found, number)
        assert heading == picture.heading and found["alts"][number] == f"k {settings['k']}, {settings['scale']}"
        for panel, items in zip(picture.panels, panels, strict=True):
            assert [style["kind"] for style, _, _ in items] == [type(one).__name__.lower() for one in panel.items]
            for one, (_, arrays, _) in zip(panel.items, items, strict=True):
                if not isinstance(one, Line | Points):
                    continue
                known = np.isfinite(one.y)
                low, high = (np.log(panel.ylim) if panel.ylog else np.array(panel.ylim)).tolist()
                y = np.log(one.y) if panel.ylog else one.y
                where = data.UNIT * (y[known] - low) / (high - low)
                assert np.abs(arrays[1] - where).max(initial=0) <= 0.5
                across = data.UNIT * (one.x[known] - panel.xlim[0]) / (panel.xlim[1] - panel.xlim[0])
                assert np.abs(arrays[0] - across).max(initial=0) <= 0.5
    (_, bars, _), *_, (_, rule, _) = sent(found, 1)[1][1]
    height = [np.log(v) / np.log(1e5) for v in (10.0, 100, 1e4)]
    assert bars[1] / data.UNIT == pytest.approx(height, abs=2e-4)
    assert bars[0] / data.UNIT == pytest.approx([0.12, 0.32, 0.52]) and bars[2].tolist() == [0, 0, 0]
    assert rule[0].size == 0 and rule[1] / data.UNIT == pytest.approx(np.log(300) / np.log(1e5), abs=2e-4)


def test_gaps_and_what_is_gone(explorer):
    items = sent(payload(explorer.to_html()), 0)[1][0]
    (_, (x, _), (runs,)), (_, (none, _), more) = items[1], items[2]
    assert runs == [13, 9] and sum(runs) == len(x) == 22 and none.size == 0 and more == []
    assert items[6][2] == ["here <b>"] and "here \\u003cb>" in explorer.to_html()


def test_the_figure_draws_the_same_names_ticks_and_points(explorer):
    figure = explorer.figure(k=4, scale="small")
    left, right, bare = figure.axes
    shown = next(one for one in left.get_lines() if one.get_label() == "curve")
    assert shown.get_ydata() == pytest.approx(compute(4, "small").panels[0].items[1].y, nan_ok=True)
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["band", "curve", "gone", "mark"]
    assert [text.get_text() for text in right.get_xticklabels()] == ["one", "three"]
    assert right.get_yscale() == "log" and not bare.axison
    assert [patch.get_height() + patch.get_y() for patch in right.patches] == pytest.approx([10, 104, 1e4])
    assert figure._suptitle.get_text() == "k is 4"
    sizes = {tuple(explorer.figure(k=k, scale="large").get_size_inches()) for k in (0, 11)}
    assert len(sizes) == 1


@pytest.mark.slow
def test_the_page_and_the_notebook_offer_the_choice_as_buttons(explorer):
    page = explorer.to_html()
    assert page.count('type="radio"') == 2 and page.count('type="range"') == page.count("<output") == 1
    assert page.count(" checked") == 1 and 'role="radiogroup" aria-label="Scale"' in page
    outside = re.sub(r'(?<=src="data:image/svg\+xml,)[^"]*|(?<=json">).*?(?=</script>)', "", page)
    assert not re.search(r"\sid=|\sfor=|@import", outside)
    assert re.findall(r"https?://[^\"']*", outside) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    widget = make(static=False).widget
    slider, buttons = widget.children[1:-1]
    assert type(slider).__name__ == "SelectionSlider" and type(buttons).__name__ == "ToggleButtons"
    before = widget.children[-1].value
    buttons.value = "large"
    assert widget.children[-1].value != before and 'alt="k 4, large"' in widget.children[-1].value


def noise(k: int, scale: str) -> Picture:
    """More than a page may take."""
    return Picture([Panel("t", [Line(range(5_000), np.random.default_rng([k, ord(scale[0])]).random(5_000))])])


test_what_cannot_be_shown_and_a_badly_made_item_are_refused = refusals(
    [
        (lambda: make(lambda k, scale: None), "returned NoneType, a Picture is needed", TypeError),
        (lambda: make(lambda k, scale: compute(k, "small")), "knob 'Scale' never changes the picture"),
        (
            lambda: make(lambda k, scale: Picture([Panel(f"title {k}", [])])),
            r"titles, labels or names change at \{'k': 1, 'scale': 'small'\}",
        ),
        (lambda: make(controls=CONTROLS | {"k": Control("k", range(1001), 4)}), "needs 2002 stops"),
        (lambda: make(noise), r"takes \d+ kB after gzip at 24 stops"),
        (lambda: Line([1, 2], [1, 2, 3]), r"have lengths \{'x': 2, 'y': 3\}"),
        (lambda: Line([[1, 2]], [[1, 2]]), "give flat sequences"),
        (lambda: Points([1], [1], look=7), "look 7 is not known: use 0, 1, 2, 3, 4, 5, 6, ink, gray"),
        (lambda: Rule(x=1, y=2), "stands at one of them"),
        (lambda: Text(0, 0, "a", "left"), "use start, middle or end"),
        (lambda: Panel("p", [], ylim=(1, 1)), r"ylim=\(1, 1\); give two finite, rising"),
        (lambda: Panel("p", [], xlim=(0, 1), xlog=True), "give two finite, positive, rising"),
        (lambda: Panel("p", [1]), "int is not an item"),
        (lambda: network("n", [2, 1], {"a": [(0, 0, 1)]}), r"no connection \(0, 0, 1\) in layers of \[2, 1\] units"),
        (
            lambda: data.encode([Picture([Panel("p", [Text(0, 0, "a")], ylim=(1, 2), ylog=True)])]),
            "'a' stands at no place of the axes",
        ),
    ]
)


def test_limits_and_ticks():
    assert span([1, 3, np.nan], [2]) == pytest.approx((0.9, 3.1))
    assert span([0.0, 1, 100], log=True) == pytest.approx((100**-0.05, 100**1.05))
    assert span([2, 2]) == (1.5, 2.5)
    panel = Panel("p", [], xlim=(1e-6, 1e3), xlog=True, ylim=(-0.3, 0.3))
    assert list(panel.ticks("x").values()) == ["10⁻⁶", "10⁻⁴", "0.01", "1", "100"]
    assert list(panel.ticks("y").values()) == ["−0.2", "0", "0.2"]
    assert list(Panel("p", [], xlim=(0, 5e4)).ticks("x").values())[-1] == "50,000"
    assert draw.names(Panel("p", [Line([], [], "a"), Rule(name="b"), Line([], [], "a")]))[0].name == "a"

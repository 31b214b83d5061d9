"""A network of few units as a panel of an explorer."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from book.display import Line, Panel, Points, Text


def network(
    title: str, layers: Sequence[int], groups: Mapping[str, Iterable[tuple[int, int, int]]], labels: Sequence[str] = ()
) -> Panel:
    """A panel with a network of few units: its connections, the units they reach, and small circles for the others.

    Args:
        title: of the panel.
        layers: number of units in each layer, inputs first.
        groups: {name: connections} in the looks 0, 1, ...; a connection (layer, i, j) leads from unit i of that layer
            to unit j of the next one.
        labels: words under the layers.

    Raises:
        ValueError: for a connection between units that there are not.
    """

    def place(layer: int, unit: int) -> float:
        return 0.97 - 0.84 * (unit + 0.5) / layers[layer]

    size, lines, reached = float(np.clip(200 / max(layers), 4, 10)), [], set()
    for look, (name, edges) in enumerate(groups.items()):
        edges = sorted({(int(layer), int(i), int(j)) for layer, i, j in edges})
        for layer, i, j in edges:
            if not (0 <= layer < len(layers) - 1 and 0 <= i < layers[layer] and 0 <= j < layers[layer + 1]):
                raise ValueError(f"network {title!r}: no connection {(layer, i, j)} in layers of {list(layers)} units")
        x = np.ravel([(layer, layer + 1, np.nan) for layer, _, _ in edges])
        y = np.ravel([(place(layer, i), place(layer + 1, j), np.nan) for layer, i, j in edges])
        lines.append(Line(x, y, name, look, width=1.4, alpha=0.8))
        reached |= {end for layer, i, j in edges for end in ((layer, i), (layer + 1, j))}
    units = [(layer, unit) for layer, count in enumerate(layers) for unit in range(count)]
    ends, others = (
        np.reshape(
            [(layer, place(layer, unit)) for layer, unit in units if ((layer, unit) in reached) == wanted], (-1, 2)
        )
        for wanted in (True, False)
    )
    items = [
        *lines,
        Points(*others.T, look="gray", marker=0, size=0.8 * size, hollow=True),
        Points(*ends.T, look="ink", marker=0, size=size),
        *(Text(layer, 0.05, label, "middle") for layer, label in enumerate(labels)),
    ]
    return Panel(title, items, xlim=(-0.35, len(layers) - 0.65), ylim=(0, 1), axes=False)

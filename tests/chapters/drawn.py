"""What a drawn figure says and shows, and made-up rows of results for it."""

import numpy as np
from matplotlib.figure import Figure

from book.display.picture import Picture


def texts(figure: Figure) -> str:
    """All words but those of axes and legends."""
    inside = [text for panel in figure.axes for text in [*panel.texts, panel.title, panel._left_title]]
    above = [figure._suptitle] if figure._suptitle else []
    return " ".join(text.get_text() for text in [*inside, *above])


def line(figure: Figure, panel: int, label: str) -> np.ndarray:
    """The (x, y) points of a labeled curve."""
    return next(one for one in figure.axes[panel].get_lines() if one.get_label() == label).get_xydata()


def items(picture: Picture, panel: int, kind: type = object, name: str | None = None) -> list:
    """What stands in a panel of an explorer's picture: all of a kind and, if given, of a name."""
    found = (one for one in picture.panels[panel].items if isinstance(one, kind))
    return [one for one in found if name in (None, getattr(one, "name", None))]


def item(picture: Picture, panel: int, kind: type = object, name: str | None = None):
    """The first of them."""
    return items(picture, panel, kind, name)[0]


def row(setting: str, method: str, metric: str, mean: float | None, published: float | None = None, **more) -> dict:
    """As of `lab.compare`."""
    fixed = {"setting": setting, "method": method, "metric": metric, "mean": mean, "published": published}
    return fixed | {"se": 0.1, "sd": 0.1, "published_sd": None, "profile": "book"} | more


def rows_of(setting: str, method: str, metric: str, values: list[float], profile: str = "book") -> dict:
    """The same with the values of single replicates."""
    return row(setting, method, metric, float(np.mean(values)), values=values, profile=profile)

"""The code of README.md and of the page "From your data to an answer" runs, and prints what stands below it."""

import ast
import re

import numpy as np
import pytest
import torch
from PIL import Image

from book.editions import own_data

BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = ("README.md", "book/from_your_data.md", "book/first_steps.md")

pytestmark = pytest.mark.slow

RAN: dict[str, dict] = {}  # what blocks that stand alone have left; a document that repeats one takes it from here


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_run_in_their_order(name, root, capsys, monkeypatch, tmp_path):
    for extra in ("sklearn", "matplotlib"):
        pytest.importorskip(extra)
    monkeypatch.chdir(tmp_path)
    import matplotlib

    matplotlib.use("Agg")
    with matplotlib.rc_context(own_data.STYLE):
        run_blocks(name, root, capsys)
    if name == own_data.PAGE:
        stored = {path.name: path for path in (root / own_data.FOLDER).iterdir()}
        drawn = {path.name: path for path in tmp_path.glob("*.png")}
        assert stored.keys() == drawn.keys()
        assert all(f"{{figure}} from_your_data/{one}" in (root / name).read_text(encoding="utf-8") for one in stored)
        for one, path in drawn.items():  # another processor rounds in another way, and a line moves a little
            now, then = (np.asarray(Image.open(path).convert("L"), dtype=float) for path in (path, stored[one]))
            assert now.shape == then.shape and np.abs(now - then).mean() < 5, f"{one}: python -m book.editions.own_data"


def run_blocks(name, root, capsys):
    text = (root / name).read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert [kind for kind, _ in blocks].count("python") >= 3
    scope: dict = {"__name__": name}
    printed = ""
    for kind, body in blocks:
        if kind == "python":
            if name == "README.md":  # whose blocks stand alone
                scope = RAN.setdefault(body, {"__name__": name})
            if name == "README.md" or body not in RAN:
                execute(body, name, scope)
            else:
                scope |= RAN[body] | {"__name__": name}
            printed = capsys.readouterr().out
        else:
            assert printed == body
        if "tempered" in scope and "around" in scope:  # what the page says of them
            each = [float(scope["nll"](one, scope["digits"].test_y[150:])) for one in scope["compared"].values()]
            assert each[1] < each[0] < each[2]
        if name == "README.md" and "make_friedman1" in scope:
            five_of_two_hundred(scope["model"])
        if name == "README.md" and "right" in scope:  # a result worth having
            assert scope["right"] > 0.9
        if name == "README.md" and "percent_active" in scope:
            assert scope["percent_active"](scope["model"]) < 15
        if name == "README.md" and "small" in scope:
            sizes = [sum(p.numel() for p in scope[one].parameters()) for one in ("small", "network")]
            assert sizes[0] < sizes[1] / 2


ALONE: dict[str, tuple[dict, torch.Tensor]] = {}
"""What blocks that stand alone have made but for their last statement, and where the noise stood after it."""


def execute(body, name, scope):
    """Run a block. Where another document has shown all but its last statement, it takes what that has made."""
    lines, last = body.splitlines(keepends=True), ast.parse(body).body[-1].lineno - 1
    start = "".join(lines[:last])
    if start in ALONE:
        made, noise = ALONE[start]
        scope |= made | {"__name__": name}
        torch.set_rng_state(noise)
    else:
        alone = scope.keys() == {"__name__"} and "torch.manual_seed(" in start
        exec(compile(start, name, "exec"), scope)  # the documents' own code
        if alone:
            ALONE[start] = dict(scope), torch.get_rng_state()
    exec(compile("\n" * last + "".join(lines[last:]), name, "exec"), scope)


def five_of_two_hundred(model):
    """The noise is 1, of 1,000 rows known to 0.02; the spread of the posterior is in what is learned, too."""
    from sklearn.datasets import make_friedman1

    assert model.used_.tolist() == [0, 1, 2, 3, 4] and 0.95 < model.noise_scale_ < 1.25
    assert (model.inclusion_probability_[:5] > 0.95).all() and model.inclusion_probability_[5:].max() < 0.5
    x, y = make_friedman1(2000, 200, noise=1.0, random_state=1)
    mean, interval = model.predict(x, return_interval=True)
    # half of the noise more; the first network alone, with thirty weights for five inputs, errs by 1.4 times the noise
    assert np.square(mean - y).mean() < 1.0**2 + 0.6**2
    assert 0.93 < np.mean((interval[:, 0] <= y) & (y <= interval[:, 1])) < 0.99

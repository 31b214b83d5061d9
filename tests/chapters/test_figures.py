"""What all packages of figures promise: the names that the cells take, pictures without results, explorers that fit."""

import ast
import importlib
import inspect
import re

import numpy as np
import pytest

from book import studies
from book.display import vector
from book.editions.project import read_notebook, source_of
from book.editions.source import ROOT
from chapters.acceptance import figures as mh
from chapters.acceptance import numbers
from chapters.adaptive_optimizer import figures as avo
from chapters.batch_statistics.figures import method as sbn_method
from chapters.batch_statistics.figures import results as sbn
from chapters.closed_form.figures import method as sbnn_method
from chapters.closed_form.figures import pruned
from chapters.closed_form.figures import results as sbnn
from chapters.foundations import figures as fnd
from chapters.implicit_acceptance import figures as imh
from chapters.learned_priors import figures as aeb
from chapters.learned_priors.figures import results as aeb_results
from chapters.spike_slab.figures import results as svbnn
from chapters.unit_noise.figures import results as sbp
from tests.chapters.drawn import texts


@pytest.mark.parametrize("study", studies.all(ROOT / "chapters"), ids=lambda study: study.name)
def test_a_chapter_takes_every_name_of_its_figures_and_no_other(study):
    names = set()
    for node in ast.parse((study.folder / "figures" / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith(f"{study.package}.figures"):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef):  # a chapter that is begun has all pictures in the one file
            names.add(node.name)
    cells = read_notebook(ROOT / "chapters" / study.notebook)["cells"]
    taken = {name for cell in cells for name in re.findall(r"(?<![\w.])figures\.(\w+)", source_of(cell))}
    assert names == taken


PARTS = {key: [] for key in ("pruning", "orders", "mnist", "cifar10-mlp", "lenet", "vgg")}
SCALED = {"gate_bias_explorer", "time_explorer", "size_explorer"}  # axes follow the temperature, or the task
NOTHING = {  # a picture without results, and how often it says so
    "six seeds": (lambda: mh.six_seeds([], (numbers.WIDE, numbers.NARROW)), 2),
    "learning pays": (lambda: mh.learning_pays([], numbers.SETS, ("VI", "HMC")), 3),
    "six histograms": (lambda: mh.six_histograms("no such start"), 3),
    "parts of the optimizer": (lambda: avo.parts({f"example-{number}": [] for number in (1, 2, 3)}), 6),
    "traces": (lambda: avo.traces(dict.fromkeys(avo.results.EXAMPLES)), 3),
    "statistics": (lambda: sbn_method.statistics({}), 2),
    "entropies": (sbn.entropy_cdf, 3),
    "averages and draws": (sbn.parts, 6),
    "simulations": (lambda: sbnn.simulated({"influence": [], "importance": []}, {}, (0.9, 0.95)), 4),
    "selection": (lambda: sbnn.selection([]), 7),
    "pruned networks": (lambda: pruned.removed(PARTS, {}), 9),
    "pruned tables": (lambda: pruned.uci([]), 10),
    "inclusion": (lambda: fnd.inclusion({}), 8),
    "sparsity": (lambda: fnd.sparsity([]), 2),
    "the ring": (lambda: imh.toy_curves([]), 3),
    "image curves": (lambda: imh.image_curves({}), 4),
    "rejection": (lambda: imh.rejection_curves({"mnist": []}), 2),
    "regression": (lambda: aeb_results.regression([]), 2),
    "differences": (aeb_results.uci_differences, 2),
    "ResNet20": (lambda: aeb_results.resnet20([]), 2),
    "slab": (aeb.slab_traces, 5),
    "epochs": (lambda: svbnn.epochs({}, {"published": 5.0}), 2),
    "random labels": (sbp.random_labels, 2),
    "fixed mean": (sbp.fixed_mean, 1),
    "LeNets": (sbp.lenet, 4),
    "no rows of LeNets": (lambda: sbp.lenet([]), 4),
    "VGG": (sbp.vgg, 3),
    "curves of VGG": (lambda: sbp.vgg_curves({}, {}), 2),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_was_not_run_is_said(name, tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    draw, count = NOTHING[name]
    assert texts(draw()).count("not run") == count


def explorers():
    """The makers of all explorers that take no results of a chapter's own cells."""
    for study in studies.all(ROOT / "chapters"):
        for name, make in vars(importlib.import_module(f"{study.package}.figures")).items():
            if name.endswith("_explorer") and not inspect.signature(make).parameters:
                yield pytest.param(make, id=f"{study.name} {name}")


@pytest.mark.slow
@pytest.mark.parametrize("make", [*explorers()])
def test_an_explorer_fits_a_page_and_its_axes_stay_where_they_are(make, static):
    made = make()
    assert made.to_html() and made.gzip_bytes < 100_000  # it is refused where it is larger, or a knob changes nothing
    limits = {str([(panel.xlim, panel.ylim) for panel in picture.panels]) for picture in made.pictures}
    assert (len(limits) == 1) is (make.__name__ not in SCALED)


LAW = np.array([0.2, 0.8])
CURVES = {"one": np.array([0.5, 0.2, 0.1])}
ALONE = {  # pictures whose panels share an axis, and yet have a view of their own on a phone
    "lines": lambda: fnd.idea(*np.ones((4, 3))),
    "gradients": lambda: fnd.gradient_spread((1, 2, 4), {"mean": CURVES, "sd": CURVES}),
    "theorem": lambda: aeb.stochastic_approximation(CURVES, CURVES),
    "differences": aeb.uci_differences,
    "traces": avo.traces,
    "sweep": lambda: svbnn.lambda_sweep([], ["opt", "0.9"], {"1b": "one", "2": "two"}),
    "clouds": lambda: imh.clouds(dict.fromkeys(("data", "chain"), np.ones((2, 2)))),
    "bars": lambda: imh.state_bars({"p": LAW, "q": LAW}, {"chain": LAW}),
    "orders": lambda: sbnn_method.ranking(*np.array([[0.1, 0.2], [0.3, 0.1]])),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_phone_shows_each_panel_with_its_own_numbers_and_words(name):
    figure = ALONE[name]()
    figure.draw_without_rendering()
    assert len(vector.panels(figure)) >= len(figure.axes) > 1
    if name != "differences":  # whose sets have names
        assert all(panel.get_ylabel() for panel in figure.axes)
    assert all(panel.get_xlabel() for panel in figure.axes)

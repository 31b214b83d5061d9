"""What changes the code fingerprint and what does not."""

import functools
import importlib

import pytest

from book.lab.fingerprint import code_fingerprint, walk
from tests.book.lab.packs import Pack

_FILES = {
    "__init__.py": '"""A package."""\nfrom .layers import Layer\n',
    "layers.py": (
        '"""Layers."""\nimport torch\nfrom . import maths\n\nSCALE = 2.0\n\n\n'
        'class Layer(torch.nn.Module):\n    """A layer."""\n    def forward(self, x):\n'
        '        """Forward."""\n        return maths.square(x) * SCALE\n\n\nclass Unused:\n    value = 1\n'
    ),
    "maths.py": (
        "from pack.store import save\n\n\ndef square(x):\n    return x * x\n\n\ndef cube(x):\n    return x**3\n"
    ),
    "store.py": "def save(x):\n    return x\n",
    "table.py": (
        "TABLE = {}\n\n\ndef register(function):\n    TABLE[function.__name__] = function\n    return function\n\n\n"
        "@register\ndef doubled(x):\n    return 2 * x\n\n\ndef plain(x):\n    return x\n\n\ndef apply(name, x):\n"
        "    return TABLE[name](x)\n"
    ),
    "job.py": (
        '"""The experiment."""\nimport pack\nfrom pack import maths as mathematics\nfrom pack.table import apply\n\n'
        'EPOCHS = 3\nLIST = ["not reached"]\n\n\ndef _helper(x: int) -> int:\n    # why\n    return x + EPOCHS\n\n\n'
        'def run_cell(x):\n    """Run."""\n    from pack.layers import Layer\n\n'
        '    return apply("doubled", _helper(Layer()(x)))\n'
        "\n\ndef other(x):\n    return mathematics.cube(x)\n\n\ndef whole(x):\n    return getattr(pack.maths, x)\n"
    ),
}


@pytest.fixture
def pack(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    pack = Pack(tmp_path / "pack", _FILES)
    yield importlib.import_module("pack.job"), lambda name, old, new: pack.edit(old, new, name)
    pack.forget()


CANNOT = [
    ("job.py", '"""Run."""', '"""Run a cell of the experiment."""'),
    ("job.py", '"""The experiment."""', '"""Another text."""'),
    ("job.py", "# why", "# a better reason"),
    ("job.py", "(x: int) -> int", "(x: float) -> float"),
    ("job.py", "    return x + EPOCHS", "\n\n    return x +  EPOCHS"),
    ("job.py", '["not reached"]', "[]"),
    ("job.py", "mathematics.cube(x)", "mathematics.square(x)"),
    ("layers.py", "value = 1", "value = 2"),
    ("layers.py", '"""Forward."""', '"""Compute."""'),
    ("maths.py", "x**3", "x**4"),
    ("table.py", "def plain(x):\n    return x", "def plain(x):\n    return -x"),
    ("__init__.py", "from .layers import Layer\n", "from .layers import Layer, Unused\n"),
]
CAN = [
    ("job.py", "EPOCHS = 3", "EPOCHS = 4"),
    ("job.py", "x + EPOCHS", "x - EPOCHS"),
    ("job.py", "_helper(Layer()(x))", "Layer()(_helper(x))"),
    ("layers.py", "SCALE = 2.0", "SCALE = 2.5"),
    ("layers.py", "* SCALE", "/ SCALE"),
    ("maths.py", "x * x", "x * x * 1"),
    ("table.py", "2 * x", "3 * x"),  # reached only through the table that its decorator fills
]


@pytest.mark.parametrize(
    ("name", "edits", "changes"),
    [
        *(("run_cell", edits, False) for edits in CANNOT),
        *(("run_cell", edits, True) for edits in CAN),
        ("whole", ("maths.py", "x**3", "x**4"), True),  # a module used as a whole counts as a whole
    ],
)
def test_the_fingerprint_follows_edits_that_can_change_a_number(pack, name, edits, changes):
    module, edit = pack
    before = code_fingerprint(getattr(module, name))
    edit(*edits)
    assert (code_fingerprint(getattr(module, name)) != before) == changes


def test_a_name_that_a_package_passes_on_is_followed_to_its_source(pack):
    module, edit = pack
    edit("job.py", "from pack.layers import Layer", "from pack import Layer")
    before = code_fingerprint(module.run_cell)
    edit("layers.py", "SCALE = 2.0", "SCALE = 2.5")
    assert code_fingerprint(module.run_cell) != before


def test_functions_without_code_of_their_own_are_refused():
    for function in (lambda cell: cell, functools.partial(print), print):
        with pytest.raises(ValueError, match="top level"):
            code_fingerprint(function)


def test_the_machinery_does_not_count_and_the_method_does():
    from chapters.spike_slab.experiments.simulations import run_cell

    modules = {module for module, _ in walk(run_cell.__module__, run_cell.__name__).statements}
    assert not [one for one in modules if one.startswith("book")]
    assert any(one.startswith("bnnlib.functional.") for one in modules)
    assert any(one.startswith("bnnlib.replicates") for one in modules)

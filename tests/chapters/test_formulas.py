"""The examples in the docstrings of the studies run and print what stands below them."""

import doctest
import importlib
from pathlib import Path

import pytest
import torch

import chapters

ROOT = Path(chapters.__path__[0])
MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    torch.manual_seed(0)
    failed, tried = doctest.testmod(module, extraglobs={"torch": torch})
    assert not failed and tried

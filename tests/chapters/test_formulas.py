"""The examples of the studies' formulas run and print what stands below them."""

import doctest
import importlib
from pathlib import Path

import pytest
import torch

import chapters

STUDIES = sorted(path.parent.name for path in Path(chapters.__path__[0]).glob("*/formulas.py"))


@pytest.mark.parametrize("study", STUDIES)
def test_examples_of_formulas(study):
    module = importlib.import_module(f"chapters.{study}.formulas")
    torch.manual_seed(0)
    failed, tried = doctest.testmod(module, extraglobs={"torch": torch})
    assert not failed and tried

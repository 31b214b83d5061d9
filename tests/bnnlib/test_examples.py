"""The examples of the docstrings run and print what stands below them, and every public name has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest
import torch

import bnnlib

PACKAGES = sorted(one.name for one in pkgutil.iter_modules(bnnlib.__path__) if not one.name.startswith("_"))
EXTRAS = {
    "datasets": ("sklearn",),
    "estimators": ("sklearn",),
    "pruning.export_onnx": ("onnx", "onnxscript", "onnxruntime"),
}


def public(package: str) -> dict[str, object]:
    """What a package exports, by name; constants aside."""
    module = importlib.import_module(f"bnnlib.{package}")
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]
    found = {name: getattr(module, name) for name in names if not name.startswith("_")}
    return {name: one for name, one in found.items() if inspect.isclass(one) or inspect.isroutine(one)}


def named() -> list[str]:
    return [f"{package}.{name}" for package in PACKAGES for name in public(package)]


def test_every_public_name_has_an_example():
    assert [name for name in named() if ">>> " not in (inspect.getdoc(public_at(name)) or "")] == []


def public_at(name: str) -> object:
    package, _, own = name.partition(".")
    return public(package)[own]


@pytest.mark.slow
@pytest.mark.parametrize("name", named())
def test_example(name):
    package = name.partition(".")[0]
    for extra in (*EXTRAS.get(package, ()), *EXTRAS.get(name, ())):
        pytest.importorskip(extra)
    scope = {**public(package), "torch": torch}
    text = inspect.getdoc(public_at(name))
    example = doctest.DocTestParser().get_doctest(text, scope, name, None, 0)
    torch.manual_seed(0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(example, out=said.append)
    assert not said, "".join(said)

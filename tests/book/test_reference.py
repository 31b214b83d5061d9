"""The reference in the book: every public name has its entry, and every entry can be found."""

import importlib
import pkgutil
import sys
import zlib

import pytest

import bnnlib
from book.editions.project import REFERENCE, Project

PACKAGES = sorted(one.name for one in pkgutil.iter_modules(bnnlib.__path__) if not one.name.startswith("_"))


@pytest.fixture
def api(root, monkeypatch):
    """The Sphinx extension that writes the reference."""
    monkeypatch.syspath_prepend(root / "book" / "editions" / "_ext")
    yield importlib.import_module("api")
    sys.modules.pop("api", None)


def topics(api, root, name: str) -> dict[str, list[str]]:
    """Modules by topic, as the page of a package has them."""
    text = (root / REFERENCE / f"{name}.rst").read_text(encoding="utf-8")
    lines = text.split(f".. api:: bnnlib.{name}\n")[1].split("\n")
    return api.parsed([line.strip() for line in lines if line.strip()])


def test_every_package_has_a_page_that_the_contents_name(root):
    assert PACKAGES == sorted(path.stem for path in (root / REFERENCE).glob("*.rst") if path.stem != "index")
    assert {f"{REFERENCE}/{name}" for name in PACKAGES} < set(Project(root).listed)
    index = (root / REFERENCE / "index.rst").read_text(encoding="utf-8")
    assert all(f"   bnnlib.{name}\n" in index for name in PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_has_one_topic(api, root, name):
    package = importlib.import_module(f"bnnlib.{name}")
    found = [one for names in api.assigned(package, topics(api, root, name)).values() for one in names]
    assert sorted(found) == sorted(api.public_names(package))


def test_a_name_without_a_topic_is_refused(api):
    with pytest.raises(ValueError, match=r"bnnlib\.metrics: no topic of its page holds.* rmse"):
        api.assigned(importlib.import_module("bnnlib.metrics"), {"Classification": ["classification"]})


def test_a_docstring_becomes_markup(api):
    lines = [
        "KL of `mean`s with *all* |signs|, equation (svbnn-kl), (7) of the paper; see `welford_update_` or `f(x)`.",
        "",
        "    small = compress(model)",
        "",
        "Args:",
        "    *parts: a * b.",
        "",
        ">>> f('`a`') * 2",
    ]
    assert api.marked_up(lines) == [
        r"KL of :py:obj:`mean`\ s with \*all\* \|signs\|, equation :eq:`svbnn-kl`, (7) of the paper; see "
        ":py:obj:`welford_update_` or ``f(x)``.",
        "",
        ".. code-block:: python",
        "",
        "    small = compress(model)",
        "",
        "Args:",
        r"    \*parts: a \* b.",
        "",
        ">>> f('`a`') * 2",
    ]


def test_members_are_those_of_the_library_s_own_classes(api):
    from bnnlib.posteriors import Gaussian

    members = api.own_members(Gaussian)
    assert {"kl_divergence", "draw", "scale"} <= set(members)
    assert not {"forward", "train", "extra_repr"} & set(members)  # of PyTorch, or without a docstring


@pytest.mark.slow
def test_what_two_packages_export_has_its_source_in_one_place(api):
    """A second [source] would lead back to an entry that is not there."""
    asked = [(f"bnnlib.{package}", "DivergedError") for package in ("sampling", "train")]
    assert [api.source_once(None, *one) for one in asked] == [None, "bnnlib.train"]


@pytest.mark.slow
def test_other_projects_find_every_name(api, built_book):
    head, _, packed = (built_book / "objects.inv").read_bytes().partition(b"zlib.\n")
    assert b"# Project: bnnlib\n" in head
    entries = [line.split(" ") for line in zlib.decompress(packed).decode().splitlines()]
    listed = {entry[0]: entry[3] for entry in entries if entry[1].startswith("py:")}
    for package in PACKAGES:
        for name in api.public_names(importlib.import_module(f"bnnlib.{package}")):
            assert listed[f"bnnlib.{package}.{name}"] == f"{REFERENCE}/{package}.html#$"

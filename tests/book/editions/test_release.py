"""The checklist of a release: what it lets through, what it refuses, and what it says of either."""

import hashlib
import re
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from book.editions.project import Project
from book.editions.release import LOOKED_UP, RESULTS, STEPS, Release, Skipped, checklist, judged, packed

README = """Prints:

```python
import os
print(1 + 1, os.listdir("."))
```

```text
2 []
```
"""


@pytest.fixture
def release(tmp_path) -> Release:
    """A release of a tree that holds only what its steps read."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.0.0"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.0.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## [1.0.0] - 2026-12-01\n")
    (tmp_path / "bnnlib").mkdir()
    (tmp_path / "bnnlib" / "__init__.py").write_text('__version__ = "1.0.0"\n')
    (tmp_path / "bnnlib" / "README.md").write_text("pip install bnnlib-1.0.0-py3-none-any.whl\n")
    made = Release(tmp_path)
    made.folder.mkdir(parents=True)
    made.fresh = Path(sys.executable).parent
    return made


def test_it_goes_on_after_a_failure_says_what_was_skipped_and_is_not_signed(release, monkeypatch):
    def tried(told: str, error: type[Exception] | None = None):
        def step() -> str:
            "A step."
            if error:
                raise error(told)
            return told

        return step

    release.first, release.second, release.third = tried("bad", ValueError), tried("no net", Skipped), tried("good")
    said: list[str] = []
    assert checklist(release, ("first", "second", "third"), said.append) == 1
    text = (release.folder / "checklist.md").read_text()
    told = re.findall(r"^- \[(.)\] A step: (.*) \(", text, re.MULTILINE)
    assert told == [(" ", "FAILED: bad"), ("-", "skipped: no net"), ("x", "good")]
    assert "1 of 3 steps failed" in text and "Signed off" not in text
    assert checklist(release, ("second", "third"), said.append) == 0
    assert "Signed off by:" in (release.folder / "checklist.md").read_text()


def test_every_step_says_what_holds_when_it_passes():
    assert all(getattr(Release, name).__doc__ for name in STEPS)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("CITATION.cff", "version: 0.9\n"),
        ("CHANGELOG.md", "## [Unreleased]\n"),
        ("bnnlib/__init__.py", '__version__ = "0.9"\n'),
        ("bnnlib/README.md", "pip install bnnlib-0.9-py3-none-any.whl\n"),
    ],
)
def test_one_version_stands_everywhere(release, file, content):
    assert release.versions().startswith("1.0.0")
    (release.root / file).write_text(content)
    with pytest.raises(RuntimeError, match=file):
        release.versions()


def test_the_blocks_of_readme_print_what_stands_below_them_in_an_empty_folder(release):
    path = release.root / "README.md"
    path.write_text(README)
    assert release.readme() == "1 blocks"
    path.write_text(README.replace("2 []", "3 []"))
    with pytest.raises(RuntimeError, match="its code prints\n2"):
        release.readme()


def test_permissive_licenses_pass_and_others_and_what_is_not_installed_are_named():
    for one in ("MIT", "Apache-2.0 OR BSD-2-Clause", "BSD License; Python Software Foundation License"):
        assert judged({"one": one}, ["one"]).startswith("1 packages")
    for found in ({"one": "GPL-3.0"}, {"one": "MIT AND GPL-2.0-only"}, {"one": "UNKNOWN"}, {}):
        with pytest.raises(RuntimeError, match="one: "):
            judged(found, ["one"])


def test_what_was_looked_up_is_still_pinned(root):
    pins = re.findall(r"^([\w.-]+)==", (root / "requirements.txt").read_text(), re.MULTILINE)
    assert set(LOOKED_UP) <= set(map(canonicalize_name, pins))


@pytest.mark.slow
def test_results_are_packed_with_checksums_and_a_citation(root, release, monkeypatch):
    release.root = root
    release.results()
    with zipfile.ZipFile(release.folder / RESULTS) as held:
        home = "sparse-bayes-results"
        lines = [line.split("  ") for line in held.read(f"{home}/SHA256SUMS").decode().splitlines()]
        assert {f"{home}/{name}" for _, name in lines} | {f"{home}/SHA256SUMS"} == set(held.namelist())
        assert all(hashlib.sha256(held.read(f"{home}/{name}")).hexdigest() == sum_ for sum_, name in lines)
    assert "CITATION.cff" in {name for _, name in lines} and len(lines) > 60


def test_a_release_without_the_rendered_book_fails(release):
    with pytest.raises(RuntimeError, match="make book"):
        release.site()


def test_editions_are_skipped_without_a_browser_and_refused_without_pages(release, monkeypatch):
    monkeypatch.setenv("CHROMIUM", "/no/such/program")
    with pytest.raises(Skipped, match="/no/such/program"):
        release.editions()
    monkeypatch.setenv("CHROMIUM", sys.executable)
    with pytest.raises(RuntimeError, match="make book"):
        release.editions()


def test_editions_are_assets_with_checksums(release, monkeypatch):
    monkeypatch.setenv("CHROMIUM", sys.executable)
    monkeypatch.setattr(release, "pages", lambda: Project(release.root))
    monkeypatch.setattr(release, "call", lambda *command: (release.root / f"_build/book.{command[-1]}").write_text("x"))
    assert release.editions() == "sparse-bayes-book.pdf, 0.00 MB; sparse-bayes-book.epub, 0.00 MB"
    release.dist.mkdir()
    assert release.sums() == "2 files"


def test_an_audit_without_a_network_is_skipped_and_a_weakness_is_not(release, monkeypatch):
    told = '{"dependencies": [{"name": "a", "skip_reason": "not found"}]}'
    monkeypatch.setattr(release, "call", lambda *command: told)
    with pytest.raises(Skipped, match="no index of advisories"):
        release.audit()

    def fail(*command):
        raise RuntimeError("Found 1 known vulnerability in 1 package")

    monkeypatch.setattr(release, "call", fail)
    with pytest.raises(RuntimeError, match="1 known vulnerability"):
        release.audit()


def test_the_same_pages_make_the_same_archive(tmp_path):
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("A page.")
    (tmp_path / "html" / ".rendered-from").write_text("of this machine alone")
    first = packed(tmp_path / "html", tmp_path / "book.zip").read_bytes()
    (tmp_path / "html" / "index.html").touch()
    assert packed(tmp_path / "html", tmp_path / "book.zip").read_bytes() == first
    assert zipfile.ZipFile(tmp_path / "book.zip").namelist() == ["book/index.html"]

"""The checklist of a release: ``python -m book release`` (``make release`` calls it).

All that a release consists of is made in ``_build/release`` and tried; ``checklist.md`` there has sizes and times.
Nothing is published: that is for the workflow "release", or for a person who has read the list.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from book.editions.landing import NAME
from book.editions.learner import companion
from book.editions.project import BookError, Project, files_below, pack
from book.editions.render import rendered
from book.editions.typeset import browser

SITE = f"{NAME}.zip"  # what `make read` unpacks
RESULTS = "sparse-bayes-results.zip"
GIVEN = ("zip", "json", "pdf", "epub")  # suffixes of what is given away, beside the distributions
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Every part of a license must be of these; what is named below them was looked up by hand.
PERMISSIVE = re.compile(
    r"MIT\b|BSD|Apache|ISC\b|PSF|Python Software Foundation|MPL|Mozilla Public|Zlib|CC0|BSL-1\.0|Public Domain|HPND"
)
LOOKED_UP = {
    "axe-playwright-python": "MIT, as its repository says, around axe-core (MPL-2.0); its metadata name none",
    "docutils": "public domain and BSD; the GPL is of one file for Emacs, which the wheel does not hold",
}


class Skipped(Exception):
    """A step that cannot be done here; the message says why."""


class Release:
    """One release of the tree in the making; `torch_index` is where PyTorch comes from, else pip's own settings say."""

    def __init__(self, root: Path, torch_index: str | None = None) -> None:
        self.root, self.torch_index = root, torch_index
        self.folder = root / "_build" / "release"
        self.dist, self.log = self.folder / "dist", self.folder / "release.log"
        self.tools = self.folder / "tools" / "bin"
        self.fresh = self.folder / "fresh" / "bin"
        self.version = re.search(r'^version = "(.+)"', (root / "pyproject.toml").read_text(), re.MULTILINE)[1]

    def call(self, *command: str | Path, cwd: Path | None = None) -> str:
        """What a command prints; all of it goes into the log."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BNN"))}
        words, options = [str(part) for part in command], {"capture_output": True, "text": True, "check": False}
        done = subprocess.run(words, cwd=cwd or self.root, env=clean, **options)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(words)}\n{done.stdout}{done.stderr}\n")
        if done.returncode:
            raise RuntimeError((done.stderr or done.stdout).strip()[-1500:])
        return done.stdout

    def size(self, path: Path) -> str:
        return f"{path.name}, {path.stat().st_size / 1e6:.2f} MB"

    def clean_tree(self) -> str:
        """The commit that everything is made from; nothing beside it."""
        changes = self.call("git", "status", "--porcelain").strip()
        if changes:
            raise RuntimeError(f"the tree has changes that are not committed:\n{changes}")
        return f"version {self.version}, commit {self.call('git', 'rev-parse', 'HEAD').strip()[:12]}"

    def versions(self) -> str:
        """One version everywhere, and a section of the changelog that is its own."""
        places = {"CITATION.cff": r"^version: (\S+)$", "bnnlib/__init__.py": r'^__version__ = "(.+)"$'}
        places["bnnlib/README.md"] = r"bnnlib-([\d.]+)-py3"
        for name, pattern in places.items():
            for said in re.findall(pattern, (self.root / name).read_text(encoding="utf-8"), re.MULTILINE) or ["none"]:
                if said != self.version:
                    raise RuntimeError(f"pyproject.toml has version {self.version}, {name} {said}")
        heads = re.findall(r"^## (.+)$", (self.root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
        if not any(self.version in head for head in heads):
            raise RuntimeError(f"CHANGELOG.md has no section {self.version}; it begins with {heads[:2]}")
        return f"{self.version} in pyproject.toml, {', '.join(places)} and CHANGELOG.md"

    def environments(self) -> str:
        """An environment for the tools of a release."""
        venv.create(self.tools.parent, with_pip=True, clear=True)
        self.call(self.tools / "pip", "install", "-q", "-r", ".ci/release.txt")
        return f"tools of .ci/release.txt, Python {platform.python_version()}"

    def workflows(self) -> str:
        """GitHub's own schemas hold for the workflows and the issue forms."""
        folder = self.root / ".github"
        flows = sorted((folder / "workflows").glob("*.yml"))
        forms = [path for path in sorted((folder / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"]
        for schema, paths in (("workflows", flows), ("issue-forms", forms)):
            self.call(self.tools / "check-jsonschema", "--builtin-schema", f"vendor.github-{schema}", *paths)
        return f"{len(flows)} workflows, {len(forms)} issue forms"

    def build(self) -> str:
        """The sdist, which holds what git holds, and out of it the wheel."""
        shutil.rmtree(self.dist, ignore_errors=True)
        self.call(self.tools / "python", "-m", "build", "--outdir", self.dist, self.root)
        (wheel,), (sdist,) = self.dist.glob("*.whl"), self.dist.glob("*.tar.gz")
        with tarfile.open(sdist) as held:
            names = {name.partition("/")[2] for name in held.getnames()}
        lost = sorted(set(self.call("git", "ls-files").split("\n")) - names - {""})
        if lost:
            raise RuntimeError(f"the sdist lacks {len(lost)} files that git has, see MANIFEST.in: {lost[:5]}")
        return f"{self.size(wheel)}; {self.size(sdist)}"

    def install(self) -> str:
        """The wheel in a fresh environment, with the extra that README asks for."""
        (wheel,) = self.dist.glob("*.whl")
        venv.create(self.fresh.parent, with_pip=True, clear=True)
        pin = re.search(r"^torch==\S+$", (self.root / "requirements.txt").read_text(), re.MULTILINE)[0]
        pip, index = self.fresh / "pip", ["--index-url", self.torch_index] if self.torch_index else []
        self.call(pip, "install", "-q", *index, pin)
        self.call(pip, "install", "-q", f"{wheel}[estimators,data]")
        self.call(pip, "check")
        found = self.call(self.fresh / "python", "-I", "-c", "import bnnlib; print(bnnlib.__file__)", cwd=self.folder)
        if not Path(found.strip()).is_relative_to(self.fresh.parent):
            raise RuntimeError(f"bnnlib comes from {found.strip()}, not from the wheel")
        return f"{len(self.call(pip, 'list', '--format', 'freeze').split())} packages"

    def readme(self) -> str:
        """README's blocks as printed, from the installed wheel and outside the repository."""
        empty = self.folder / "empty"
        shutil.rmtree(empty, ignore_errors=True)
        empty.mkdir()
        ran, printed = 0, ""
        for kind, body in BLOCK.findall((self.root / "README.md").read_text(encoding="utf-8")):
            if kind == "python":
                printed = self.call(self.fresh / "python", "-I", "-c", body, cwd=empty)
                ran += 1
            elif printed != body:
                raise RuntimeError(f"README.md says\n{body}and its code prints\n{printed}")
        return f"{ran} blocks"

    def licenses(self) -> str:
        """The licenses of all that `make` installs are permissive, by their metadata."""
        pins = re.findall(r"^([\w.-]+)==", (self.root / "requirements.txt").read_text(), re.MULTILINE)
        options = ("--format", "json", "--from", "mixed", "--with-urls", "--with-system")
        found = json.loads(self.call(self.tools / "pip-licenses", "--python", sys.executable, *options))
        (self.folder / "licenses.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        licenses = {canonicalize_name(one["Name"]): one["License"] for one in found}
        return judged(licenses, [*map(canonicalize_name, pins)])

    def components(self) -> str:
        """Lists of components (CycloneDX): of the library with its extras, and of what builds the book."""
        counts = []
        for name, python in (("bnnlib", self.fresh / "python"), ("book", Path(sys.executable))):
            path = self.folder / f"{name}.cdx.json"
            self.call(self.tools / "cyclonedx-py", "environment", "--output-reproducible", "-o", path, python)
            counts.append(f"{path.name}: {len(json.loads(path.read_text())['components'])} components")
        return "; ".join(counts)

    def audit(self) -> str:
        """No known weakness in what is pinned."""
        command = [self.tools / "pip-audit", "-r", "requirements.txt", "--no-deps", "--disable-pip", "-f", "json"]
        try:
            found = json.loads(self.call(*command))["dependencies"]
        except (RuntimeError, ValueError) as error:
            if "vulnerabilit" in str(error):
                raise
            raise Skipped(f"pip-audit reaches no index of advisories: {str(error).splitlines()[-1][:200]}") from error
        known = [one for one in found if "skip_reason" not in one]
        if not known:
            raise Skipped("pip-audit reaches no index of advisories from here: of no package does it learn anything")
        return f"{len(known)} of {len(found)} packages looked up, nothing known against them"

    def results(self) -> str:
        """The stored results with their checksums, and how to cite them."""
        paths = files_below(self.root / "data" / "results")
        about = [self.root / name for name in ("data/README.md", "CITATION.cff", "LICENSE-TEXT.md")]
        named = [(path.relative_to(self.root).as_posix(), path.read_bytes()) for path in [*paths, *about]]
        sums = checksums(named)
        archive = self.folder / RESULTS
        pack(archive, ((f"{archive.stem}/{name}", one) for name, one in [*named, ("SHA256SUMS", sums.encode())]))
        return f"{len(paths)} files; {self.size(archive)}"

    def editions(self) -> str:
        """The book as PDF and EPUB, which the landing page links to."""
        try:
            browser()
        except BookError as error:
            raise Skipped(str(error)) from error
        project, made = self.pages(), []
        for kind in ("pdf", "epub"):
            self.call(sys.executable, "-m", "book", kind)
            made.append(shutil.copyfile(project.build / f"book.{kind}", self.folder / f"{NAME}.{kind}"))
        return "; ".join(map(self.size, made))

    def pages(self) -> Project:
        """The project, with pages of what is here."""
        project = Project(self.root)
        if not rendered(project):
            raise RuntimeError("there is no book that was rendered from what is here; `make book` makes one")
        return project

    def site(self) -> str:
        """The rendered book as one file, and the notebooks with what they run on."""
        project = self.pages()
        notebooks = project.html / "_sources" / f"{companion.NAME}.zip"
        shutil.copyfile(notebooks, self.folder / notebooks.name)
        return f"{self.size(packed(project.html, self.folder / SITE))}; {self.size(notebooks)}"

    def sums(self) -> str:
        """The checksum of each file that is given away."""
        given = [*self.dist.iterdir(), *(path for kind in GIVEN for path in self.folder.glob(f"*.{kind}"))]
        sums = checksums((path.name, path.read_bytes()) for path in sorted(given))
        (self.folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
        return f"{len(given)} files"


def checksums(files: Iterable[tuple[str, bytes]]) -> str:
    """A line each, as `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files)


def judged(found: dict[str, str], pins: list[str]) -> str:
    """Judge licenses by package."""
    faults = []
    for name in pins:
        parts = re.split(r";| AND | OR ", found.get(name, "not installed"))
        parts = [part for part in parts if part.strip() not in ("DFSG approved", "License :: OSI Approved")]
        if name not in LOOKED_UP and not all(PERMISSIVE.search(part) for part in parts):
            faults.append(f"{name}: {found.get(name, 'not installed')}")
    if faults:
        raise RuntimeError(f"to be looked up, and then named in LOOKED_UP of book/editions/release.py: {faults}")
    return f"{len(pins)} packages, {len(LOOKED_UP)} of them looked up by hand"


def packed(html: Path, archive: Path) -> Path:
    """The rendered book as an archive with one folder, byte by byte the same for the same pages."""
    files = ((path.relative_to(html).as_posix(), path.read_bytes()) for path in files_below(html))
    pack(archive, ((f"{archive.stem}/{name}", content) for name, content in files))
    return archive


STEPS = ("clean_tree", "versions", "environments", "workflows", "build", "install", "readme", "licenses", "components")
STEPS += ("audit", "results", "editions", "site", "sums")


def checklist(release: Release, steps: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Take the steps, go on after one that fails, and write the list; returns the exit code."""
    release.folder.mkdir(parents=True, exist_ok=True)
    release.log.write_text("", encoding="utf-8")
    lines, failed = [], 0
    for name in steps:
        step = getattr(release, name)
        started = time.perf_counter()
        try:
            mark, told = "x", step()
        except Skipped as reason:
            mark, told = "-", f"skipped: {reason}"
        except Exception as error:  # whatever it is, the other steps have something to say, too
            mark, told = " ", f"FAILED: {error}"
            failed += 1
        about = step.__doc__.split("\n")[0].rstrip(".")
        lines.append(f"- [{mark}] {about}: {told} ({time.perf_counter() - started:.0f} s)")
        say(lines[-1])
    end = "Signed off by: \n" if not failed else f"{failed} of {len(steps)} steps failed; nothing is to be published.\n"
    text = f"# Release {release.version}\n\n" + "\n".join(lines) + f"\n\n{end}"
    (release.folder / "checklist.md").write_text(text, encoding="utf-8")
    say(f"\n{release.folder / 'checklist.md'}; all that was said is in {release.log.name} beside it.")
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    about = "Make all that a release consists of, try it, and write the checklist."
    parser = argparse.ArgumentParser(prog="python -m book release", description=about)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--torch-index", help="where to take PyTorch from (default: as pip is set)")
    options = parser.parse_args(arguments)
    release = Release(Path.cwd(), options.torch_index or None)
    return checklist(release, options.only, lambda text: print(text, flush=True))

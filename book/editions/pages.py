"""The pages that a build writes or completes: reports, and all that ask for tables of what is stored."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import costs
from book.editions import conclusions, landing, lessons, pictures, reports, slides, status, teaching, what_it_took
from book.editions.compared import claimed, compared, stored_results
from book.editions.project import Project, digest, files_below
from book.editions.templates import ASKED, fill


def written_pages(project: Project, chapters: dict[str, dict], profile: str) -> dict[str, str]:
    """Their texts by path, the table of contents with the reports among them; those of the last build when nothing
    changed for them.
    """
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((project.root / "book").glob("*.md"))}
    templates = {f"book/{name}": text for name, text in texts.items() if ASKED.search(text)}
    ran = status.tables(project, chapters, profile, stored_results(project.root))
    shared = project.shared_key(profile)
    read = lessons.read(project, chapters)
    drawn = digest(*(str(pictures.pictures(notebook)) for notebook in chapters.values()))

    def evidence() -> list:
        with ThreadPoolExecutor() as both:  # each asks a process of its own
            return list(both.map(lambda ask: ask(project.root), (compared, claimed)))

    def pages() -> dict[str, str]:
        keys = [project.study_key(name) for name in project.notebooks]
        found, claims = _remembered(project.build / "evidence.json", digest(shared, *keys), evidence)
        measured = costs.stored(project.root)
        tables = ran | costs.tables(measured) | what_it_took.tables(project, found, claims)
        tables |= landing.tables(read, chapters, claims) | teaching.tables(read, kind)
        tables["slides"] = lambda: slides.links(read, chapters)
        made = {name: fill(text, tables) for name, text in templates.items()}
        if "book/step_cost.md" in made:
            made[costs.PICTURE] = costs.picture(measured)
        if "book/what_it_took.md" in made:
            made[what_it_took.PICTURE] = what_it_took.picture(found)
        shown = digest(Path(slides.__file__).read_text(encoding="utf-8"), drawn, str(read), str(claims))
        made |= _remembered(project.build / "slides.json", shown, lambda: slides.decks(read, chapters, claims))
        if project.reports:
            made |= reports.pages(project, found, claims) | {"_toc.yml": reports.contents(project)}
        return made

    named = ("_toc.yml", reports.DIFFERENCES, conclusions.FILE)
    code = [*Path(__file__).parent.glob("*.py"), *Path(costs.__file__).parent.glob("co*.py")]
    sources = [*code, *(project.root / name for name in named)]
    sources += [*files_below(project.root / "benchmarks" / "stored"), *project.root.glob("chapters/*/*.toml")]
    told = [table() for table in ran.values()] + [str(templates), str(read), landing.explorer(chapters), drawn]
    told += [path.read_text(encoding="utf-8") for path in sorted(sources) if path.exists()]
    return _remembered(project.build / "pages.json", digest(shared, *told), pages)


def kind(name: str) -> str:
    """What the question with an id asks for."""
    from book.display import exercises  # here, since it imports torch, without which pages can be rendered

    return exercises.get(name).kind


def _remembered(path: Path, key: str, make: Callable[[], Any]) -> Any:
    """What `make` returned at the last build with the same key, kept as JSON."""
    try:
        last = json.loads(path.read_text(encoding="utf-8"))
        if last["key"] == key:
            return last["made"]
    except (OSError, ValueError, TypeError, KeyError):
        pass  # absent, or of an interrupted build
    made = make()
    path.write_text(json.dumps({"key": key, "made": made}), encoding="utf-8")
    return made

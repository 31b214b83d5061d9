"""The pages of a rendered book on the way to becoming one: what the editions in one file, PDF and EPUB, share.

The pages of ``_build/html`` are put together in reading order as they are, so that numbers, pictures and words are the
same; hints and solutions go to the end of their chapter, reports to the end of the book, without the rows that they
fold, and of other long tables only the title is shown. Chromium sets the formulas, as it does on the pages.
"""

import html
import importlib.util
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag

from book.editions.project import REPORTS, BookError, Project, documents

# What a book in one file has a use for: the formulas, and the size of those that are wider than the paper.
SCRIPTS = re.compile(r"/(tex-chtml|print)\.js|window\.MathJax")
# For the reader's hands, or folded code and rows; a list of pages, for which the whole has its own contents.
FOR_HANDS = "script, noscript, form, button, details.hide, .headerlink, .bnn-source, .viewcode-link, .bnn-progress"
FOR_HANDS += ", .bnn-closer, .bnn-editions, .bnn-fold"
LONG = 30  # rows of a folded table that has no place on paper
STATUS = "book/status"
APPENDIX = "Appendix: reports"
# A line that calls for the figure or table below it, whose caption says more.
CALL = re.compile(r'\s*((figures|results)\.\w+\(.*\)|equation_table\("\w+"\));?\s*')
_new_tag = BeautifulSoup("", "html.parser").new_tag
REFERS = ("aria-labelledby", "aria-describedby", "aria-controls", "for")
LAYOUT = """<!DOCTYPE html>
<html lang="en" data-theme="light" data-content_root="../html/"><head><meta charset="utf-8"><title>{title}</title>
{head}
<style>
{fonts}
html {{ --pst-font-family-base: "Printed", serif; --pst-font-family-heading: "Printed", serif; }}
@page :first {{ @bottom-center {{ content: none; }} }}
.bnn-chapter, .bnn-contents {{ break-before: page; }}
.bnn-contents {{ columns: 3; font-size: 8.5pt; line-height: 1.25; }}
.bnn-contents h1 {{ column-span: all; }}
.bnn-contents a {{ color: inherit; display: flex; gap: 1em; justify-content: space-between; }}
.bnn-contents a > span:last-child {{ font-variant-numeric: tabular-nums; min-width: 3em; text-align: right; }}
.bnn-level-0 {{ break-after: avoid; font-weight: 600; margin-top: 0.6em; }}
.bnn-level-1 {{ padding-left: 1.2em; }}
.bnn-document:first-child img {{ max-height: 60mm; }}
.bnn-part {{ break-after: avoid; color: #555; font-size: 10.5pt; font-variant: small-caps; margin: 1.4em 0 0; }}
</style></head>
<body><main class="bd-main" role="main"><div class="bd-content"><div class="bd-article-container">
<article class="bd-article">{body}</article></div></div></main></body></html>
"""


class Whole:
    """The pages of a rendered book on the way to becoming one."""

    def __init__(self, project: Project) -> None:
        self.folder, names, heads = project.html, [name for _, part in parts(project) for name in part], []
        self.articles: dict[str, Tag] = {}
        for name in names:
            path = self.folder / f"{name}.html"
            if not path.exists():
                raise BookError(f"{path} is not there: run `make book` first")
            page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            heads.append((name, page.head))
            self.articles[name] = article = page.find("article", class_="bd-article")
            for tag in article.select(".tableofcontents-wrapper, .toctree-wrapper"):
                drop_contents(tag)  # the whole has contents of its own
            for tag in article.select(FOR_HANDS):
                tag.decompose()
            for code in article.select("div.cell_input"):
                if CALL.fullmatch(code.get_text()):
                    code.decompose()
            for explorer in article.select(".bnn-explorer"):
                stop(explorer)
            leave_out_folds(article)
        self.head = self._head(heads)
        self.taken: set[str] = set()
        self.renamed = {name: self._own_ids(name) for name in names}
        for name in names:
            self._relink(name)
            move_answers(self.articles[name], name)

    def _own_ids(self, name: str) -> dict[str, str]:
        """New ids for those that an earlier page has; what a page calls ``x`` and another, too, becomes ``name--x``."""
        new = {"": f"page--{name.replace('/', '-')}"}
        for tag in self.articles[name].find_all(id=True):
            old = tag["id"]
            if old in self.taken:
                new[old] = tag["id"] = f"{posixpath.basename(name)}--{old}"
            self.taken.add(tag["id"])
        for tag in self.articles[name].find_all(lambda one: any(key in one.attrs for key in REFERS)):
            for key in set(REFERS) & set(tag.attrs):
                tag[key] = " ".join(new.get(one, one) for one in tag[key].split())
        return new

    def _address(self, name: str, link: str) -> str:
        """Where a relative link of a page leads, seen from a folder beside the pages."""
        return posixpath.join("..", self.folder.name, inside(name, urlsplit(link).path))

    def _relink(self, name: str) -> None:
        """Lead links between pages to places in the whole, and files to where they lie."""
        for tag in self.articles[name].find_all(["a", "img", "source"]):
            tag.attrs.pop("loading", None)  # on paper nobody scrolls
            for key in {"href", "src"} & set(tag.attrs):
                parts = urlsplit(tag[key])
                if parts.scheme or parts.netloc:
                    continue
                page = inside(name, parts.path).removesuffix(".html") if parts.path else name
                if page in self.articles:
                    anchor = unquote(parts.fragment)
                    tag["href"] = f"#{self.renamed[page].get(anchor, anchor)}"
                elif tag.name == "a":
                    # A file beside the pages: there is none beside the whole.
                    tag.name, tag.attrs = "span", {key: tag[key] for key in {"class", "id"} & set(tag.attrs)}
                else:
                    tag[key] = self._address(name, tag[key])

    def _head(self, heads: list[tuple[str, Tag]]) -> str:
        """Style sheets and scripts of all pages, each once."""
        found: dict[str, None] = {}
        for name, head in heads:
            for tag in head.find_all(["link", "script", "style"]):
                key = "href" if tag.name == "link" else "src"
                if tag.name == "link" and "stylesheet" not in (tag.get("rel") or ()):
                    continue
                if tag.name == "script" and not SCRIPTS.search(tag.get(key) or tag.text):
                    continue
                if key in tag.attrs:
                    tag[key] = self._address(name, tag[key])
                found[str(tag)] = None
        return "\n".join(found)

    @property
    def title(self) -> str:
        return text_of(next(iter(self.articles.values())).find("h1"))

    def outline(self, name: str) -> list[tuple[int, str, str]]:
        """Level (0: the page, 1: its sections), anchor and words of what the contents name of a page."""
        found = [(0, self.renamed[name][""], text_of(self.articles[name].find("h1")))]
        for heading in self.articles[name].find_all("h2"):
            above = heading if heading.get("id") else heading.find_parent("section", id=True)
            found += [(1, above["id"], text_of(heading))] if above else []
        return found


def inside(name: str, path: str) -> str:
    """What a relative path on a page leads to, seen from the folder of all pages."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(path)))


def stop(explorer: Tag) -> None:
    """Leave of an explorer its title, the values that its knobs have at first, and the picture at these."""
    knobs = explorer.select(".bnn-control")
    said = [f"{knob.find('span').get_text()}: {knob.select_one('.bnn-default').get_text()}" for knob in knobs]
    kept = [explorer.select_one(".bnn-title"), explorer.select_one(".bnn-print")]
    line = _new_tag("p", **{"class": "bnn-knobs"})
    line.string = f"{'; '.join(said)} (on the screen this moves)"
    explorer.clear()
    explorer.extend([kept[0], line, kept[1]])
    explorer["class"] = "bnn-explorer"


def drop_contents(box: Tag) -> None:
    """Take a list of pages out, and with it the section that holds nothing else than a heading below the title."""
    section = box.find_parent("section")
    box.decompose()
    inside = section.find_all(True, recursive=False) if section is not None else []
    if inside and all(tag.name in ("h2", "h3", "h4", "span") for tag in inside):
        section.decompose()


def leave_out_folds(article: Tag) -> None:
    """Put the titles of long tables that are folded in their place."""
    for box in (box for box in article.select(".dropdown.admonition") if len(box.find_all("tr")) > LONG):
        title = _new_tag("p", **{"class": "bnn-left-out"})
        title.string = f"Only on the screen: {box.p.get_text(strip=True)}"
        box.replace_with(title)


def text_of(heading: Tag) -> str:
    """A heading's words, without the sign of its link; formulas stay as they are."""
    copy = BeautifulSoup(str(heading), "html.parser")
    for link in copy.find_all("a", class_="headerlink"):
        link.decompose()
    return " ".join(copy.get_text().split())


def move_answers(article: Tag, name: str) -> None:
    """Put the hints and solutions of a chapter's exercises behind everything else in it."""
    end, exercise = _new_tag("section", **{"class": "bnn-answers"}), None
    for box in article.select(".exercise, .hint, .solution"):
        classes = box["class"]
        if "exercise" in classes:
            exercise = box
            continue
        if exercise is None or any("solution" in (one.get("class") or ()) for one in box.parents):
            continue  # a hint to something else, or a part of a solution
        if "hint" in classes:
            number = exercise.find(class_="caption-number")
            of = number.get_text(strip=True) if number else "the exercise"
            box.find(class_="admonition-title").string = f"Hint for {of}"
        box["class"] = [one for one in classes if one not in ("dropdown", "toggle", "toggle-hidden")]
        end.append(box.extract())
    if not end.contents:
        return
    heading = _new_tag("h2", id=f"answers--{name.replace('/', '-')}")
    heading.string = "Hints and solutions"
    end.insert(0, heading)
    article.append(end)


def contents(whole: Whole, project: Project) -> str:
    """The table of contents, with room for the number of a page in each line."""
    made = ['<nav class="bnn-contents"><h1>Contents</h1>']
    for caption, names in parts(project)[1:]:
        made.append(f'<p class="bnn-part">{caption}</p>')
        lines = (line for name in names for line in whole.outline(name)[: None if caption != APPENDIX else 1])
        for level, anchor, words in lines:
            line = f"<span>{html.escape(words)}</span><span></span>"
            made.append(f'<a class="bnn-level-{level}" href="#{anchor}">{line}</a>')
    return "".join([*made, "</nav>"])


def parts(project: Project) -> list[tuple[str, list[str]]]:
    """Captions of the parts and the documents in each: the landing page first, what was run at last."""
    late = [name for name in project.printed if name.startswith(REPORTS) or name == STATUS]
    named = [("", project.printed[:1])]
    for part in project.toc.get("parts", [project.toc]):
        names = [name for name in documents(part) if name in project.printed[1:] and name not in late]
        named.append((part.get("caption", ""), names))
    return [(caption, names) for caption, names in [*named, (APPENDIX, late)] if names]


def assemble(whole: Whole, project: Project) -> str:
    """The whole book as one page."""
    made = []
    for caption, names in parts(project):
        for name in names:
            kind = "chapter" if name == names[0] or name.startswith("chapters/") else "page"
            late = " bnn-late" if caption == APPENDIX else ""
            inner = whole.articles[name].decode_contents()
            made.append(f'<div class="bnn-document bnn-{kind}{late}" id="{whole.renamed[name][""]}">{inner}</div>')
    made.insert(1, contents(whole, project))
    return LAYOUT.format(title=html.escape(whole.title), head=whole.head, fonts=fonts(), body="\n".join(made))


def fonts() -> str:
    """One face for the text on all machines, narrower than theirs may be: STIX, which matplotlib brings."""
    folder = Path(importlib.util.find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
    face = '@font-face {{ font-family: "Printed"; src: url("{}"); font-weight: {}; font-style: {}; }}'
    cuts = {"": ("400", "normal"), "Bol": ("700", "normal"), "Italic": ("400", "italic"), "BolIta": ("700", "italic")}
    return "\n".join(face.format((folder / f"STIXGeneral{cut}.ttf").as_uri(), *how) for cut, how in cuts.items())

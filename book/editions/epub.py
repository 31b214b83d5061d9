"""Make the rendered book an EPUB 3: ``python -m book epub`` (``make epub`` calls it); needs Chromium.

It is the whole of the PDF (`whole.Whole`) in files of one page of the book each: all numbers are those of the pages.
Chromium's MathJax gives the formulas as MathML, with their TeX as text for readers that know none; explorers are the
picture of their first setting. There is no script, and nothing is fetched.
"""

import base64
import contextlib
import hashlib
import html
import mimetypes
import posixpath
import re
import shutil
import time
import unicodedata
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

import yaml
from bs4 import BeautifulSoup

from book.editions.project import Project, pack
from book.editions.render import KEY
from book.editions.typeset import edition, typesetter
from book.editions.whole import Whole, assemble, parts

STYLE = Path(__file__).with_suffix(".css")
# MathML of today has no styles of letters but letters of their own, with the gaps that Unicode filled before.
STYLED = re.compile(r'<(m[ion]) mathvariant="(?!normal)([a-z-]+)">([^<&]+)</')
OLDER = {"script": "SCRIPT", "double-struck": "DOUBLE-STRUCK", "fraktur": "BLACK-LETTER"}
COLORS = "_static/pygments.css"  # of code, made by Sphinx
MIME = "application/epub+zip"
mimetypes.add_type("image/webp", ".webp")  # which Python knows since 3.13
# Each formula becomes the MathML that MathJax keeps beside it, each page of the book well-formed XML.
DOCUMENTS = """() => {
  for (const { math, display, typesetRoot } of MathJax.startup.document.math) {
    const made = typesetRoot.querySelector("mjx-assistive-mml > math");
    for (const part of [made, ...made.querySelectorAll("*")])
      for (const { name } of [...part.attributes]) if (/^(class|data-)/.test(name)) part.removeAttribute(name);
    made.setAttribute("alttext", math.trim());
    typesetRoot.replaceWith(made);
  }
  document.querySelectorAll("article style").forEach((part) => part.remove());
  document.querySelectorAll("[role='doc-biblioentry']").forEach((part) => part.removeAttribute("role"));
  const write = (part) => new XMLSerializer().serializeToString(part);
  return [...document.querySelectorAll("div.bnn-document")].map((part) => [part.id, write(part)]);
}"""
PAGE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en">
<head><meta charset="utf-8"/><title>{title}</title><link rel="stylesheet" type="text/css" href="book.css"/></head>
<body>{body}</body></html>
"""
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" xml:lang="en" unique-identifier="book">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="book">urn:sha256:{key}</dc:identifier>
<dc:title>{title}</dc:title><dc:creator>{author}</dc:creator><dc:rights>{rights}</dc:rights><dc:language>en</dc:language>
<meta property="dcterms:modified">{when}</meta>
<meta property="schema:accessMode">textual</meta><meta property="schema:accessMode">visual</meta>
<meta property="schema:accessModeSufficient">textual</meta>
<meta property="schema:accessibilityFeature">alternativeText</meta>
<meta property="schema:accessibilityFeature">MathML</meta>
<meta property="schema:accessibilityFeature">tableOfContents</meta>
<meta property="schema:accessibilityHazard">none</meta></metadata>
<manifest>{manifest}</manifest><spine>{spine}</spine></package>
"""
CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="book/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>
"""


def styled(found: re.Match) -> str:
    """A symbol in letters of its style, where there are such letters."""
    tag, style, text = found.groups()
    kinds = [f"MATHEMATICAL {style.upper()}", f"MATHEMATICAL {style.upper().replace('-', ' ')}", OLDER.get(style)]
    made = ""
    for letter in text:
        plain = re.sub(r"^(LATIN|GREEK) |LETTER ", "", unicodedata.name(letter, ""))
        for kind in kinds:
            with contextlib.suppress(KeyError):
                letter = unicodedata.lookup(f"{kind} {plain}")
                break
        made += letter
    return found[0] if made == text else f"<{tag}>{made}</"


def file_of(name: str) -> str:
    """The file of a document."""
    return f"{name.replace('/', '-')}.xhtml"


class Parts:
    """What lies in the archive, by name, as the pages ask for it."""

    def __init__(self, whole: Whole) -> None:
        self.whole, self.files = whole, {}
        self.home = {
            tag["id"]: name for name, article in whole.articles.items() for tag in article.find_all(id=True)
        } | {whole.renamed[name][""]: name for name in whole.articles}

    def address(self, anchor: str) -> str:
        """Where an anchor of the whole lies now."""
        return f"{file_of(self.home[anchor])}#{anchor}"

    def _picture(self, found: re.Match) -> str:
        """Put a picture into the archive, be it a file beside the pages or written into one."""
        source = html.unescape(found[1])
        if source.startswith("data:"):
            about, _, data = source.removeprefix("data:").partition(",")
            mime, *how = about.split(";")
            content = base64.b64decode(data) if "base64" in how else unquote_to_bytes(data)
            suffix = mimetypes.guess_extension(mime)
        else:
            path = (self.whole.folder / posixpath.relpath(unquote(source), f"../{self.whole.folder.name}")).resolve()
            content, suffix = path.read_bytes(), path.suffix
        name = f"images/{hashlib.sha256(content).hexdigest()[:16]}{suffix}"
        self.files[name] = content
        return f'src="{name}"'

    def add(self, anchor: str, text: str) -> None:
        """Add a page of the book: links between pages lead from file to file, pictures lie in the archive."""
        name = self.home[anchor]
        text = re.sub(r'href="#([^"]*)"', lambda link: f'href="{self.address(unquote(link[1]))}"', text)
        text = re.sub(r'\bsrc="([^"]+)"', self._picture, text)
        text = STYLED.sub(styled, text)
        self.whole.articles[name] = BeautifulSoup(text, "html.parser")  # with MathML, which has words of its own
        title = html.escape(self.whole.outline(name)[0][2])
        self.files[file_of(name)] = PAGE.format(title=title, body=text).encode()

    def navigation(self, project: Project) -> None:
        """Add the contents: the parts, the pages in each, and their sections."""
        made = []
        for caption, names in parts(project):
            pages = []
            for name in names:
                (_, anchor, title), *sections = self.whole.outline(name)
                below = "".join(f'<li><a href="{self.address(a)}">{html.escape(t)}</a></li>' for _, a, t in sections)
                line = f'<a href="{self.address(anchor)}">{html.escape(title)}</a>'
                pages.append(f"<li>{line}{f'<ol>{below}</ol>' if below else ''}</li>")
            made.append(f"<li><span>{caption}</span><ol>{''.join(pages)}</ol></li>" if caption else "".join(pages))
        body = f'<nav epub:type="toc" role="doc-toc"><h1>Contents</h1><ol>{"".join(made)}</ol></nav>'
        self.files["contents.xhtml"] = PAGE.format(title="Contents", body=body).encode()

    def package(self, project: Project) -> bytes:
        """The list of all files, the order of the pages, and what the book is called."""
        settings = yaml.safe_load((project.root / "_config.yml").read_text(encoding="utf-8"))
        first, *others = (file_of(name) for name in self.whole.articles)
        order, lines = [first, "contents.xhtml", *others], []
        for number, (name, content) in enumerate(self.files.items()):
            kind = "application/xhtml+xml" if name.endswith(".xhtml") else mimetypes.guess_type(name)[0]
            marks = ["nav"] * (name == "contents.xhtml") + ["mathml"] * (b"<math" in content and "xhtml" in kind)
            properties = f' properties="{" ".join(marks)}"' if marks else ""
            lines.append(f'<item id="file-{number}" href="{name}" media-type="{kind}"{properties}/>')
        ids = {name: f"file-{number}" for number, name in enumerate(self.files)}
        rendered = project.html / KEY
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(rendered.stat().st_mtime))
        return PACKAGE.format(
            key=hashlib.sha256(rendered.read_bytes()).hexdigest(),
            title=html.escape(self.whole.title),
            author=html.escape(settings["author"]),
            rights=html.escape(settings["sphinx"]["config"]["html_theme_options"]["extra_footer"]),
            when=when,
            manifest="\n".join(lines),
            spine="".join(f'<itemref idref="{ids[name]}"/>' for name in order),
        ).encode()


def make_epub(project: Project) -> Path:
    """Write the rendered book as ``_build/book.epub`` and return its path."""
    folder, epub = project.build / "epub", project.build / "book.epub"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page, whole = folder / "book.html", Whole(project)
    made = Parts(whole)
    page.write_text(assemble(whole, project), encoding="utf-8")
    with typesetter() as opened:
        for anchor, text in opened(page).evaluate(DOCUMENTS):
            made.add(anchor, text)
    made.navigation(project)
    made.files["book.css"] = (project.html / COLORS).read_bytes() + STYLE.read_bytes()
    package = made.package(project)
    files = {"mimetype": MIME.encode(), "META-INF/container.xml": CONTAINER.encode(), "book/book.opf": package}
    files |= {f"book/{name}": content for name, content in made.files.items()}
    pack(epub, files.items(), stored="mimetype")
    shutil.rmtree(folder)
    return epub


def main(arguments: list[str]) -> int:
    return edition(make_epub, "EPUB", arguments)

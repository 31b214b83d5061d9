"""Versions of the book side by side: every page says its own and leads to the others, from a disk as well."""

import re

import pytest

from book.__main__ import main
from book.editions.project import BookError
from book.editions.release import packed
from book.editions.versions import assemble

PAGE = """<html><body><main>{}</main><div class="bd-footer-content__inner container">
  <div class="footer-item">
    <p class="copyright">© Copyright 2026.<br/></p>
  </div>
</div></body></html>"""


def rendered(folder, *names):
    """A book with these pages, as the theme writes them."""
    for name in names:
        path = folder / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format(name), encoding="utf-8")
    return folder


def links(page):
    """The links of the line of versions, resolved, and the version that is no link."""
    (text,) = re.findall(r'<p class="versions">Version: (.*?)</p>', page.read_text(encoding="utf-8"))
    found = {name: (page.parent / to).resolve() for to, name in re.findall(r'<a href="(.*?)">(.*?)</a>', text)}
    return found, re.findall(r"<strong>(.*?)</strong>", text)


def test_pages_lead_to_the_same_page_of_the_other_version_or_to_its_first(tmp_path):
    archive = tmp_path / "sparse-bayes-book.zip"
    packed(rendered(tmp_path / "old", "index", "chapters/00"), archive)  # as a release gives it away
    now = rendered(tmp_path / "html", "index", "chapters/00", "chapters/10")
    site = tmp_path / "site"
    assert main(["versions", str(site), f"1.0.0={archive}", f"development={now}"]) == 0
    both = [links(site / version / "chapters/00.html") for version in ("1.0.0", "development")]
    assert both[0] == ({"development": site / "development/chapters/00.html"}, ["1.0.0"])
    assert both[1] == ({"1.0.0": site / "1.0.0/chapters/00.html"}, ["development"])
    assert links(site / "development/chapters/10.html")[0] == {"1.0.0": site / "1.0.0/index.html"}
    assert 'url=1.0.0/index.html"' in (site / "index.html").read_text()
    assert "versions" not in (now / "index.html").read_text(), "the book that was given stays what it was"


def test_what_is_no_book_is_refused(tmp_path, capsys):
    with pytest.raises(BookError, match="holds no rendered book"):
        assemble(tmp_path / "site", {"1.0.0": tmp_path / "nothing.zip"})
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "index.html").write_text("<html></html>")
    assert main(["versions", str(tmp_path / "other"), f"1.0.0={plain}"]) == 1
    assert "no page of 1.0.0 has the footer" in capsys.readouterr().out
    with pytest.raises(BookError, match="is there already"):
        assemble(plain, {"1.0.0": plain})
    with pytest.raises(SystemExit):
        main(["versions", str(tmp_path / "third"), "../up=x"])
    assert "is not NAME=BOOK" in capsys.readouterr().err

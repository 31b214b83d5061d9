"""The look through the rendered book finds each kind of fault, and finds none in a page without."""

import base64
import os

import pytest

from book.editions.check import EXPLORERS_LIMIT, PAGE_LIMIT, check, main

GOOD = """<!DOCTYPE html>
<html lang="en"><head><title>A page</title>
<link rel="stylesheet" href="_static/style.css">
<script src="_static/tidy.js"></script>
<script>const where = "http://www.w3.org/2000/svg";</script></head>
<body><main id="top"><h1>A page</h1>
<p>The <a href="other.html#there">other page</a>, <a href="#top">up</a>,
<a href="https://example.org/paper">a paper</a>,
<code>{ref}`shown as code`</code>.</p>
<img src="curve.png" alt="A curve that rises."><img src="dot.png" alt="" role="presentation">
BODY</main></body></html>
"""
OTHER = '<!DOCTYPE html><html lang="en"><head><title>Other</title></head><body><p id="there">Here.</p></body></html>'


@pytest.fixture
def site(tmp_path):
    """A rendered folder of two good pages; ``site(body)`` puts something into the first and returns the faults."""
    html = tmp_path / "html"
    (html / "_static").mkdir(parents=True)
    (html / "_static" / "style.css").write_text("body { background: url(dot.png) }")
    for name in ("_static/tidy.js", "curve.png", "dot.png"):
        (html / name).write_text("")
    (html / "other.html").write_text(OTHER)

    def faults(body: str = "", css: str = "") -> list[str]:
        (html / "index.html").write_text(GOOD.replace("BODY", body))
        if css:
            (html / "_static" / "style.css").write_text(css)
        return check(tmp_path, html)

    return faults


def test_a_good_page_has_no_faults(site):
    assert site() == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('<a href="gone.html">x</a>', "dead link: gone.html"),
        ('<a href="other.html#gone">x</a>', "dead anchor: other.html#gone"),
        ('<a href="#gone">x</a>', "dead anchor: #gone"),
        ('<a href="../outside.html">x</a>', "dead link: ../outside.html"),
        ('<img src="gone.png" alt="A curve.">', "dead link: gone.png"),
        ('<script src="https://cdn.jsdelivr.net/npm/mathjax@3"></script>', "external request: https://cdn.jsd"),
        ('<script src="//unpkg.com/thebe"></script>', "external request: //unpkg.com/thebe"),
        ('<img src="https://example.org/a.png" alt="A curve.">', "external request: https://example.org/a.png"),
        ('<link rel="preconnect" href="https://fonts.gstatic.com">', "external request: https://fonts.gstatic.com"),
        ("<style>@import url(https://fonts.example.org/a.css);</style>", "external request: https://fonts.example.org"),
        ('<p style="background: url(//example.org/a.png)">x</p>', "external request: //example.org/a.png"),
        ('<img srcset="curve.png 1x, https://example.org/2.png 2x" alt="A curve.">', "external request: https://"),
        ('<img src="curve.png">', "picture without alt text: curve.png"),
        ('<img src="curve.png" alt=" ">', "picture without alt text: curve.png"),
        ('<img src="curve.png" alt="../_images/3f2a.png">', "alt text is a file name: ../_images/3f2a.png"),
        ('<p id="top">x</p>', "id used 2 times: top"),
        ("<p>See {ref}`the-section`.</p>", "markup not rendered: {ref}`"),
        ("<p>```{exercise} One</p>", "markup not rendered: ```{"),
        (r"<p>An improved $\widehat R$, for $5 or 6$</p>", r"markup not rendered: $\widehat R$"),
        ('<i class="fas fa-rocket"></i>', "icon that icons.css does not draw: fa-rocket"),
        ('<script src="_static/fontawesome.js"></script>', "loads Font Awesome"),
    ],
)
def test_each_fault_is_found(site, body, message):
    faults = site(body)
    assert [fault for fault in faults if fault.startswith(f"index.html: {message}")], faults


def test_an_existing_file_outside_of_the_book_is_not_part_of_it(site, tmp_path):
    (tmp_path / "outside.html").write_text(OTHER)
    assert site('<a href="../outside.html">x</a>') == ["index.html: link out of the book's folder: ../outside.html"]


def test_paths_of_the_building_machine_are_found(site, tmp_path):
    faults = site(f"<pre>{tmp_path}/bnnlib/nn/base.py:3: UserWarning</pre>")
    assert len(faults) == 1 and faults[0].startswith("index.html: path of this machine")


def test_style_sheets_are_looked_through(site):
    assert site(css="@font-face { src: url(https://fonts.example.org/a.woff2) }") == [
        "_static/style.css: external request: https://fonts.example.org/a.woff2"
    ]


def test_explorers_of_a_page_share_one_limit(site):
    # Random bytes do not compress: base64 of them keeps about three quarters of its length after gzip.
    frames = [base64.b64encode(os.urandom(EXPLORERS_LIMIT * 6 // 10)).decode() for _ in range(2)]
    explorers = [f'<div class="bnn-explorer"><div><script>"{frame}"</script></div></div>' for frame in frames]
    assert site(explorers[0]) == []
    assert site(f"<div><p>{frames[0]}</p></div><div>{explorers[1]}</div>") == []  # the text around it does not count
    faults = site("<p>and</p>".join(explorers))
    assert len(faults) == 1 and "explorers take 12" in faults[0]


def test_a_page_and_what_it_loads_have_a_limit(site, tmp_path):
    pictures = "".join(f'<img src="{name}.png" alt="A curve.">' for name in "ab")
    for name in "ab":
        (tmp_path / "html" / f"{name}.png").write_bytes(b"0" * (PAGE_LIMIT * 6 // 10))
    assert site(pictures[: len(pictures) // 2]) == []
    assert site(pictures) == ["index.html: page and what it loads take 3.6 MB, allowed are 3.0"]


def test_an_icon_is_known_if_the_style_sheet_draws_it_and_fonts_are_found(site, tmp_path):
    (tmp_path / "html" / "_static" / "icons.css").write_text(".fa-bars { --icon: none; }")
    assert site('<i class="fa-solid fa-bars"></i>') == []
    (tmp_path / "html" / "_static" / "fa-solid-900.woff2").write_bytes(b"")
    assert site() == ["_static/fa-solid-900.woff2: belongs to Font Awesome"]


def test_the_command_says_what_it_found(site, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    site('<img src="curve.png">')
    assert main(["--html", "html"]) == 1
    assert capsys.readouterr().out == "index.html: picture without alt text: curve.png\n1 faults\n"
    site()
    assert main(["--html", "html"]) == 0
    assert main(["--html", "nowhere"]) == 1
    assert "run `make book` first" in capsys.readouterr().out

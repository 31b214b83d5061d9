"""Slides hold what their chapter's last run drew and said, and need nothing beside them."""

import base64
import io
import re

import pytest
from matplotlib import pyplot as plt
from PIL import Image

from book.display.vector import svg_of
from book.editions import slides
from book.editions.check import Page, external_loads
from book.editions.lessons import Lesson
from book.editions.pictures import address, cut, packed, pictures, side_by_side

LESSON = Lesson("chapters/03_here", 3, "Here & now", "here", "count {term}`nats <Nat>`", 10, ())
CLAIMS = {"here": [{"verdict": word, "text": f"It is {word}.", "place": "Table 1"} for word in ("partly", "partly")]}


@pytest.fixture
def notebook(make_notebook, drawn):
    made = make_notebook(
        ("text", "# Here\n\n(label)=\n## The price of $\\phi$"),
        ("here-fig-one", "draw()"),
        ("here-fig-two", "explore()"),
        ("text-end", "No heading."),
        ("here-fig-three", "draw()"),
    )
    drawn(made["cells"][1], 'A "line" rises.')
    made["cells"][2]["metadata"]["mystnb"] = {"figure": {"caption": "Explorer"}}
    drawn(made["cells"][4], "A line falls.")
    return made


def test_pictures_are_drawn_figures_with_the_section_that_they_stand_in(notebook):
    found = pictures(notebook)
    assert [(one.cell, one.heading) for one in found] == [
        ("here-fig-one", "The price of $\\phi$"),
        ("here-fig-three", "The price of $\\phi$"),
    ]


def test_an_address_holds_the_picture_no_wider_than_asked(notebook):
    (picture, _) = pictures(notebook)
    for width, expected in ((20, (20, 10)), (1000, (40, 20))):
        kind, _, data = address(picture, width).partition(";base64,")
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        assert kind == "data:image/webp" and image.size == expected


def test_a_deck_has_a_slide_for_the_aim_each_picture_and_the_claims_and_loads_nothing(notebook):
    text = slides.deck(LESSON, notebook, CLAIMS)
    page = Page(text)
    assert text.count("<section>") == 4
    assert "3. Here &amp; now" in text and "After this chapter you can count nats." in text
    assert [alt for _, alt in page.pictures] == ['A "line" rises.', "A line falls."]
    assert not external_loads(page) and all(source.startswith("data:") for source, _ in page.pictures)
    assert "paper's 2 claims" in text and "<td>2</td><td>It is partly. (Table 1)</td>" in text
    assert slides.deck(LESSON, notebook, {}).count("<section>") == 3
    assert text == slides.deck(LESSON, notebook, CLAIMS)  # byte by byte, or every build would render anew


def test_words_of_a_chapter_become_plain_html():
    said = slides.plain('(x)=\n*Far* & {ref}`here <fnd-x>`, [0.4](#report-x "from a < b")')
    assert said == "<em>Far</em> &amp; here, 0.4" and slides.plain("a * b * c") == "a * b * c"


@pytest.mark.parametrize("tex", ["\\phi", "\\pi = \\frac12", "\\lambda_{\\mathrm{opt}}", "\\mathcal{R}^\\star"])
def test_formulas_are_drawn_as_high_as_the_words(tex):
    drawn = slides.formula(tex)
    height = float(re.search(r"height: ([\d.]+)em", drawn)[1])
    assert drawn.startswith("<svg ") and drawn.endswith("</svg>") and "<metadata" not in drawn
    assert 0.4 < height < 2.5  # a line is 1.45 em high, and a fraction has two


def test_the_page_for_teachers_leads_to_every_deck(notebook):
    chapters = {"chapters/03_here.ipynb": notebook}
    (path,) = slides.decks([LESSON], chapters, {})
    listed = slides.links([LESSON], chapters)
    assert path == "book/_static/slides/03_here.html" and 'href="../_static/slides/03_here.html"' in listed
    assert "2 pictures" in listed


def test_the_lower_panels_of_a_tall_picture_stand_beside_the_upper_ones():
    tall = Image.new("RGB", (100, 400), "black")
    joined = side_by_side(tall, 0.525)
    assert joined.size == (205, 210)
    assert joined.getpixel((0, 209)) == joined.getpixel((204, 189)) == (0, 0, 0)
    assert joined.getpixel((102, 0)) == (255, 255, 255)
    assert side_by_side(tall.resize((400, 400)), 0.525).size == (400, 400), "beside each other they would be smaller"


@pytest.mark.parametrize(("shared", "expected"), [(False, pytest.approx(0.5, abs=0.05)), (True, None)])
def test_a_figure_is_cut_between_rows_and_not_where_they_share_an_axis(shared, expected):
    figure, axes = plt.subplots(2, 2, figsize=(4, 6), sharex=shared, layout="constrained")
    for panel in axes.flat:
        panel.set(title="a", xlabel="step")
    assert cut(svg_of(figure)) == expected
    plt.close(figure)


def test_a_picture_of_few_colors_gets_a_palette_and_no_other_pixel():
    def encoded(image):
        image.save(out := io.BytesIO(), "PNG")
        return base64.b64encode(out.getvalue()).decode()

    few = Image.linear_gradient("L").rotate(30).convert("RGBA")
    small = packed(encoded(few))
    again = Image.open(io.BytesIO(base64.b64decode(small)))
    assert again.mode == "P" and len(small) < len(encoded(few))
    assert again.convert("RGBA").tobytes() == few.tobytes()
    few.putalpha(128)
    assert packed(encoded(few)) == encoded(few), "what lets the page through stays as it is"

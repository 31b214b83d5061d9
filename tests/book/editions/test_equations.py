"""Which equations a chapter labels, and which count as tested: those that a test names, not those that a file holds."""

from book.editions.equations import equation_labels, equation_tests

PROSE = """# Sparse things

$$
a = b
$$ (x-dollar)

```{math}
:label: x-directive
a = b
```

:::{math}
:nowrap:
:label: x-colon
a = b
:::

\\begin{equation} a = b \\label{x-latex} \\end{equation}

```{prf:theorem} No equation
:label: x-theorem
```
"""
TESTS = """
'''x-module'''
UNTESTED = {"x-model": "a definition, nothing to compute"}
LABELS = ["x-elsewhere"]

# equation: x-prior, x-family
def test_prior():
    assert 1

def test_kl():
    # equation: x-kl
    check("x-loose part", label="x-bernoulli")

@pytest.mark.equation("x-decorated")
def test_decorated():
    pass

# equation: x-comment-of-nothing
def helper():
    return "x-helper"
"""


def test_labels_of_equations_and_of_nothing_else(make_notebook):
    assert equation_labels(make_notebook(("text", PROSE))) == ["x-dollar", "x-directive", "x-colon", "x-latex"]


def test_a_label_counts_as_tested_when_a_test_names_it_whole(tmp_path):
    (tmp_path / "tests" / "equations").mkdir(parents=True)
    (tmp_path / "tests" / "equations" / "test_x.py").write_text(TESTS)
    tested, excused = equation_tests(tmp_path)
    assert {"x-prior", "x-family", "x-kl", "x-bernoulli", "x-decorated"} <= tested
    assert not {"x-elsewhere", "x-helper", "x-comment-of-nothing", "x-loose", "x-model", "x-module"} & tested
    assert excused == {"x-model": "a definition, nothing to compute"}
    assert equation_tests(tmp_path / "nowhere") == (set(), {})

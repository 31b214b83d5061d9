"""What the Sphinx extension `labels` makes of works; of numbers, test_numbering.py looks at real pages."""

from types import SimpleNamespace

import pytest

from book.editions._ext import labels


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"doi": "10.1/x", "url": "https://example.org"}, "https://doi.org/10.1/x"),
        ({"eprint": "1234.5678", "archiveprefix": "arXiv"}, "https://arxiv.org/abs/1234.5678"),
        ({"url": "https://example.org"}, "https://example.org"),
        ({}, None),
    ],
)
def test_where_a_work_can_be_read(fields, where):
    assert labels.address(SimpleNamespace(fields=fields)) == where


def test_entries_keep_only_the_escapes_that_every_markdown_knows():
    assert labels.plain(r"44\(1\):283, 2005\. Of $L\_0$ and \*.") == r"44(1):283, 2005. Of $L_0$ and \*."

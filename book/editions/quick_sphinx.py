"""Jupyter Book's command in half of its time: ``python -P book/editions/quick_sphinx.py build ...``.

Of a build after one changed sentence, a quarter of the time goes into collecting garbage among the trees of all pages,
which stay; a tenth into grammars of international addresses, compiled for a check of formats that nobody asks for;
and more than a tenth into looking for one plugin for every citation, in all that is installed.
"""

import functools
import gc
import sys

gc.set_threshold(200_000, 20, 100)
sys.modules["rfc3987_syntax"] = None  # optional to jsonschema, which then leaves that format unchecked

import pybtex.plugin  # noqa: E402

pybtex.plugin.find_plugin = functools.cache(pybtex.plugin.find_plugin)  # before the extensions take it by name

from jupyter_book.cli.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())

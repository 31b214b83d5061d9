"""Tables of bad input: calls, and the words that refuse each."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest


def refusals(table: Mapping[str, Sequence[tuple[Any, ...]]] | Sequence[tuple[Any, ...]]):
    """A test that every call is refused: `test_bad_input_is_refused = refusals([(call, words), (call, words, error)])`.

    Words are a pattern of the message; the error is a `ValueError` unless it is given. A table may have parts by name.
    """
    parts = table if isinstance(table, Mapping) else {"": table}
    cases = [
        pytest.param(*(case if len(case) == 3 else (*case, ValueError)), id=f"{part} {number}".strip())
        for part, cases in parts.items()
        for number, case in enumerate(cases)
    ]

    @pytest.mark.parametrize(("call", "words", "error"), cases)
    def test(call, words, error):
        with pytest.raises(error, match=words):
            call()

    return test

"""What a process that runs a chapter imports, for the server that it is forked from."""

# ruff: noqa: E402, F401
import sys

# Optional to jsonschema, which then leaves one format unchecked: it compiles grammars for a second on import.
sys.modules["rfc3987_syntax"] = None

from papermill import execute_notebook
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

"""What the readers' tests write into files and registries."""

from __future__ import annotations

import hashlib
import os

HEAD = 'title = "Small"\nlicense = "none"\ncitation = "none"\nhomepage = "none"\n'


def digest(data: bytes, algorithm="sha256") -> str:
    """A checksum as the registry has it."""
    return hashlib.new(algorithm, data).hexdigest()


class Malicious:
    """Makes a folder when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("pickle_ran",)

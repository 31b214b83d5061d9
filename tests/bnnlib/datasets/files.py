"""What the readers' tests write into files and registries."""

import hashlib
import os

HEAD = 'title = "Small"\nlicense = "none"\ncitation = "none"\nhomepage = "none"\n'


def digest(data: bytes, algorithm="sha256") -> str:
    """A checksum as the registry has it."""
    return hashlib.new(algorithm, data).hexdigest()


def entry(site, reader, task, files, options, checks="sha256") -> str:
    """The registry's text of the set `small`, whose files are pages of the site; `options` as TOML."""
    text = f'[small]\n{HEAD}reader = "{reader}"\ntask = "{task}"\nfolder = "f"\nsources = ["{site.url}/{{file}}"]\n'
    for name, data in files.items():
        site.pages[f"/{name}"] = data
    parts = (f'{{ path = "{n}", size = {len(d)}' + (f', {checks} = "{digest(d, checks)}" }}' if checks else " }")
             for n, d in files.items())  # fmt: skip
    return f"{text}files = [{', '.join(parts)}]\noptions = {{ {options} }}\n"


class Malicious:
    """Makes a folder when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("pickle_ran",)

"""What can go wrong with a data set, as exceptions whose messages say what to do next."""


class DatasetError(RuntimeError):
    """Base of every error about data sets; raised itself when the set-up is at fault (no registry, missing extra).

    Example:
        >>> issubclass(IntegrityError, DatasetError), issubclass(DatasetError, Exception)
        (True, True)
    """


class UnknownDatasetError(DatasetError, ValueError):
    """The name is not in the registry; the message lists the names and the nearest one.

    Example:
        >>> try:
        ...     load("digit")
        ... except UnknownDatasetError as error:
        ...     print("digits" in str(error))
        True
    """


class NotAvailableError(DatasetError):
    """The files are not on this machine and downloading was not allowed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     try:
        ...         load("mnist", root=folder, download=False)
        ...     except NotAvailableError as error:
        ...         print("mnist" in str(error))
        True
    """


class DownloadError(DatasetError):
    """No source gave the file; the message lists every source tried and why it failed.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     try:
        ...         fetch("mnist", root=file.name)  # a file, not a folder: there is no place for a download
        ...     except DownloadError as error:
        ...         print("BNNLIB_DATA" in str(error))
        True
    """


class IntegrityError(DatasetError):
    """A file is here but is not the published one: truncated, corrupted or altered.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     folder = pathlib.Path(root, "logistic", "heart")
        ...     folder.mkdir(parents=True)
        ...     _ = [(folder / name).write_bytes(b"half of it") for name in ("data.npy", "labels.npy")]
        ...     try:
        ...         load("heart", root=root)
        ...     except IntegrityError as error:
        ...         print("Delete it" in str(error))
        True
    """

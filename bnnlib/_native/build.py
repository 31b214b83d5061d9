"""The kernels' shared object: compiled on first use by the system's compiler, and kept for the user."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from functools import cache
from pathlib import Path

import torch

SWITCH = "BNNLIB_NATIVE"
SOURCE = Path(__file__).with_name("kernels.cpp")
# no option that lets a compiler change numbers: errors and traps of the floating-point unit are all that goes
FLAGS = ("-O3", "-std=c++17", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
# in the order of the source the chains of operations of a long loop wait for one another; GCC can mix them
_ORDERED = ("-fschedule-insns", "-fsched-pressure")
# what not every compiler knows goes if it must: the order, a version for each set of vectors, loops marked as parallel
ATTEMPTS = (
    ("-fopenmp-simd", *_ORDERED),
    ("-fopenmp-simd",),
    ("-fopenmp-simd", "-DBNNLIB_PLAIN"),
    ("-DBNNLIB_PLAIN",),
)
_SECONDS = 300  # for a compiler, which takes a few, and more where many share the machine


class NativeWarning(UserWarning):
    """Noise by key is drawn by PyTorch alone, slower, since there is no compiler or it has failed.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", NativeWarning)  # where nobody minds
    """


class _Failed(Exception):
    """Words on why there is no shared object."""


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise _Failed("no C++ compiler is found (CXX, c++, g++, clang++)")


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home and os.path.isabs(home) else Path.home() / ".cache") / "bnnlib"


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        message = (done.stderr.strip() or done.stdout.strip() or f"it ended with {done.returncode}").splitlines()[0]
        raise _Failed(f"{command[0]} has failed: {message}")
    return done.stdout


def _loads(path: Path) -> bool:
    try:
        ctypes.CDLL(str(path))
    except OSError:  # cut short by a full disk, or of another machine that shares the folder
        return False
    return True


def _library() -> Path:
    """The shared object, compiled if the user has none of this source, compiler and platform.

    Each process that compiles writes a file of its own, which then takes its place at once: who looks finds nothing
    or a whole one.
    """
    compiler, source = _compiler(), SOURCE.read_bytes()
    about = [*FLAGS, *map(str, ATTEMPTS), _output([compiler, "--version"]), platform.machine(), platform.system()]
    name = hashlib.sha256("\n".join(about).encode() + source).hexdigest()[:24]
    path = _folder() / f"kernels-{name}.so"
    if path.exists() and _loads(path):
        return path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(suffix=".so", dir=path.parent)
    os.close(handle)
    try:
        for attempt, extra in enumerate(ATTEMPTS, 1):
            try:
                _output([compiler, *FLAGS, *extra, str(SOURCE), "-o", draft])
                if not _loads(Path(draft)):  # a system without a choice of vectors at run time
                    raise _Failed("what was compiled cannot be loaded")
                break
            except _Failed:
                if attempt == len(ATTEMPTS):
                    raise
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)
    return path


def _share_threads(library: ctypes.CDLL) -> None:
    """Give the library the threads of the OpenMP that PyTorch has loaded, where it is one with GCC's entry."""
    try:
        everything = ctypes.CDLL(None)
        entries = [everything.GOMP_parallel, everything.omp_get_thread_num, everything.omp_get_num_threads]
    except (AttributeError, OSError, TypeError):
        return
    library.bnnlib_threads(*(ctypes.cast(entry, ctypes.c_void_p) for entry in entries))


@cache
def library() -> ctypes.CDLL | None:
    """The loaded kernels, or None where there are none, of which a warning tells once."""
    if os.environ.get(SWITCH, "1") == "0":
        return None
    try:
        if platform.system() == "Windows":
            raise _Failed("they are not built on Windows")
        loaded = ctypes.CDLL(str(_library()))
    except (_Failed, OSError, RuntimeError, subprocess.SubprocessError) as error:
        warnings.warn(
            f"bnnlib's kernels for noise by key are not there: {error}. PyTorch draws the same numbers, slower. "
            f"Install a C++ compiler such as g++ (what it makes is kept in {_kept_in()}, by XDG_CACHE_HOME), or "
            f"set {SWITCH}=0, which leaves this out.",
            NativeWarning,
            stacklevel=2,
        )
        return None
    loaded.bnnlib_run.argtypes = [ctypes.c_char_p]
    loaded.bnnlib_run.restype = loaded.bnnlib_threads.restype = None
    _share_threads(loaded)
    return loaded


def _kept_in() -> str:
    try:
        return str(_folder())
    except RuntimeError:  # no home
        return "no folder, since there is no home"


def threads(items: int) -> int:
    """How many of PyTorch's threads so many items are worth."""
    if items < 32_768:
        return 1
    return max(1, min(torch.get_num_threads(), items // 16_384))

"""Noise by key from C++ and from PyTorch: one function of key and number, whoever computes it, by any threads."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.stats
import torch

from bnnlib import _native
from bnnlib._native import NativeWarning, build, counter
from bnnlib._noise import Keys, draw_logistic, draw_normal, draw_signs, draw_uniform, fold
from bnnlib.nn import GaussianLinear, redraw

KINDS = ("normal", "uniform", "logistic", "signs")
native = pytest.mark.skipif(not _native.available(), reason="there is no C++ compiler")


def numbers(kind, size, key=0x0123456789ABCDEF):
    return _native.fill(torch.empty(size), kind, key)


@native
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 17, 1000, 2**19 + 4097])  # the last beyond a block of the plain function
def test_c_and_pytorch_give_the_same_bits(kind, size):
    for key in (0, 2**64 - 1, fold(3, size)):
        found = numbers(kind, size, key)
        assert torch.equal(found, counter.fill(torch.empty(size), kind, key))
        assert bool(found.isfinite().all())


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_change_numbers(kind, threads):
    found = []
    for number in (1, 2, 4):
        threads(number)
        assert build.threads(100_001) == number
        found.append(numbers(kind, 100_001))
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


LAW = {"normal": scipy.stats.norm(), "uniform": scipy.stats.uniform(), "logistic": scipy.stats.logistic()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAW)
def test_numbers_have_their_law_and_neighbors_nothing_in_common(kind):
    law, width = LAW[kind], 2**16
    rows = np.stack([numbers(kind, width, fold(fold(0, 9), step)).double().numpy() for step in range(32)])
    standard = scipy.stats.norm.ppf(law.cdf(rows))
    # the seeds are fixed: p below 1e-4 has that probability, and so has a z beyond 3.9
    assert scipy.stats.kstest(rows.ravel(), law.cdf).pvalue > 1e-4
    for power, mean, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs((standard**power).mean() - mean) < 3.9 * (variance / standard.size) ** 0.5
    for lag in (1, 2, 8, 16, width // 2):  # the last leads from a cosine to its sine
        assert abs((standard[:, lag:] * standard[:, :-lag]).sum()) < 3.9 * (standard[:, lag:].size) ** 0.5
    pairs = np.corrcoef(standard)[np.triu_indices(32, 1)] * width**0.5
    # 496 keys in pairs, each about N(0, 1): the largest is below 4.6 with probability .998
    assert abs(pairs).max() < 4.6 and abs(pairs.std() - 1) < 0.13


def test_signs_are_fair():
    assert abs(float(numbers("signs", 2**20).sum())) < 3.9 * 2**10


def test_one_key_is_one_draw_in_each_precision_and_layout():
    keys = torch.tensor(fold(0, 5) >> 1)
    like = torch.empty(4, 3, 5, 5)
    for draw in (draw_normal, draw_uniform, draw_logistic):
        first = draw(like, Keys(keys))
        assert torch.equal(draw(like.double(), Keys(keys)), first.double())
        assert torch.equal(draw(like.bfloat16(), Keys(keys)), first.bfloat16())
        last = draw(like.to(memory_format=torch.channels_last), Keys(keys))
        assert torch.equal(last.permute(0, 2, 3, 1).reshape(-1), first.view(-1))  # in the order of memory
        odd = draw(like.permute(3, 1, 0, 2), Keys(keys))
        assert torch.equal(odd.flatten().sort().values, first.flatten().sort().values)
    assert draw_signs((7,), like, Keys(keys)).abs().eq(1).all()


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A process that has not looked for the kernels yet, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(build.SWITCH, raising=False)
    build.library.cache_clear()
    yield monkeypatch
    build.library.cache_clear()


def drawn():
    torch.manual_seed(0)
    layer = GaussianLinear(30, 20, initial_scale=0.1)
    with redraw(layer, seed=1), torch.no_grad():
        return layer(torch.ones(2, 30))


@pytest.mark.parametrize("broken", ["no compiler", "a compiler that fails", "no folder", "off"])
def test_without_kernels_numbers_are_the_same_and_one_warning_says_so(fresh, tmp_path, broken):
    if broken == "no compiler":
        fresh.setenv("PATH", str(tmp_path))
        fresh.delenv("CXX", raising=False)
    elif broken == "a compiler that fails":
        fresh.setenv("CXX", "false")
    elif broken == "no folder":
        (tmp_path / "file").touch()
        fresh.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    else:
        fresh.setenv(build.SWITCH, "0")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        outputs = [drawn(), drawn()]
    assert [one.category for one in said] == ([] if broken == "off" else [NativeWarning])
    assert all(build.SWITCH in str(one.message) and "g++" in str(one.message) for one in said)
    assert torch.equal(*outputs)
    fresh.undo()
    build.library.cache_clear()
    # the noise is the same to the bit, the draw around it to ten roundings
    torch.testing.assert_close(outputs[0], drawn(), rtol=1e-6, atol=1e-6)


COMPILE = """
from bnnlib import _native
import torch
assert _native.available()
print(_native.fill(torch.empty(5), "normal", 3).tolist())
"""


@native
@pytest.mark.slow
def test_processes_that_compile_at_once_leave_one_whole_file(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", COMPILE]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = {one.communicate()[0] for one in both}
    assert [one.returncode for one in both] == [0, 0]
    assert outputs == {f"{numbers('normal', 5, 3).tolist()}\n"}
    assert len(list((tmp_path / "bnnlib").iterdir())) == 1


@native
@pytest.mark.slow
def test_a_file_that_was_cut_short_is_compiled_again(fresh, tmp_path):
    whole = build._library()
    fresh.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    short = tmp_path / "other" / "bnnlib" / whole.name
    short.parent.mkdir(parents=True)
    short.write_bytes(b"\x7fELF")
    assert build._library() == short and short.stat().st_size == whole.stat().st_size


@native
@pytest.mark.slow
def test_a_compiler_without_choices_of_vectors_gives_the_same_numbers(fresh):
    expected = numbers("normal", 1001)
    build.library.cache_clear()
    fresh.setattr(build, "ATTEMPTS", (("-DNOT", "--no-such-option"), ("-DBNNLIB_PLAIN",)))
    assert torch.equal(numbers("normal", 1001), expected)

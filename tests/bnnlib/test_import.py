"""What an import costs: none of bnnlib's packages brings in what takes longer than itself."""

import subprocess
import sys

import pytest

# The compiler alone takes as long to import as PyTorch does. One process for all: each would import PyTorch afresh.
LIGHT = """
import sys, bnnlib.nn, bnnlib.optim, bnnlib.pruning, bnnlib.replicates, bnnlib.train, bnnlib.models
heavy = {'torch._dynamo', 'torch._inductor', 'sympy', 'scipy', 'sklearn', 'torch.distributed.fsdp'}
print(sorted(heavy & set(sys.modules)), bnnlib.metrics.rmse.__name__)
sys.modules['sklearn'] = None
try: bnnlib.estimators
except ImportError as error: print(error)
"""


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_no_import_brings_the_compiler_or_an_extra_and_one_that_is_missing_gives_its_advice_on_use():
    brought, advice = python(LIGHT).splitlines()
    assert brought == "[] rmse" and "pip install 'bnnlib[estimators]'" in advice


def test_the_library_alone_brings_nothing_and_knows_its_packages():
    assert python("import sys, bnnlib; print('torch' in sys.modules, 'nn' in dir(bnnlib))") == "False True"
    # a misspelled name stays what Python makes of it, with the names that there are
    assert python("import bnnlib\ntry: bnnlib.nm\nexcept AttributeError as error: print(error)").startswith(
        "module 'bnnlib' has no attribute 'nm'; its packages are contest, datasets, estimators, functional"
    )

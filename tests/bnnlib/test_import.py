"""What an import costs: none of bnnlib's packages brings in what takes longer than itself."""

import subprocess
import sys


def test_no_import_brings_the_compiler_or_an_extra():
    # the compiler alone takes as long to import as PyTorch does
    code = (
        "import sys, bnnlib.nn, bnnlib.optim, bnnlib.pruning, bnnlib.replicates, bnnlib.train, bnnlib.models\n"
        "heavy = {'torch._dynamo', 'torch._inductor', 'sympy', 'scipy', 'sklearn', 'torch.distributed.fsdp'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_library_alone_brings_nothing_and_imports_its_packages_on_use():
    assert python("import sys, bnnlib; print('torch' in sys.modules, 'nn' in dir(bnnlib))") == "False True"
    assert python("import bnnlib; print(bnnlib.nn.GaussianLinear(2, 1), bnnlib.augmentation.RandomCrop)")
    # a misspelled name stays what Python makes of it, with the names that there are
    assert python("import bnnlib\ntry: bnnlib.nm\nexcept AttributeError as error: print(error)").startswith(
        "module 'bnnlib' has no attribute 'nm'; its packages are augmentation, contest, datasets, estimators"
    )


def test_a_missing_extra_gives_its_advice_on_use():
    code = "import bnnlib, sys\n"
    code += "sys.modules['sklearn'] = None\ntry: bnnlib.estimators\nexcept ImportError as no: print(no)"
    assert "pip install 'bnnlib[estimators]'" in python(code)

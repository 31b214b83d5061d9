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

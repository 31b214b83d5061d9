"""What tests of all studies need."""

import pytest
import torch
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(autouse=True)
def without_onednn_on_avx2():
    """oneDNN of PyTorch 2.13 frees memory twice on AVX2, for channels_last images in narrow networks."""
    with torch.backends.mkldnn.flags(enabled=torch.backends.cpu.get_cpu_capability() != "AVX2"):
        yield

"""What tests of all studies need."""

import pytest
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")

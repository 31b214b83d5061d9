"""Memory that a step frees stays with the process."""

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import torch
from bnnlib import nn as bnn
from bnnlib.replicates import Layout, StackedMLP, StackedSpikeSlab, fit_stacked

{}

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    run(times)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(10)
print(faults(20) / 20)
"""
LAYER = """
layer = bnn.SpikeSlabLinear(784, 400, prior_inclusion_probability=0.1)
optimizer = torch.optim.Adam(layer.parameters(), fused=True)
x = torch.rand(8, 784)

def run(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        (layer(x).square().mean() + bnn.kl_gradient(layer) / 100).backward()
        optimizer.step()
"""
STACK = """
layout = Layout((200, 50, 1), 10)
model = StackedMLP(StackedSpikeSlab(layout, layout.kaiming_uniform(None), 0.1))
x, y = torch.rand(128, 10, 200), torch.rand(128, 10, 1)

def run(epochs):
    fit_stacked(model, x, y, epochs=epochs, batch_size=128, learning_rate=0.01)
"""
HASTY = {"MALLOC_TRIM_THRESHOLD_": "65536"}  # what Dask tells its workers


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that gives memory back")
@pytest.mark.parametrize(("code", "environment", "pages"), [(LAYER, {}, 307), (STACK, HASTY, 98)])
def test_a_step_asks_for_no_new_pages(code, environment, pages):
    """Of those of a weight, or of a stack's weights: where they are returned it is several times as many a step."""
    command = [sys.executable, "-c", FAULTS.format(code)]
    run = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    assert float(run.stdout) < pages

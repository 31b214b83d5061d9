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

layer = bnn.SpikeSlabLinear(784, 400, prior_inclusion_probability=0.1)
optimizer = torch.optim.Adam(layer.parameters(), fused=True)
x = torch.rand(8, 784)

def faults(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        optimizer.zero_grad()
        (layer(x).square().mean() + bnn.kl_gradient(layer) / 100).backward()
        optimizer.step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(10)
print(faults(20) / 20)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that gives memory back")
def test_a_step_asks_for_no_new_pages():
    run = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    # a weight has 307 pages: where they are returned and asked for again it is thousands of faults a step
    assert float(run.stdout) < 307


STACK = """
import resource
import torch
from bnnlib.replicates import Layout, StackedMLP, StackedSpikeSlab, fit_stacked

layout = Layout((200, 50, 1), 10)
model = StackedMLP(StackedSpikeSlab(layout, layout.kaiming_uniform(None), 0.1))
x, y = torch.rand(512, 10, 200), torch.rand(512, 10, 1)

def faults(epochs):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    fit_stacked(model, x, y, epochs=epochs, batch_size=128, learning_rate=0.01)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(3)
print(faults(10) / 40)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that gives memory back")
def test_a_worker_of_dask_trains_a_stack_without_new_pages():
    hasty = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}  # what Dask tells its workers
    run = subprocess.run([sys.executable, "-c", STACK], env=hasty, capture_output=True, text=True, check=True)
    assert float(run.stdout) < 98  # pages of the stack's weights, 401 kB; several times as many without

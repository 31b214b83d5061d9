"""Old names of percentages of what is active warn, name the new ones, and give what these give."""

import pytest
import torch
from torch import nn

from bnnlib import metrics
from bnnlib import nn as bnn
from bnnlib.replicates import Layout, StackedSpikeSlab

SPIKE_SLAB = bnn.SpikeSlabLinear(3, 4, prior_inclusion_probability=0.1, initial_inclusion_probability=0.25)
NOISY = nn.Sequential(nn.Linear(3, 4), bnn.StructuredBayesianPruning(4))
SHARES = torch.tensor([0.5, 0.0, 1.0, 0.5])


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        (lambda: bnn.sparsity(SPIKE_SLAB), lambda: bnn.percent_active(SPIKE_SLAB), r"nn\.percent_active"),
        (lambda: bnn.unit_sparsity(NOISY), lambda: bnn.percent_active_units(NOISY), r"nn\.percent_active_units"),
        (lambda: metrics.sparsity(SHARES), lambda: metrics.percent_active(SHARES), r"metrics\.percent_active"),
        (SPIKE_SLAB.sparsity, SPIKE_SLAB.percent_active, r"percent_active\(\)"),
    ],
)
def test_an_old_name_warns_and_gives_what_it_gave(old, new, name):
    with pytest.warns(DeprecationWarning, match=f"{name} now") as caught:
        value = old()
    assert value == new() and 0.0 < value <= 100.0
    assert caught[0].filename == __file__  # the caller's line, which is the one to change


def test_the_stack_of_a_family_has_the_name_too():
    layout = Layout((3, 4, 1), replicates=2)
    posterior = StackedSpikeSlab(layout, layout.kaiming_uniform(None), prior_inclusion_probability=0.1)
    with pytest.warns(DeprecationWarning, match="percent_active"):
        old = posterior.sparsity()
    assert torch.equal(old, posterior.percent_active()) and old.shape == (2,)

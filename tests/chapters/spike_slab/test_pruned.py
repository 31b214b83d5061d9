"""Pruning of a stack: one ranking over the layers of each network, of which none is emptied."""

import pytest
import torch

from bnnlib.replicates import Layout, StackedDeterministic
from chapters.spike_slab.pruned import prune_stacked


def _posterior(sizes=(20, 6, 6, 1), replicates=3):
    layout = Layout(sizes, replicates)
    return StackedDeterministic(layout, layout.kaiming_uniform(torch.Generator().manual_seed(0)))


def _kept(posterior):
    return torch.stack([mask.flatten(1).sum(1) for mask, _ in posterior.layout.layers(posterior.mask)], dim=1)


@pytest.mark.parametrize("sizes", [(20, 6, 6, 1), (100, 6, 6, 1), (200, 7, 7, 7, 1)])
def test_no_layer_is_empty_at_any_share_of_the_grid(sizes):
    for kept in (0.05, 0.1, 0.3, 0.5):
        posterior = _posterior(sizes)
        total = _kept(posterior).sum(1)[0].item()
        prune_stacked(posterior, 1.0 - kept)
        assert (_kept(posterior) > 0).all()
        assert (_kept(posterior).sum(1) == total - round((1.0 - kept) * total)).all()


def test_weights_are_ranked_over_all_layers_of_their_own_network():
    posterior = _posterior()
    with torch.no_grad():
        for number in range(2):  # in the first network the first layer is small, in the second the last two
            for place, (weight, _) in enumerate(posterior.layout.layers(posterior.weight)):
                weight[number].fill_(2.0 if (place == 0) == (number == 1) else 1.0)
    prune_stacked(posterior, 0.7)  # 49 of 162 weights stay, of which 42 are not in the first layer
    assert _kept(posterior)[:2].tolist() == [[7, 36, 6], [47, 1, 1]]


def test_removed_weights_stay_removed_and_biases_are_left_alone():
    posterior = _posterior()
    prune_stacked(posterior, 0.5)
    gone = ~posterior.mask
    with torch.no_grad():
        posterior.weight[gone] = 10.0  # what an optimizer may do to a weight that is out
    prune_stacked(posterior, 0.9)
    assert not posterior.mask[gone].any() and (posterior.weight[gone] == 0).all()
    assert all(bias.all() for _, bias in posterior.layout.layers(posterior.mask))

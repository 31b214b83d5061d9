"""Where weights lie in the flat vector of a stacked network."""

import torch

from bnnlib.replicates import Layout


def test_layers_are_views_in_storage_order():
    layout = Layout((3, 4, 2), 5)
    flat = torch.arange(5 * layout.num_parameters, dtype=torch.float32).reshape(5, -1)
    (w1, b1), (w2, b2) = layout.layers(flat)
    assert layout.num_parameters == 3 * 4 + 4 + 4 * 2 + 2 and layout.num_layers == 2
    assert (w1.shape, b1.shape, w2.shape, b2.shape) == ((5, 4, 3), (5, 4, 1), (5, 2, 4), (5, 2, 1))
    rebuilt = torch.cat([part.reshape(5, -1) for part in (w1, b1, w2, b2)], dim=1)
    assert torch.equal(rebuilt, flat) and w1.data_ptr() == flat.data_ptr()


def test_weight_mask_and_initial_values():
    layout = Layout((3, 4, 2), 2)
    mask = layout.weight_mask()
    assert mask.sum() == 20 and not mask[12:16].any() and not mask[-2:].any()
    values = layout.kaiming_uniform(torch.Generator().manual_seed(0))
    assert values[:, :16].abs().max() <= 3**-0.5 < 1 and values[:, 16:].abs().max() <= 0.5
    again = layout.kaiming_uniform(torch.Generator().manual_seed(0))
    assert torch.equal(values, again) and not torch.equal(values[0], values[1])

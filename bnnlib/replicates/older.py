"""State_dicts of stacks from before their posteriors were those of layers (bnnlib 0.1.0 until November 2026).

Means, scales and logits have the same names since. What a prior was made of lay in buffers, where its settings are now.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_PRIOR = ("prior_inclusion_probability", "prior_logit", "slab_precision", "spike_precision", "slab_cost", "spike_cost")
_COMPUTED = ("is_weight", "input_of", "prior_scale")  # from the layout and the settings, then as now


def take_settings(state_dict: dict[str, Any], prefix: str) -> dict[str, Tensor]:
    """Take the buffers of older versions out of a state_dict, and return the settings that they stand for.

    Args:
        state_dict: is changed.
        prefix: of the names of the stack's posterior.

    Raises:
        ValueError: some of the buffers of a prior are missing.
    """
    found = {name: state_dict.pop(prefix + name).double() for name in _PRIOR if prefix + name in state_dict}
    for name in _COMPUTED:
        state_dict.pop(prefix + name, None)
    if "prior_inclusion_probability" in found:
        return {"prior_inclusion_probability": found["prior_inclusion_probability"]}
    if "prior_logit" in found:
        return {"prior_inclusion_probability": torch.sigmoid(found["prior_logit"])}
    if not found:
        return {}
    if missing := [name for name in _PRIOR[2:] if name not in found]:
        raise ValueError(
            f"this state_dict is of a stack of bnnlib before the posteriors of layers and stacks became one (November "
            f"2026), but without {', '.join(missing)} of its prior: it is cut, or of another kind of stack."
        )
    slab, spike = found["slab_precision"].rsqrt(), found["spike_precision"].rsqrt()
    # cost = log scale - log of the prior probability; from both, since that of the slab alone may round to 1
    odds = (slab.log() - found["slab_cost"]) - (spike.log() - found["spike_cost"])
    return {"slab_scale": slab, "spike_scale": spike, "prior_inclusion_probability": torch.sigmoid(odds)}

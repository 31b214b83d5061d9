"""State_dicts that stacks wrote before their posteriors were those of layers load strictly, with their priors."""

import math

import pytest
import torch

from bnnlib.replicates import (
    Layout,
    StackedGaussianSpikeSlab,
    StackedMLP,
    StackedScaleMixture,
    StackedSparseVD,
    StackedSpikeSlab,
)

LAYOUT = Layout((3, 4, 1), replicates=2)


def weight(seed: int) -> torch.Tensor:
    return LAYOUT.kaiming_uniform(torch.Generator().manual_seed(seed))


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values)[:, None]


def cost(scale: float, probability: float) -> float:
    return math.log(scale) - math.log(probability)


MIXTURE = {
    "slab_precision": column(2.0**-2, 3.0**-2),
    "spike_precision": column(0.1**-2),
    "slab_cost": column(cost(2.0, 0.2), cost(3.0, 0.2)),
    "spike_cost": column(cost(0.1, 0.8)),
}
# the buffers of each kind, and the settings that they stand for
OLD = {
    "spike_slab": ({"prior_logit": column(-2.0, 1.0)}, {"prior_inclusion_probability": column(-2.0, 1.0).sigmoid()}),
    "spike_slab, older": (
        {"prior_logit": column(-2.0, 1.0), "prior_inclusion_probability": column(-2.0, 1.0).sigmoid()},
        {"prior_inclusion_probability": column(-2.0, 1.0).sigmoid()},
    ),
    "mixture": (MIXTURE, {"slab_scale": column(2.0, 3.0), "spike_scale": 0.1, "prior_inclusion_probability": 0.2}),
    "sparse_vd": ({"is_weight": LAYOUT.weight_mask()}, {"threshold": 3.0}),
}


def stack(kind: str, seed: int = 0) -> StackedMLP:
    if kind.startswith("spike_slab"):
        return StackedMLP(StackedSpikeSlab(LAYOUT, weight(seed), 0.5))
    if kind == "mixture":
        return StackedMLP(StackedScaleMixture(LAYOUT, weight(seed), slab_scale=1.0, spike_scale=0.5))
    return StackedMLP(StackedSparseVD(LAYOUT, weight(seed)))


def older(kind: str) -> dict[str, torch.Tensor]:
    state = {n: v for n, v in stack(kind, 1).state_dict().items() if not n.endswith("_extra_state")}
    return state | {f"posterior.{name}": value for name, value in OLD[kind][0].items()}


@pytest.mark.parametrize("kind", OLD)
def test_an_older_state_loads_with_its_prior(kind):
    state, model = older(kind), stack(kind)
    names = set(state)
    model.load_state_dict(state)
    assert set(state) == names  # it is the caller's
    assert torch.equal(model.posterior.weight, state["posterior.weight"])
    for name, value in OLD[kind][1].items():
        own = torch.as_tensor(getattr(model.posterior, name), dtype=torch.float64)
        # the buffers were float32
        torch.testing.assert_close(own, torch.as_tensor(value, dtype=torch.float64).expand_as(own), rtol=1e-5, atol=0)
    again = stack(kind)
    again.load_state_dict(model.state_dict())
    if kind != "mixture":  # whose divergence is an estimate at a draw
        kl = model.posterior.kl_divergence()
        torch.testing.assert_close(again.posterior.kl_divergence(), kl, rtol=1e-6, atol=0)


def test_what_is_cut_or_of_another_kind_is_refused():
    state = older("mixture")
    del state["posterior.slab_cost"]
    with pytest.raises(ValueError, match=r"before the posteriors .*\(November 2026\), but without slab_cost"):
        stack("mixture").load_state_dict(state)
    posterior = StackedGaussianSpikeSlab(LAYOUT, weight(0), slab_scale=1.0, spike_scale=0.1)
    posterior.load_state_dict({n.removeprefix("posterior."): v for n, v in older("mixture").items()})
    with pytest.raises(ValueError, match="settings slab_scale, spike_scale, which StackedSpikeSlab does not have"):
        stack("spike_slab").load_state_dict(older("mixture"))

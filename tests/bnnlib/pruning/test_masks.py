"""Masks: what they prune and that they last."""

import pytest
import torch
from torch import nn

from bnnlib.models import mlp
from bnnlib.pruning import MagnitudePruner, Masks
from bnnlib.train.fit import fit
from tests.seeded import seeded


def network(seed: int = 0) -> nn.Sequential:
    return mlp((6, 8, 3), generator=seeded(seed))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = seeded(1)
    return torch.randn(40, 6, generator=generator), torch.randint(3, (40,), generator=generator)


@pytest.mark.parametrize("make", [Masks, lambda m: Masks(m, "global"), MagnitudePruner,
                                  lambda m: MagnitudePruner(m, persistent=False)])  # fmt: skip
def test_the_smallest_weights_go_in_exact_number_and_the_rest_is_left_alone(make):
    model = mlp((20, 30, 4), generator=seeded())
    pruner = make(model)
    before = {name: weight.detach().clone() for name, weight in pruner.weights.items()}
    (pruner.update if isinstance(pruner, Masks) else pruner.prune)(0.37)
    layers = {name: (before[name].flatten(), weight.flatten()) for name, weight in pruner.weights.items()}
    if getattr(pruner, "scope", "layer") == "global":
        layers = {"all": tuple(map(torch.cat, zip(*layers.values(), strict=True)))}
    removed = {name: int((weight == 0).sum()) for name, (_, weight) in layers.items()}
    assert removed == ({"all": 266} if "all" in layers else {"0.weight": 222, "2.weight": 44})  # of 600 and of 120
    for old, weight in layers.values():
        assert old[weight == 0].abs().max() <= old[weight != 0].abs().min()
        assert torch.equal(weight[weight != 0], old[weight != 0])
    assert pruner.sparsity == pytest.approx(266 / 720)


def test_masks_outlive_an_optimizer_with_momentum():
    model = network()
    masks = Masks(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    generator = seeded(0)
    fit(model, data(), epochs=2, batch_size=8, optimizer=optimizer, generator=generator)  # momentum builds up
    masks.update(0.6)
    pruned = {name: ~mask for name, mask in masks.masks.items()}
    fit(model, data(), epochs=3, batch_size=8, optimizer=optimizer, generator=generator, callbacks=[masks])
    for name, weight in masks.weights.items():
        assert (weight[pruned[name]] == 0).all()
        assert (weight[~pruned[name]] != 0).all()


def test_pruned_weights_are_not_regrown_and_tiny_ones_rank_right():
    model = mlp((4, 1), generator=seeded(0))
    model[0].weight.data.copy_(torch.tensor([[1e-12, 2e-12, 3e-12, 1.0]]))
    masks = Masks(model)
    masks.update(0.25)
    assert masks.masks["0.weight"].tolist() == [[False, True, True, True]]
    model[0].weight.data[0, 3] = 0.0  # a live weight that happens to be 0 goes next, the pruned one stays pruned
    masks.update(0.5)
    assert masks.masks["0.weight"].tolist() == [[False, True, True, False]]
    with pytest.raises(ValueError, match="not regrown"):
        masks.update(0.0)


def test_masks_travel_in_a_state_dict():
    masks, other = Masks(network()), Masks(network(1))
    masks.update(0.5)
    other.load_state_dict(masks.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(masks.masks.values(), other.masks.values(), strict=True))
    assert all((w[~other.masks[n]] == 0).all() for n, w in other.weights.items())
    with pytest.raises(ValueError, match="another network"):
        Masks(mlp((6, 9, 3))).load_state_dict(masks.state_dict())


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_a_live_weight_of_zero_stays_behind_what_is_pruned(scope):
    weight = nn.Parameter(torch.tensor([0.0, 3.0, 2.0, 1.0]))
    masks = Masks({"weight": weight}, scope)
    masks.masks["weight"] = torch.tensor([True, True, True, False])  # and the optimizer has moved it since
    masks.update(0.25)
    assert masks.masks["weight"].tolist() == [True, True, True, False]


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_the_share_known_in_advance_is_the_one_that_is_pruned(scope):
    make = lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2))  # noqa: E731
    masks = Masks(make(), scope)
    for sparsity in (0.0, 0.31, 0.317, 0.9, 1.0):
        masks.update(sparsity)
        known, counted = masks.sparsity, Masks(make(), scope)
        counted.load_state_dict(masks.state_dict())
        assert known == counted.sparsity == sum(int((~m).sum()) for m in masks.masks.values()) / (108 + 128)
    with pytest.raises(ValueError, match="a share of 1 is pruned already"):
        masks.update(0.5)

"""The lottery ticket: rounds of pruning, each followed by rewinding what is left."""

import copy

import pytest
import torch

from bnnlib.models import mlp
from bnnlib.pruning import lottery_ticket, lottery_ticket_sparsities
from bnnlib.train.fit import Callback, fit


def setting():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 10, generator=generator)
    return mlp((10, 20, 3), generator=generator), (x, (x[:, :3] * 2).argmax(dim=1))


@pytest.mark.parametrize("rewind_step", [0, 5])
def test_each_round_starts_from_the_rewound_weights(rewind_step):
    model, data = setting()
    starts, early = [], []

    def train(model, masks):
        starts.append((copy.deepcopy(model.state_dict()), {n: m.clone() for n, m in masks.masks.items()}))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

        class Early(Callback):
            def on_step(self, run):
                if len(starts) == 1 and run.step == 5:
                    early.append(copy.deepcopy(model.state_dict()))

        generator = torch.Generator().manual_seed(7)
        fit(model, data, epochs=4, batch_size=16, optimizer=optimizer, generator=generator, callbacks=[masks, Early()])

    masks = lottery_ticket(model, train, final_sparsity=0.8, rounds=3, rewind_step=rewind_step)
    origin = starts[0][0] if rewind_step == 0 else early[0]
    assert len(starts) == 4  # three rounds and the ticket itself
    shares = []
    for state, kept in starts[1:]:
        for name, mask in kept.items():
            assert torch.equal(state[name], origin[name] * mask)
        assert torch.equal(state["0.bias"], origin["0.bias"])
        shares.append(1 - sum(int(m.sum()) for m in kept.values()) / 260)
    assert shares == pytest.approx(lottery_ticket_sparsities(0.8, 3), abs=2 / 260)  # two layers, whole weights
    # the returned network is trained, and still sparse
    assert masks.sparsity == pytest.approx(0.8, abs=2 / 260)
    weights = model.state_dict()
    assert all((weights[name][~mask] == 0).all() for name, mask in masks.masks.items())
    assert not torch.equal(weights["0.weight"], starts[-1][0]["0.weight"])


def test_the_masks_come_from_the_trained_weights_and_are_nested():
    model, data = setting()
    ends, kept = [], []

    def train(model, masks):
        kept.append(masks.masks["0.weight"].clone())
        fit(model, data, epochs=3, batch_size=16, generator=torch.Generator().manual_seed(7), callbacks=[masks])
        ends.append(model[0].weight.detach().clone())

    lottery_ticket(model, train, final_sparsity=0.75, rounds=2)
    for end, mask, before in zip(ends, kept[1:], kept, strict=False):
        assert (mask <= before).all()
        assert end[mask].abs().min() >= end[~mask & before].abs().max()


def test_rewinding_to_a_step_that_never_came_is_refused():
    model, data = setting()

    def train(model, masks):
        fit(model, data, epochs=1, batch_size=64, callbacks=[masks])

    with pytest.raises(ValueError, match="rewind_step is 9, but the first round"):
        lottery_ticket(model, train, final_sparsity=0.5, rounds=1, rewind_step=9)
    with pytest.raises(ValueError, match="final_sparsity"):
        lottery_ticket(model, train, final_sparsity=1.0)

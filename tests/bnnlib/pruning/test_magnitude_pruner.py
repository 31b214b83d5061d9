"""The paper's schedule, and pruning by magnitude with and without a lasting mask."""

import pytest
import torch

from bnnlib.models import mlp
from bnnlib.pruning import AGPPruner, MagnitudePruner, agp_sparsity, smooth_sparsity
from bnnlib.train.fit import Callback, Run, fit
from chapters.shared.networks import resnet20
from tests.seeded import seeded

PATTERN = "layer*.conv*.weight"


def network():
    return mlp((20, 30, 4), generator=seeded())


def data():
    generator = seeded(1)
    return torch.randn(80, 20, generator=generator), torch.randint(4, (80,), generator=generator)


def zeros(pruner):
    return {name: int((w == 0).sum()) for name, w in pruner.weights.items()}


def step(pruner, k):
    pruner.on_step(Run(network(), None, step=k))


def move(pruner, generator):
    with torch.no_grad():
        for weight in pruner.weights.values():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.01)


def test_the_schedule():
    assert smooth_sparsity(0, 0.9) == 0.0
    assert smooth_sparsity(50, 0.9) == pytest.approx(0.9 * 0.01, rel=1e-12)
    # each `steps` steps shrink what is missing by the factor `base`
    missing = [0.7 - smooth_sparsity(k, 0.7, base=0.8, steps=10) for k in (0, 10, 20, 30)]
    assert missing == pytest.approx([0.7, 0.56, 0.448, 0.3584], rel=1e-12)
    assert smooth_sparsity(1e6, 0.9) == pytest.approx(0.9)
    # the published log with S = 0.9 of all parameters: 57.0 % after 100 epochs, 77.8 % after 200, in whole tenths
    for epochs, logged in ((100, 57.0), (200, 77.8), (300, 85.5), (400, 88.3), (500, 89.4)):
        share = smooth_sparsity(50 * epochs, 0.917) * 267_264 / 272_474
        assert 100 * share == pytest.approx(logged, abs=0.2)


def test_a_weight_regrows_without_a_mask_and_does_not_with_one():
    histories = {}
    for persistent in (True, False):
        pruner, generator = MagnitudePruner(network(), lambda k: 0.5, persistent=persistent, frequency=5), seeded(2)
        histories[persistent] = seen = []
        for k in range(1, 11):
            move(pruner, generator)
            step(pruner, k)
            seen.append({name: (w == 0).clone() for name, w in pruner.weights.items()})
    kept, free = histories[True], histories[False]
    share = [float(torch.cat([m.flatten() for m in row.values()]).float().mean()) for row in free]
    assert share == [0.0] * 4 + [0.5] + [0.0] * 4 + [0.5]  # between prunings the noise moves every weight
    assert any((free[4][name] & ~free[9][name]).any() for name in free[4])
    for row in kept[4:]:
        assert all(torch.equal(row[name], kept[4][name]) for name in row)


def test_names_and_patterns():
    model = resnet20(generator=seeded())
    pruner = MagnitudePruner(model, names=[PATTERN], persistent=False)
    assert sum(w.numel() for w in pruner.weights.values()) == 267_264
    pruner.prune(0.917)
    parameters = list(model.parameters())
    # the biases of the batch norms start at 0 and are no pruned weights
    pruned = sum(int((p == 0).sum()) for p in parameters if p.dim() > 1)
    assert pruned / 272_474 == pytest.approx(0.9, abs=0.001)
    assert not (model.conv1.weight == 0).any() and not (model.layer2[0].downsample[0].weight == 0).any()
    assert list(MagnitudePruner(network(), names="2.weight").weights) == ["2.weight"]
    named = dict(network().named_parameters())
    assert list(MagnitudePruner(named, names=["0.weight"]).weights) == ["0.weight"]


RAMP = {"final_sparsity": 0.9, "begin_step": 10, "end_step": 50}


def smooth(k):
    return smooth_sparsity(k, 0.8, base=0.9, steps=3)


SCHEDULES = {  # the pruner, and the share after step k
    "smooth": (lambda m: MagnitudePruner(m, smooth, frequency=4), lambda k: smooth(k // 4 * 4)),
    "cubic ramp": (
        lambda m: AGPPruner(m, frequency=5, **RAMP),
        lambda k: agp_sparsity(min(50, k // 5 * 5), **RAMP) if k >= 10 else 0.0,
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_weights_follow_their_schedule_inside_training(schedule):
    make, target = SCHEDULES[schedule]
    model, shares = network(), []
    pruner = make(model)

    class Watch(Callback):
        def on_step(self, run):
            shares.append(sum(zeros(pruner).values()) / 720)

    fit(model, data(), epochs=6, batch_size=8, generator=seeded(3), callbacks=[pruner, Watch()])
    assert len(shares) == 60 and shares[-1] > 0.3
    for k, share in enumerate(shares, 1):
        assert share == pytest.approx(target(k), abs=1.01 / 720)  # two layers round by half a weight at most


def test_a_state_of_another_kind_is_refused():
    lasting, passing = MagnitudePruner(network()), MagnitudePruner(network(), persistent=False)
    lasting.prune(0.5)
    passing.prune(0.5)
    assert passing.state_dict() == {}
    with pytest.raises(ValueError, match="persistent is False"):
        passing.load_state_dict(lasting.state_dict())
    with pytest.raises(ValueError, match="persistent is True"):
        lasting.load_state_dict(passing.state_dict())


def test_all_weights_pruned_is_refused_and_nothing_is_touched():
    pruner = MagnitudePruner(network())
    for sparsity in (1.0, 0.9999):
        with pytest.raises(ValueError, match=r"all 600 weights of 0\.weight"):
            pruner.prune(sparsity)
    assert not any(zeros(pruner).values())
    with pytest.raises(ValueError, match="all 720 weights of all parameters"):
        MagnitudePruner(network(), scope="global").prune(1.0)
    with pytest.raises(ValueError, match="all 600"):
        fit(model := network(), data(), epochs=1, batch_size=8, callbacks=[MagnitudePruner(model, lambda k: 1.0)])


def test_a_lasting_mask_does_not_shrink_and_a_passing_one_may():
    lasting, passing = MagnitudePruner(network()), MagnitudePruner(network(), persistent=False)
    for pruner in (lasting, passing):
        pruner.prune(0.5)
    with pytest.raises(ValueError, match="pruned already"):
        lasting.prune(0.2)
    move(passing, seeded(4))
    passing.prune(0.2)
    assert zeros(passing) == {"0.weight": 120, "2.weight": 24}

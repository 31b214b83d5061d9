"""Training of discriminators: what it finds, its options, and that it resumes bit for bit."""

import pytest
import torch
from torch import nn

from bnnlib.sampling import IndependentDiscriminator, LatentProposal, MarkovDiscriminator, PointProposal
from bnnlib.train import Checkpoint
from chapters.implicit_acceptance.discriminating import train_discriminator
from tests.seeded import seeded as generator


def draw(count, generator=None):
    return 1.5 * torch.randn(count, 1, generator=generator)


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "loss"), [(IndependentDiscriminator, "cce"), (IndependentDiscriminator, "ub"),
                                            (MarkovDiscriminator, "mce"), (MarkovDiscriminator, "ub")])  # fmt: skip
def test_training_finds_the_density_ratio(kind, loss):
    """p = N(0, 1), q = N(0, 1.5^2): log p / q is -x^2 (1 - 1 / 2.25) / 2 up to a constant."""
    discriminator = kind(network(), 1e-4)
    data = torch.randn(20_000, 1, generator=generator(3))
    optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-2)
    training = train_discriminator(
        discriminator, data, PointProposal(draw=draw), steps=500, loss=loss, batch_size=512, optimizer=optimizer,
        generator=generator(4),
    )  # fmt: skip
    grid = torch.linspace(-2, 2, 41)[:, None]
    with torch.no_grad():
        found = discriminator.log_ratio(grid, torch.zeros_like(grid))
    exact = -0.5 * grid[:, 0].square() * (1 - 1 / 2.25)
    assert (found - exact).abs().max() < 0.25  # 0.05 to 0.15 over seeds and losses
    assert training.history.shape == (500, 1) and training.steps == 500


def test_a_killed_training_resumes_bit_for_bit(tmp_path, dies):
    data = torch.randn(200, 1, generator=generator(3))
    latents = torch.randn(200, 2, generator=generator(5))
    decoder = nn.Linear(2, 1)

    def run(checkpoint, steps=30):
        discriminator = MarkovDiscriminator(network(), 0.01)
        return discriminator, train_discriminator(
            discriminator, data, LatentProposal(decoder, 2, 0.5), steps=steps, loss="ub", batch_size=16,
            latents=latents, generator=generator(4), checkpoint=checkpoint, snapshots=(0, 10, 30),
        )  # fmt: skip

    whole, first = run(None)
    with pytest.raises(dies.Killed):
        run(dies(tmp_path / "one.pt", 17))
    resumed, second = run(Checkpoint(tmp_path / "one.pt"))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))
    assert torch.equal(first.history, second.history)
    assert list(first.snapshots) == list(second.snapshots) == [0, 10, 30]
    for step, state in first.snapshots.items():
        assert all(torch.equal(state[name], second.snapshots[step][name]) for name in state)
    # a longer run goes on from a finished shorter one
    path = tmp_path / "two.pt"
    run(Checkpoint(path), steps=12)
    longer, _ = run(Checkpoint(path))
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), longer.parameters(), strict=True))


def test_averaged_weights_are_the_mean_with_geometric_parts(tmp_path, dies):
    """Snapshots of a run without averages, weighted by hand; resumed in the middle as well, and the same batches."""
    factor, steps = 0.8, 6
    data, proposal = torch.randn(200, 1, generator=generator(3)), PointProposal(draw=draw)

    def run(average, checkpoint=None):
        discriminator = IndependentDiscriminator(nn.Sequential(nn.BatchNorm1d(1), network()), 0.01)
        return discriminator, train_discriminator(
            discriminator, data, proposal, steps=steps, loss="cce", batch_size=16, average=average,
            generator=generator(4), checkpoint=checkpoint, snapshots=range(steps + 1),
        )  # fmt: skip

    (plain, first), (averaged, second) = run(0.0), run(factor)
    assert torch.equal(first.history, second.history)  # the averages have no part in the descent
    trained = [name for name, _ in plain.named_parameters()]
    for count in range(1, steps + 1):
        parts = torch.tensor([factor ** (count - step) for step in range(1, count + 1)])
        for name, found in second.snapshots[count].items():
            path = torch.stack([first.snapshots[step][name] for step in range(1, count + 1)])
            if name in trained:
                assert torch.allclose(found, torch.tensordot(parts / parts.sum(), path, 1), atol=1e-6)
            else:
                assert torch.equal(found, path[-1])  # of the normalization: copied
    assert all(torch.equal(first.snapshots[0][name], value) for name, value in second.snapshots[0].items())
    assert all(torch.equal(second.snapshots[steps][name], value) for name, value in averaged.state_dict().items())
    path = tmp_path / "one.pt"
    with pytest.raises(dies.Killed):
        run(factor, dies(path, 3))
    resumed, third = run(factor, Checkpoint(path))
    assert all(torch.equal(value, averaged.state_dict()[name]) for name, value in resumed.state_dict().items())
    assert torch.equal(second.history, third.history)
    with pytest.raises(ValueError, match="cannot go on from there"):
        run(0.0, Checkpoint(path))


def test_a_schedule_multiplies_the_rates_and_gives_them_back():
    data, proposal, rates = torch.randn(50, 1, generator=generator(3)), PointProposal(draw=draw), []

    class Watched(torch.optim.SGD):
        def step(self, closure=None):
            rates.append([group["lr"] for group in self.param_groups])
            return super().step(closure)

    discriminator = IndependentDiscriminator(network(), 0.1)
    first, *rest = discriminator.parameters()
    optimizer = Watched([{"params": [first], "lr": 0.5}, {"params": rest, "lr": 0.25}])
    options = {"loss": "cce", "optimizer": optimizer, "generator": generator(4)}
    train_discriminator(discriminator, data, proposal, steps=4, schedule=lambda step: 1 - step / 4, **options)
    assert rates == [[0.5, 0.25], [0.375, 0.1875], [0.25, 0.125], [0.125, 0.0625]]
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.25]
    with pytest.raises(ValueError, match="schedule"):
        train_discriminator(discriminator, data, proposal, steps=1, schedule=lambda step: -1.0, **options)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.25]


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "one.pt"

    def train(rows):
        data, proposal = torch.zeros(rows, 1), PointProposal(draw=draw)
        discriminator = IndependentDiscriminator(network(), 0.1)
        train_discriminator(discriminator, data, proposal, steps=2, loss="cce", checkpoint=Checkpoint(path))

    train(20)
    with pytest.raises(ValueError, match="cannot go on from there"):
        train(30)


@pytest.mark.slow
def test_the_penalty_brings_back_what_shot_beyond_the_bound():
    """At a logit of 60 the bounded one has no gradient left: only the penalty moves the network."""
    data, proposal = torch.randn(500, 1, generator=generator(3)), PointProposal(draw=draw)
    found = {}
    for penalty in (0.0, 1e-3):
        lost = network()
        with torch.no_grad():
            lost[2].bias.fill_(60.0)
        discriminator = IndependentDiscriminator(lost, 0.01)
        training = train_discriminator(
            discriminator, data, proposal, steps=800, loss="cce", generator=generator(4), logit_penalty=penalty,
            optimizer=torch.optim.SGD(discriminator.parameters(), lr=0.1),
        )  # fmt: skip
        found[penalty] = float(training.history[-20:].mean())
    assert found[0.0] > 4.0 and found[1e-3] < 1.5

"""Training a stack: as each network would train alone, checkpoints, divergence by name."""

import pytest
import torch
import torch.nn.functional as F

from bnnlib import functional as bF
from bnnlib import replicates as R
from bnnlib._checks import DivergedError
from bnnlib.train import Checkpoint, cosine
from tests.bnnlib.replicates.unstacked import unstack
from tests.seeded import seeded as generator


def data(n=50, replicates=3):
    x = torch.randn(n, replicates, 5, generator=generator(1), dtype=torch.float64)
    return x, x[..., :1].tanh() + 0.1 * torch.randn(n, replicates, 1, generator=generator(2), dtype=torch.float64)


def stack_of(kind=R.StackedDeterministic, replicates=3):
    layout = R.Layout((5, 4, 1), replicates)
    return R.StackedMLP(kind(layout, layout.kaiming_uniform(generator(), torch.float64)), "tanh")


PRIORS = ([1.0, 2.7, 0.5], [0.1, 0.05, 0.2], [0.5, 0.1, 0.6])
KINDS = {
    "deterministic": R.StackedDeterministic,
    "gaussian": lambda *a: R.StackedGaussian(*a, 1.3, 0.1),
    "spike-slab": lambda *a: R.StackedSpikeSlab(*a, [1e-6, 0.1, 0.5], 1.3, 0.1, 0.6),
    "gaussian-spike-slab": lambda *a: R.StackedGaussianSpikeSlab(*a, *PRIORS, 0.05),
}


def alone(network, x, noise, kind):
    """Output and divergence of one network from the layers of bnnlib.nn, at given noise."""
    divergence = 0.0
    for layer, parts in zip((network[0], network[2]), noise, strict=True):
        drawn = []
        groups = [(p,) for p in layer.parameters()] if kind == "deterministic" else layer._groups()
        for (mean, *rest), (z, u) in zip(groups, parts, strict=True):
            scale = F.softplus(rest[0]) if rest else 0.0
            drawn.append(bF.spike_slab_draw(mean, *rest, z, bF.logistic_noise(u))[0] if rest[1:] else mean + scale * z)
        if kind != "deterministic":
            divergence = divergence + layer.kl_divergence()
        x = F.linear(torch.tanh(x) if layer is network[2] else x, *drawn)
    return x, divergence


@pytest.mark.parametrize("kind", KINDS)
def test_a_stack_trains_as_its_networks_alone(kind):
    """Four epochs at the same noise, under a prior and, where it can be, a scale of the divergence for each of them."""
    (x, y), stack = data(), stack_of(KINDS[kind])
    layout, kl_scale = stack.posterior.layout, 0.3
    if kind != "deterministic":
        kl_scale = torch.tensor([[1.0], [0.1], [3.0]], dtype=torch.float64)
    networks, weights = [unstack(stack, r) for r in range(3)], torch.as_tensor(kl_scale).expand(3, 1) / 50
    R.fit_stacked(stack, x, y, epochs=4, batch_size=16, learning_rate=0.01, generator=generator(5), kl_scale=kl_scale)
    for r, network in enumerate(networks):
        optimizer, source = torch.optim.Adam(network.parameters(), lr=0.01), generator(5)
        for _ in range(4):
            for rows in torch.randperm(50, generator=source).split(16):
                z, u = torch.zeros(2, 3, layout.num_parameters, dtype=torch.float64)
                if kind != "deterministic":
                    z.normal_(generator=source)
                if kind == "spike-slab":
                    u.uniform_(generator=source)
                noise = [
                    ((w[r], v[r]), (b[r, :, 0], c[r, :, 0]))
                    for (w, b), (v, c) in zip(layout.layers(z), layout.layers(u), strict=True)
                ]
                optimizer.zero_grad()
                output, divergence = alone(network, x[rows, r], noise, kind)
                (0.5 * (output - y[rows, r]).square().mean() + weights[r, 0] * divergence).backward()
                optimizer.step()
        # 16 Adam steps amplify the rounding of differently ordered sums
        ours, theirs = ([*one.parameters()] for one in (unstack(stack, r), network))
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("likelihood", [False, True])
def test_resuming_is_bit_identical(likelihood, tmp_path, dies):
    x, y = data()
    settings = {"epochs": 4, "batch_size": 16, "learning_rate": 0.01, "schedule": cosine(4)}

    def train(checkpoint=None):
        stack, loss = stack_of(R.StackedGaussian), R.GaussianLikelihood(3).double() if likelihood else R.gaussian_nll
        R.fit_stacked(stack, x, y, generator=generator(5), loss=loss, checkpoint=checkpoint, **settings)
        return [*stack.parameters(), *(loss.parameters() if likelihood else ())]

    with pytest.raises(dies.Killed):
        train(dies(tmp_path / "run.pt", 2))
    assert Checkpoint(tmp_path / "run.pt").load()["epoch"] == 1
    torch.testing.assert_close(train(), train(Checkpoint(tmp_path / "run.pt")), rtol=0, atol=0)
    with pytest.raises(ValueError, match="no generator"):
        R.fit_stacked(stack_of(), x, y, checkpoint=Checkpoint(tmp_path / "run.pt"), **settings)


def test_kl_scale_zero_leaves_the_prior_out():
    x, y = data()
    stack = stack_of(R.StackedGaussian)
    before = stack.posterior.weight_rho.detach().clone()
    R.fit_stacked(stack, x * 0, y * 0, epochs=2, batch_size=50, learning_rate=0.01, generator=generator(), kl_scale=0.0)
    # inputs of zero: first-layer weights have no gradient at all without a prior
    assert torch.equal(stack.posterior.weight_rho[:, :20], before[:, :20])
    R.fit_stacked(stack, x * 0, y * 0, epochs=2, batch_size=50, learning_rate=0.01, generator=generator(), kl_scale=1.0)
    assert (stack.posterior.weight_rho[:, :20] > before[:, :20]).all()


def test_kl_scale_may_follow_the_epochs():
    x, y = data()
    stacks = [stack_of(R.StackedGaussian) for _ in range(2)]
    options = {"batch_size": 50, "learning_rate": 0.01}
    R.fit_stacked(stacks[0], x, y, epochs=2, generator=generator(), kl_scale=lambda epoch: float(epoch > 0), **options)
    noise, optimizer = generator(), torch.optim.Adam(stacks[1].parameters(), lr=0.01, fused=True)
    for scale in (0.0, 1.0):
        R.fit_stacked(stacks[1], x, y, epochs=1, generator=noise, kl_scale=scale, optimizer=optimizer, **options)
    torch.testing.assert_close(*([*stack.parameters()] for stack in stacks), rtol=0, atol=0)


def test_hooks_see_every_step_and_epoch_and_the_rates_of_the_schedule():
    x, y = data()
    steps, rates, settings = [], {}, {"epochs": 2, "batch_size": 20, "learning_rate": 0.1}
    R.fit_stacked(stack_of(), x, y, **settings, schedule=lambda epoch: 1 / (1 + epoch),
                after_step=lambda model, step: steps.append(step),
                after_epoch=lambda model, epoch, optimizer: rates.update({epoch: optimizer.param_groups[0]["lr"]}),
                )  # fmt: skip
    assert steps == list(range(6)) and rates == pytest.approx({0: 0.1, 1: 0.05})


def test_a_diverging_replicate_is_named_and_the_others_are_as_without_it():
    x, y = data()
    bad = y.clone()
    bad[:, 1] = float("nan")
    stack, clean = stack_of(), stack_of()
    settings = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01}
    with pytest.raises(DivergedError, match=r"replicates \[1\] are NaN.*learning rate"):
        R.fit_stacked(stack, x, bad, generator=generator(5), **settings)
    R.fit_stacked(clean, x, y, generator=generator(5), **settings)
    assert torch.equal(stack.posterior.weight[[0, 2]], clean.posterior.weight[[0, 2]])

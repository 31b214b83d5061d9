"""A stack of chains does what its chains would do alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.optim import SGHMC, SGLD, DivergedError, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.optim.chains import Chains

CHAINS, ROWS = 3, 20


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()


def data() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(9)
    return torch.randn(ROWS, 4, dtype=torch.float64), torch.randint(3, (ROWS,))


def fed(kind, feed, parameters, **options):
    """A sampler whose noise comes from a list of lists instead of its generator."""

    class Fed(kind):
        def _draw(self, parameters, temperature):
            return next(feed)

    return Fed(parameters, 1e-3, **options)


PRIOR = {"spike_scale": 0.3, "slab_variance": 2.0, "step_size": polynomial(1, 3, 0.7), "nu": 2.0, "lam": 1.0}


@pytest.mark.parametrize(("kind", "options"), [(SGLD, {}), (SGHMC, {}), (SGHMC, {"scheme": "euler"})])
def test_a_stack_equals_separate_chains_with_the_same_noise(kind, options):
    models, (x, y) = [network(seed) for seed in range(CHAINS)], data()
    chains = Chains(models)
    generator = torch.Generator().manual_seed(1)
    noises = [[torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in chains.parameters()] for _ in range(5)]
    prior = SpikeSlabGaussianLaplacePrior({"w": chains.named_parameters()["0.weight"]}, batch_dims=1, **PRIOR)
    sampler = fed(kind, iter(noises), chains.parameters(), **options)
    for _ in range(5):
        sampler.zero_grad()
        chains.energy(x, y, num_data=100).sum().backward()
        prior.add_gradient_()
        sampler.step()
        prior.update()
    for c, model in enumerate(models):
        alone = SpikeSlabGaussianLaplacePrior({"w": model[0].weight}, **PRIOR)
        sampler = fed(kind, iter([[n[c] for n in noise] for noise in noises]), model.parameters(), **options)
        for _ in range(5):
            sampler.zero_grad()
            (100 * F.cross_entropy(model(x), y)).backward()
            alone.add_gradient_()
            sampler.step()
            alone.update()
        # the same double-precision operations, in batched kernels that may add in another order
        for name, value in model.state_dict().items():
            torch.testing.assert_close(chains.state(c)[name], value, rtol=1e-9, atol=1e-10, msg=name)
        torch.testing.assert_close(prior.rho["w"][c], alone.rho["w"], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(prior.sigma[c], alone.sigma, rtol=1e-9, atol=1e-12)


def test_two_chains_from_one_state_are_independent():
    """40,000 pairs of a standard normal target, both from the same start: their correlation is that of noise."""
    chains = Chains([nn.Linear(200, 200, bias=False)] * 2)
    sampler = SGHMC(chains.parameters(), 0.1, generator=torch.Generator().manual_seed(0))
    (weight,) = chains.parameters()
    for _ in range(200):
        weight.grad = weight.detach().clone()  # of the energy w^2 / 2
        sampler.step()
    pair = weight.detach().flatten(1)
    correlation = float(torch.corrcoef(pair)[0, 1])
    assert abs(correlation) < 4.0 / 200.0  # four standard errors
    # the start is forgotten: the chains left it together, and the variance is the target's within 1 %, two
    # standard errors of 80,000 coordinates
    assert float(pair.var()) == pytest.approx(1.0, abs=0.01)


def test_chains_may_have_batches_of_their_own():
    chains, (x, y) = Chains([network(seed) for seed in range(CHAINS)]).eval(), data()
    stack_x = torch.stack([x + c for c in range(CHAINS)])
    stack_y = torch.stack([y.roll(c) for c in range(CHAINS)])
    energies = chains.energy(stack_x, stack_y, num_data=7, per_chain=True)
    expected = [7 * F.cross_entropy(network(c).eval()(stack_x[c]), stack_y[c]) for c in range(CHAINS)]
    torch.testing.assert_close(energies, torch.stack(expected))
    assert chains(x).shape == (CHAINS, ROWS, 3) and len(chains) == CHAINS and len(list(chains)) == CHAINS


def test_a_diverging_chain_does_not_take_the_others_along():
    chains = Chains([nn.Linear(2, 2)] * 2)
    sampler = SGLD(chains.parameters(), 0.1)
    sampler.check_every = 0
    with torch.no_grad():
        chains.parameters()[0][1] = torch.nan
    for _ in range(150):
        sampler.zero_grad()
        chains.energy(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]), num_data=4).sum().backward()
        sampler.step()
    assert all(torch.isfinite(value).all() for value in chains.state(0).values())
    with pytest.raises(DivergedError, match=r"after 150 steps.*lr = 0\.1"):
        sampler.check_finite()


def test_states_go_round():
    chains, other = Chains([network(0), network(1)]), Chains([network(2), network(3)])
    other.load_state_dict(chains.state_dict())
    model = network(5)
    model.load_state_dict(other.state(1))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), network(1).parameters(), strict=True))
    with pytest.raises(ValueError, match="these chains have"):
        Chains([network(0)]).load_state_dict(chains.state_dict())
    with pytest.raises(ValueError, match="at least one chain"):
        Chains([])

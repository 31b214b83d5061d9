"""Random problems under the Gaussian spike-and-slab prior, shared by the tests of its functions."""

import pytest
import torch

DOUBLE = torch.float64


def log_uniform(low, high, count, generator):
    return torch.exp(low + (high - low) * torch.rand(count, generator=generator, dtype=DOUBLE))


def draw_problems(count=10_000, seed=0):
    """(mean, scale), (tau_1, tau_0, pi): a third anywhere, a third near the threshold, a third near probability 0 or 1.

    e^-3 <= tau_1 <= e^3, e^-8 <= tau_0 <= e^-1, 1e-9 < pi < 1 - 1e-9, |mean| and scale from e^-15 to e^3.
    """
    g = torch.Generator().manual_seed(seed)
    slab = log_uniform(-3, 3, count, g)
    spike = torch.minimum(log_uniform(-8, -1, count, g), slab * log_uniform(-1, -0.2, count, g))
    pi = torch.sigmoid(-20 + 40 * torch.rand(count, generator=g, dtype=DOUBLE))
    mean, scale = log_uniform(-15, 3, count, g), log_uniform(-15, 3, count, g)
    # the second moment at which logit p* has a given value, (3.17) solved for it
    wanted = torch.where(torch.arange(count) % 3 == 1, 4.0, 600.0) * torch.randn(count, generator=g, dtype=DOUBLE)
    moment = 2 * (wanted - torch.logit(pi) + torch.log(slab / spike)) / (spike**-2 - slab**-2)
    share = torch.rand(count, generator=g, dtype=DOUBLE)
    aimed = (torch.arange(count) % 3 > 0) & (moment > 0)
    mean = torch.where(aimed, (share * moment.clamp_min(0)).sqrt(), mean)
    scale = torch.where(aimed, ((1 - share) * moment.clamp_min(0)).sqrt(), scale)
    sign = torch.where(torch.rand(count, generator=g) < 0.5, -1.0, 1.0)
    return (mean * sign, scale), (slab, spike, pi)


@pytest.fixture
def random_problems():
    """The function that draws them: called as random_problems(count=10_000, seed=0)."""
    return draw_problems

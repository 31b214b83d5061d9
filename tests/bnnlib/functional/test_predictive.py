"""Quantiles of a mixture of normals, against its own distribution function and the normal's."""

import torch

from bnnlib.functional import mixture_quantile


def test_one_component_is_a_normal():
    mean, scale = torch.tensor([[1.0, -3.0]], dtype=torch.float64), torch.tensor([[2.0, 0.5]], dtype=torch.float64)
    found = mixture_quantile(mean, scale, 0.975)
    normal = torch.distributions.Normal(mean[0], scale[0]).icdf(torch.tensor(0.975, dtype=torch.float64))
    torch.testing.assert_close(found, normal)


def test_the_mixture_has_the_probability_below_it():
    generator = torch.Generator().manual_seed(0)
    mean = 5.0 * torch.randn(30, 4, generator=generator, dtype=torch.float64)
    scale = 0.1 + torch.rand(30, 1, generator=generator, dtype=torch.float64)
    for probability in (0.001, 0.025, 0.5, 0.975):
        found = mixture_quantile(mean, scale, probability)
        below = torch.special.ndtr((found - mean) / scale).mean(dim=0)
        torch.testing.assert_close(below, torch.full_like(below, probability), rtol=1e-9, atol=0.0)

"""Quantiles of a mixture of normals, against its own distribution function."""

import pytest
import torch

from bnnlib.functional import mixture_quantile


@pytest.mark.parametrize("components", [1, 30])
def test_the_mixture_has_the_probability_below_it(components):
    generator = torch.Generator().manual_seed(0)
    mean = 5.0 * torch.randn(components, 4, generator=generator, dtype=torch.float64)
    scale = 0.1 + torch.rand(components, 1, generator=generator, dtype=torch.float64)
    for probability in (0.001, 0.025, 0.5, 0.975):
        found = mixture_quantile(mean, scale, probability)
        below = torch.special.ndtr((found - mean) / scale).mean(dim=0)
        torch.testing.assert_close(below, torch.full_like(below, probability), rtol=1e-9, atol=0.0)

"""The spike-and-slab Gaussian-Laplace prior at extreme settings, against torch.distributions."""

import pytest
import torch

from bnnlib.functional.ssgl import expected_precisions, slab_probability
from chapters.learned_priors.formulas import ssgl_log_density, ssgl_penalty, ssgl_penalty_gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("v1", [1e-12, 1e-5, 10.0])
def test_nothing_overflows(dtype, v1):
    w = torch.tensor([0.0, 1e-30, 1e-6, 1.0, 1e4, -1e4], dtype=dtype)
    rho = slab_probability(w, 0.5, 1.0, 0.1, v1)
    assert torch.isfinite(rho).all() and (rho >= 0).all() and (rho <= 1).all()
    precisions = expected_precisions(rho, 0.1, v1)
    for values in (
        ssgl_log_density(w, 0.5, 1.0, 0.1, v1),
        ssgl_penalty(w, *precisions, 1.0),
        ssgl_penalty_gradient(w, *precisions, 1.0),
    ):
        assert torch.isfinite(values).all()
    assert ssgl_penalty_gradient(w, *precisions, 1.0)[0] == 0.0

"""The acceptance test and the losses on it: their ends, gradients, shapes and errors."""

import math

import torch

from bnnlib import functional as bF
from tests.seeded import double as t

INF = math.inf


def test_the_test_at_the_ends():
    log_ratio = t(-INF, -1e6, 0.0, 1e-3, 1e6, INF)
    assert torch.equal(bF.acceptance_probability(log_ratio), t(0.0, 0.0, 1.0, 1.0, 1.0, 1.0))
    assert bF.acceptance_probability(t(math.nan)).isnan().all()  # for the caller to find
    assert bF.acceptance_probability(torch.tensor([200.0, -200.0])).isfinite().all()
    assert bF.conditional_cross_entropy(t(1e4, -1e4), t(1e4)).isfinite()  # of a discriminator that is sure


def test_the_acceptance_loss_has_no_gradient_where_all_is_accepted():
    log_ratio = t(-2.0, -0.5, 0.7).requires_grad_()
    bF.acceptance_rate_loss(log_ratio).backward()
    assert torch.allclose(log_ratio.grad, t(-math.exp(-2.0), -math.exp(-0.5), 0.0) / 3)

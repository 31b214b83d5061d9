"""Sparse variational dropout: the ends of its divergence, and its derivative against autograd."""

import math

import pytest
import torch

from bnnlib.functional import log_alpha, sparse_vd_kl, sparse_vd_kl_sum, sparse_vd_variance


def test_divergence_and_log_alpha_are_finite_far_out_and_at_a_mean_of_zero():
    value = sparse_vd_kl(torch.tensor([-100.0, -5.0, 0.0, 3.0, 100.0], dtype=torch.float64))
    assert value.isfinite().all() and value[-1] < 1e-20
    found = log_alpha(torch.zeros(1), torch.full((1,), -10.0))
    assert found.item() == pytest.approx(-10.0 - math.log(1e-8), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_divergence_s_gradient_and_the_token_of_the_variance_are_those_of_plain_operations(dtype):
    generator = torch.Generator().manual_seed(0)
    mean, noise, downstream = torch.randn(3, 2000, generator=generator, dtype=torch.float64)
    point = (mean * torch.logspace(-6, 1, 2000)).to(dtype), (4 * noise - 6).to(dtype)
    downstream = downstream.to(dtype)
    wide = [p.double().requires_grad_() for p in point]
    divergence = sparse_vd_kl(log_alpha(*wide)).sum()
    alone = torch.autograd.grad(0.3 * divergence, wide, retain_graph=True)
    both = torch.autograd.grad((wide[1].exp() * downstream.double()).sum() + 0.3 * divergence, wide)
    eps = torch.finfo(dtype).eps
    # log alpha is a difference of logarithms up to 20, s (1 - s) of a sigmoid s always has the error eps, and PyTorch's
    # softplus is a line from 20 on
    slope = 2.0 * wide[0].detach().abs() / (wide[0].detach().square() + 1e-8)
    weighted = (wide[1].detach().exp() * downstream).abs()

    def check(ours, expected):
        for mine, theirs, size in zip(ours, expected, (slope, 1.0 + weighted), strict=True):
            assert mine.dtype == dtype
            error = (20.0 * eps + math.exp(-20.0)) * size + 100.0 * eps * theirs.abs()
            assert ((mine.double() - theirs).abs() <= error).all()

    tracked = [p.clone().requires_grad_() for p in point]
    value = sparse_vd_kl_sum(*tracked)
    assert value.item() == pytest.approx(divergence.item(), rel=1e-5)
    check(torch.autograd.grad(0.3 * value, tracked), alone)
    variance, token = sparse_vd_variance(*tracked)
    assert torch.equal(variance, point[1].exp()) and token.item() == 0.0
    loss = (variance * downstream).sum() + 0.3 * token
    for create_graph in (False, True):  # as numbers twice, and as a graph
        check(torch.autograd.grad(loss, tracked, create_graph=create_graph, retain_graph=True), both)
        check(torch.autograd.grad(loss, tracked, create_graph=create_graph, retain_graph=True), both)
    (only,) = torch.autograd.grad((sparse_vd_variance(*tracked)[0] * downstream).sum(), tracked[1])
    assert torch.equal(only, downstream * variance.detach())

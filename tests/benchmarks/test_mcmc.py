"""The benchmark of chains: its rows, and that batch and loop sample the same posterior."""

import pytest
import torch

from benchmarks import mcmc
from bnnlib.sampling import sample


@pytest.mark.filterwarnings("ignore:.*chains never moved")
def test_rows(printed, monkeypatch):
    monkeypatch.setattr(mcmc, "LEARNING_STEPS", 2)
    rows = printed(mcmc, "--chains", "4", "--draws", "8", "--loop-chains", "2", "--device", "cpu")
    ours = [row for row in rows if row["library"] == "bnnlib"]
    assert [row["kernel"] for row in ours] == ["independent", "random walk", "HMC"]
    fields = {"library", "kernel", "chains", "draws", "device", "factor"}
    fields |= {"batch_s", "loop_s", "loop_chains", "learn_s", "ess_per_s"}
    assert all(set(row) == fields and row["batch_s"] > 0 and row["loop_s"] > 0 for row in ours)
    (peer,) = [row for row in rows if row["library"] == "emcee"]
    assert peer.get("note") == "not installed" or peer["batch_s"] > 0


@pytest.mark.slow
def test_the_mode_and_every_kernel_fit_the_posterior():
    target, generator = mcmc.Posterior(torch.device("cpu")), torch.Generator().manual_seed(0)
    mode = target.mode.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(target.log_prob(mode[None]).sum(), mode)
    assert gradient.abs().max() < 1e-3
    start = target.start(100, generator)
    for name, (kernel, _) in mcmc.kernels(target, generator).items():
        trace = sample(kernel, start, 60, generator=generator)
        assert 0.1 < float(trace.acceptance.mean()) <= 1.0, name
        # the posterior of 1,000 data is nearly its Laplace approximation
        centered = (trace.draws.mean(dim=(0, 1)) - target.mode) / target.covariance.diagonal().sqrt()
        assert centered.abs().max() < 0.5, name

"""Steps recorded as CUDA graphs, and benchmarks on a GPU: the interface everywhere, the rest where there is one."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import memory, noise, step_time
from benchmarks.graphs import GraphedStep
from bnnlib import nn as bnn
from bnnlib._native import gpu
from bnnlib.sampling import SGLD
from chapters.shared.networks import lenet5_caffe

MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.01}
LAYERS = {
    "gaussian": bnn.GaussianLinear,
    "gaussian-local": lambda a, b: bnn.GaussianLinear(a, b, estimator="local"),
    "gaussian-flipout": lambda a, b: bnn.GaussianLinear(a, b, estimator="flipout"),
    "gaussian-spike-slab": partial(bnn.GaussianSpikeSlabLinear, **MIXTURE),
    "scale-mixture": partial(bnn.ScaleMixtureLinear, **MIXTURE),
    "spike-slab": partial(bnn.SpikeSlabLinear, prior_inclusion_probability=0.1),
    "sparse-vd": bnn.SparseVDLinear,
    "horseshoe": bnn.HorseshoeLinear,
}
NUM_DATA = 1000
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def training(model: nn.Module, lr: float):
    """A step of Adam that returns its loss."""
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, capturable=device.type == "cuda")

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) + bnn.kl_gradient(model) / NUM_DATA
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def batch(device: str = "cpu", shape: tuple[int, ...] = (20,)) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(64, *shape, generator=generator), torch.randint(0, 10, (64,), generator=generator)
    return x.to(device), y.to(device)


def test_without_cuda_it_is_the_step_itself():
    losses = []
    for wrap in (lambda step, _: step, GraphedStep):
        torch.manual_seed(0)
        step = wrap(training(bnn.GaussianLinear(20, 10), 0.01), batch())
        losses.append([float(step(*batch())) for _ in range(3)])
    assert losses[0] == losses[1]


def test_other_shapes_and_no_example_are_refused():
    step = GraphedStep(training(bnn.GaussianLinear(20, 10), 0.01), batch())
    with pytest.raises(ValueError, match=r"recorded for .*64, 20.* but got .*63, 20.*Drop the last, smaller batch"):
        step(*(part[:63] for part in batch()))
    with pytest.raises(ValueError, match="example is empty"):
        GraphedStep(lambda: None, ())


@needs_gpu
@pytest.mark.parametrize("kind", LAYERS)
def test_replays_draw_what_the_plain_step_draws_on_cuda(kind):
    """At a learning rate of 0 the losses of both are draws of one law; 5 standard errors: fails by chance in 1e-6."""
    torch.manual_seed(0)
    model = nn.Sequential(LAYERS[kind](20, 32), nn.ReLU(), LAYERS[kind](32, 10)).cuda()
    plain, x = training(model, 0.0), batch("cuda")
    recorded = GraphedStep(plain, x)
    first, second = (torch.stack([step(*x).clone() for _ in range(400)]).double() for step in (plain, recorded))
    assert len(second.unique()) > 350  # new noise in every replay; a few agree in float32
    error = (first.var() / 400 + second.var() / 400).sqrt()
    assert (first.mean() - second.mean()).abs() < 5 * error
    assert 0.75 < second.std() / first.std() < 1.33  # of 400 draws each


@needs_gpu
def test_a_recorded_network_with_noise_on_its_units_learns_on_cuda():
    torch.manual_seed(0)
    model = bnn.insert_unit_noise(lenet5_caffe(), after=["conv2"], before=["conv2", "fc1", "fc2"]).cuda()
    x = batch("cuda", (1, 28, 28))
    step = GraphedStep(training(model, 1e-3), x)
    losses = torch.stack([step(*x).clone() for _ in range(200)])
    assert losses.isfinite().all() and losses[-20:].mean() < losses[:20].mean() - 0.1


@needs_gpu
def test_a_recorded_sampler_samples_with_a_generator_of_its_own_on_cuda():
    theta = torch.zeros(10_000, device="cuda", requires_grad=True)
    sampler = SGLD([theta], lr=0.1)

    def plain(x):
        sampler.zero_grad()
        theta.grad = theta.detach() - x  # of a normal density around x
        sampler.step()
        return theta.detach().clone()

    step = GraphedStep(plain, (torch.ones((), device="cuda"),), generators=[sampler.generator])
    for _ in range(200):
        draws = step(torch.ones((), device="cuda"))
    # the step of 0.1 widens the variance to 1 / (1 - 0.1 / 4) or less; 5 standard errors of 10,000 chains are 0.05
    assert abs(draws.mean().item() - 1.0) < 0.05 and 0.9 < draws.std().item() < 1.1


def row(layer, batch, mode, ms):
    told = {"library": "bnnlib", "layer": layer, "batch": batch, "mode": mode}
    return told | {"ratio": ms / 0.5, "ms": ms, "base_ms": 0.5}


def test_the_table_has_a_line_for_each_step_and_a_column_for_each_batch_and_mode():
    rows = [row("gaussian", 128, "eager", 1.5), row("sgld", 128, "eager", 0.75), row("gaussian", 128, "graphs", 1.0)]
    lines = [line.split() for line in step_time.table(rows).splitlines()]
    assert lines[0] == "ms and ratio 128 rows, eager 128 rows, graphs".split()
    assert ["bnnlib", "gaussian", "1.500", "3.00", "1.000", "2.00"] in lines
    assert ["bnnlib", "sgld", "0.750", "1.50", "-"] in lines
    assert ["deterministic", "0.500", "1.00", "0.500", "1.00"] in lines


def test_quick_takes_the_device_that_is_asked_for():
    before = torch.get_num_threads()
    try:
        there = step_time._options(["--quick", "--device", "cuda"])
        assert (there.device, there.batch, there.steps) == ("cuda", [128, 1024], 20)
        here = step_time._options(["--quick"])
        assert (here.device, here.batch, here.steps) == ("cpu", [128], 4)
    finally:
        torch.set_num_threads(before)


@needs_gpu
def test_steps_are_measured_as_they_are_and_recorded(printed):
    layers = ["gaussian", "spike-slab", "gaussian-local", "sghmc"]
    options = ("--device", "cuda", "--batch", "8", "--rounds", "1", "--steps", "2", "--layers", *layers)
    rows = [row for row in printed(step_time, *options) if row["library"] == "bnnlib"]
    assert {(row["layer"], row["mode"]) for row in rows} == {(a, b) for a in layers for b in ("eager", "graphs")}
    assert all(row["ratio"] > 0 and row["device"] == "cuda" for row in rows)


@needs_gpu
def test_a_fused_step_keeps_nothing_but_parameters_gradients_and_moments(printed):
    if gpu.kernels() is None:
        pytest.skip("Triton is not installed")
    found = printed(memory, "--batch", "8", "--device", "cuda", "--layers", "gaussian", "spike-slab")
    rows = {row["layer"]: row for row in found if row["library"] in ("bnnlib", "torch")}
    for layer, parameters in (("gaussian", 2), ("spike-slab", 3)):
        assert rows[layer]["standing"] == pytest.approx(16.0 * parameters, abs=0.1)
        # the weights and their gradients, 4 bytes each; workspaces of products are the deterministic step's too
        more = [row["peak"] - row["standing"] for row in (rows[layer], rows["deterministic"])]
        assert more[0] - more[1] < 9.0


@needs_gpu
def test_passes_over_memory_have_times_and_rates(capsys):
    rows = noise.on_gpu(5_000, 2, torch.device("cuda"), calls=2)
    fields = {"way", "count", "device", "ns", "ns_quartiles", "per_second", "gb_s", "of_copy"}
    assert all(set(row) == fields and row["ns"] > 0 for row in rows)
    assert rows[0]["way"] == "copy" and rows[0]["of_copy"] == 1.0
    assert len(rows) == 4 + 9 * (gpu.kernels() is not None)

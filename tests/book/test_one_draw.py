"""The page's table of what a keyed draw survives: each cell is the draw and the gradients of the plain pass, or not."""

import contextlib
import copy
import pickle
from functools import partial

import pytest
import torch
import torch._functorch.config as compiler
import torch.distributed as dist
import torch.multiprocessing
from torch.func import functional_call, vmap
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from bnnlib import nn as bnn
from tests.book.test_what_layers_can import PAGE, ROWS, table_of
from tests.saved import saved as loaded

SEED = 3
CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # sums in another order: some ten roundings of float32
# 8 bits of mantissa through a few products; the largest gradient is the measure, since small ones cancel
ROUGH = {"rtol": 0.05, "atol": 0.05}


def step(model, x, run=None, around=None, number=0):
    """Outputs and gradients of one keyed training step, gradients by parameter name."""
    model.zero_grad()
    with bnn.redraw(model, SEED, number), around or contextlib.nullcontext():
        outputs = (model if run is None else run)(x)  # a compiled model has no truth value
        (outputs.float().square().mean() + bnn.kl_gradient(model) / 10).backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return {"outputs": outputs.detach(), **found}


def equal(found, expected, tolerance=None):
    """Raise unless both steps gave the same."""
    assert found.keys() == expected.keys() and len(expected) > 1
    for name, value in expected.items():
        scale = float(value.abs().max()) or 1.0
        torch.testing.assert_close(found[name].to(value.dtype) / scale, value / scale, **(tolerance or CLOSE))


def compiled(model, x, budget=1.0):
    torch.compiler.reset()
    fast = torch.compile(model, backend="aot_eager_decomp_partition")  # the compiler's recomputation, without its code
    for number in (0, 1):  # one graph: the key is no constant of it
        patch = compiler.patch(activation_memory_budget=budget)
        equal(step(model, x, fast, patch, number), step(model, x, number=number))


def checkpointed(model, x):
    equal(step(model, x, lambda x: checkpoint(model, x, use_reentrant=False)), step(model, x))


def reentrant(model, x):
    # the reentrant kind records nothing unless an input asks for a gradient
    anchor = torch.zeros((), requires_grad=True)
    equal(step(model, x, lambda x: checkpoint(lambda x, _: model(x), x, anchor, use_reentrant=True)), step(model, x))


def vmapped(model, x):
    equal(step(model, x, lambda x: vmap(model, randomness="same")(torch.stack([x, x]))[1]), step(model, x))


def functional(model, x):
    equal(step(model, x, lambda x: functional_call(model, dict(model.named_parameters()), (x,))), step(model, x))


def autocast(model, x):
    equal(step(model, x, around=torch.autocast("cpu", torch.bfloat16)), step(model, x), ROUGH)


def double(model, x):
    other = copy.deepcopy(model).double()
    equal(step(other, x.double() if x.is_floating_point() else x), step(model, x))


def called_twice(model, x):
    equal(step(model, x, lambda x: (model(x) + model(x)) / 2), step(model, x))


def saved(model, x):
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.load_state_dict(loaded(model.state_dict()))
    equal(step(other, x), step(model, x))


def copied(model, x):
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        equal(step(other, x), step(model, x))


def exported(model, x):
    with bnn.redraw(model, SEED):
        program = torch.export.export(model, (x,))
        expected = model(x)
    for _ in range(2):  # without the layers' keys: those of the export are in the program
        torch.testing.assert_close(program.module()(x), expected, **CLOSE)


COLUMNS = {
    "compiled": compiled,
    **{budget: partial(compiled, budget=float(budget)) for budget in (".5", "0")},
    "ckpt": checkpointed,
    "ckpt r": reentrant,
    "vmap": vmapped,
    "func": functional,
    "bf16": autocast,
    "double": double,
    "twice": called_twice,
    "saved": saved,
    "copied": copied,
    "export": exported,
}


def made(name):
    torch.manual_seed(0)
    make, inputs = ROWS[name]
    return make(), inputs()


@pytest.mark.parametrize("name", ROWS)
def test_the_draw_is_noise(name):
    model, x = made(name)
    with bnn.redraw(model, SEED):
        first = model(x)
    with bnn.redraw(model, SEED, step=1):
        assert not torch.allclose(first, model(x))


# PyTorch's own LSTM runs in bfloat16 on some processors and raises on others
DEPENDS = ("`to_bayesian(LSTM)`", "bf16")


@pytest.mark.slow
def test_the_table_says_where_the_draw_is_the_plain_one():
    assert table_of(COLUMNS, "=", depends=DEPENDS) in PAGE.read_text(encoding="utf-8")


def _rank(rank, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    for name in ROWS:
        model, x = made(name)
        expected = step(model, x)
        equal(step(model, x, DistributedDataParallel(model, find_unused_parameters=True)), expected)
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_draw_the_plain_pass_s_noise(tmp_path):
    torch.multiprocessing.spawn(_rank, (str(tmp_path / "store"),), nprocs=2)  # raises what a rank raises

"""Noise by key and fused draws in Triton: the bits of the C++, on a GPU where there is one, else by the interpreter."""

import copy
import importlib.util
import re
import sys
import warnings

import pytest
import torch
from torch import nn

from benchmarks.graphs import GraphedStep
from bnnlib import _native
from bnnlib import nn as bnn
from bnnlib._native import DeviceKey, NativeWarning, build, counter, gpu
from bnnlib._native.keys import fold
from bnnlib._noise import Keys, draw_normal
from bnnlib.functional._autograd import factor
from bnnlib.nn import kl_gradient, redraw
from bnnlib.posteriors import fused
from tests.bnnlib.nn.test_fused import LAYERS, OBJECTIVES, draws_and_gradients

CUDA = torch.cuda.is_available()
PLACE = "cuda" if CUDA else "cpu"
triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
native = pytest.mark.skipif(not _native.available(), reason="there is no C++ compiler")
needs_gpu = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
KINDS = ("normal", "uniform", "logistic", "signs")
NAMES = ("gaussian", "channels last", "closed form", "mixture", "horseshoe")  # of layers
KEYS = (0, 1, 2**64 - 1, fold(3, 5), fold(4, 6))


def loaded(interpreted):
    """The kernels' module by itself; what its functions become is decided when it is read."""
    importlib.import_module("triton.compiler.code_generator")  # Triton's own functions stay compiled ones
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", str(int(interpreted)))
        place = build.SOURCE.with_name("triton_kernels.py")
        spec = importlib.util.spec_from_file_location(f"triton_kernels_{interpreted}", place)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where the interpreter looks for the source
        spec.loader.exec_module(module)
        return module


@pytest.fixture(scope="module")
def kernels():
    return gpu.kernels() if CUDA else loaded(interpreted=True)


def filled(kernels, kind, size, key):
    values = torch.empty(size, device=PLACE)
    gpu.launch(kernels, kind, (key,), (), (values,))
    return values.cpu()


@triton
@pytest.mark.parametrize("size", [1, 2, 3, 17, 511, 1025, 5003])
def test_numbers_have_the_bits_of_plain_pytorch(kernels, size):
    for key in KEYS:
        words = filled(kernels, "words", size, key).view(torch.int32)
        assert torch.equal(words, counter._words(torch.arange(size, dtype=torch.int32), key))
        for kind in KINDS:
            assert torch.equal(filled(kernels, kind, size, key), counter.fill(torch.empty(size), kind, key)), kind


@triton
@needs_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_a_large_draw_has_the_bits_of_plain_pytorch(kernels, kind):
    size = 2**22 + 4097
    assert torch.equal(filled(kernels, kind, size, KEYS[3]), counter.fill(torch.empty(size), kind, KEYS[3]))


# kernel: inputs, outputs, keys; and constants by what the divergence counts, whose first number is it
SHARE, MIXTURE = 0.013, (1.0, 9999.0, -4.605)
CASES = {
    "gaussian": (2, 1, 1, lambda share: ()),
    "spike_slab": (3, 1, 2, lambda share: ()),
    "gaussian_grad": (3, 2, 1, lambda share: (share, share * 4.0)),
    "profile_grad": (3, 2, 1, lambda share: (share, *MIXTURE)),
    "mixture_grad": (3, 2, 1, lambda share: (share, *MIXTURE)),
    "spike_slab_grad": (4, 3, 2, lambda share: (share, 2.04, 15.3, 3.3)),
}


def tensors(kernel, size):
    """mean, rho, a third and a fourth, with what lies at the ends."""
    generator = torch.Generator().manual_seed(0)
    mean, rho, logit, grad = (torch.randn(size, generator=generator) for _ in range(4))
    rho.mul_(4.0).sub_(3.0)[:6] = torch.tensor([-79.0, -120.0, 20.0, 95.0, -torch.inf, torch.nan])
    logit.mul_(4.0)[:6] = torch.tensor([80.0, -80.0, 40.0, -torch.inf, torch.nan, 0.0])
    mean[6:8] = torch.tensor([torch.nan, 1e3])
    return [mean, rho, *([logit] if "spike" in kernel else []), grad]


@triton
@native
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # of the interpreter: NaN as an integer
@pytest.mark.parametrize("kernel", CASES)
def test_draws_and_gradients_have_the_bits_of_the_c(kernels, kernel):
    inputs, outputs, number, constants = CASES[kernel]
    for size in (9, 1027):
        given, keys = tensors(kernel, size)[:inputs], KEYS[3 : 3 + number]
        share = float(torch.tensor(SHARE))  # a power of two times 4, or nothing, is a product without rounding
        expected = [torch.empty(size) for _ in range(outputs)]
        _native.run(kernel, keys, given, expected, constants(share))
        for on_device in (False, True):  # what the divergence counts, and the keys
            found = [torch.empty(size, device=PLACE) for _ in range(outputs)]
            own = [one.to(PLACE) for one in given]
            if on_device:
                factor_there = torch.tensor(share, device=PLACE)
                gpu.launch(kernels, kernel, keys, own, found, constants(1.0), factor_there if constants(1.0) else None)
            else:
                gpu.launch(kernels, kernel, keys, own, found, constants(share))
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one.cpu(), other, rtol=0.0, atol=0.0, equal_nan=True)


@triton
def test_keys_on_the_device_are_those_of_redraw(kernels):
    step = torch.tensor(2**40 + 7, device=PLACE)
    base = fold(fold(fold(0, 5), int(step)), 3)
    keys = gpu.layer_keys(kernels, fold(0, 5), step, 3, 19)
    assert [int(key) % 2**64 for key in keys] == [fold(base, layer) for layer in range(19)]
    for kind in KINDS:
        found = filled(kernels, kind, 33, DeviceKey(keys[18], 2))
        assert torch.equal(found, counter.fill(torch.empty(33), kind, fold(fold(base, 18), 2)))


@triton
def test_compiled_for_a_gpu_no_operation_is_contracted_or_rounded_in_another_way(tmp_path, monkeypatch):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    module = loaded(interpreted=False)
    numbers = {"i32": ("n", "k0", "k1", "k2", "k3"), "fp32": ("c0", "c1", "c2", "c3")}
    for kernel, (inputs, outputs, *_) in {"normal": (0, 1), **CASES}.items():
        tensors = {f"in{i}": i < inputs for i in range(4)} | {f"out{i}": i < outputs for i in range(3)}
        tensors["share"] = True
        types = {name: "*fp32" if there else "constexpr" for name, there in tensors.items()} | {"key_at": "*i64"}
        types |= {name: kind for kind, names in numbers.items() for name in names}
        fixed = {name: None for name, there in tensors.items() if not there} | {"KIND": kernel, "BLOCK": module.BLOCK}
        source = ASTSource(module.pairs, {**types, "KIND": "constexpr", "BLOCK": "constexpr"}, fixed)
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": False})
        code = made.asm["ptx"]
        assert "sqrt.rn.f32" in code and not re.search(r"\bfma\.|\.ftz|\.approx|div\.full", code), kernel


@triton
@native
@pytest.mark.parametrize("name", NAMES)
def test_layers_take_their_gradients_from_the_kernels(kernels, monkeypatch, name):
    """On a CPU too, with the interpreter in the place of the C++."""
    layer, found = LAYERS[name](), []
    for own in (False, True):
        if own and not CUDA:
            monkeypatch.setattr(_native, "run", lambda *arguments: gpu.launch(kernels, *arguments))
            monkeypatch.setattr(fused, "_share", lambda token: (0.0, None) if token is None else (1.0, factor(token)))
        layer = layer.to(PLACE if own else "cpu")
        for objective in ("weights alone", "both"):
            drawn, gradients = draws_and_gradients(copy.deepcopy(layer), OBJECTIVES[objective], used=None)
            found.append([*drawn, *gradients])
    for one, other in zip(found[2] + found[3], found[0] + found[1], strict=True):
        scale = other.abs().max()
        # the noise has the same bits; sums around it some thirty roundings of 6e-8
        torch.testing.assert_close(one.cpu() / scale, other / scale, rtol=2e-6, atol=2e-6)


@triton
@needs_gpu
@pytest.mark.parametrize("name", [*NAMES, "local"])
def test_a_recorded_step_draws_what_redraw_draws_at_each_step(name):
    layers = LAYERS | {"local": lambda: bnn.GaussianLinear(33, 21, estimator="local", initial_scale=0.1)}
    model, count = layers[name]().to(PLACE), torch.zeros((), dtype=torch.int64, device=PLACE)
    x = torch.ones(2, *((3, 8, 8) if name == "channels last" else (33,)), device=PLACE)

    def step(x, number):
        model.zero_grad()
        with redraw(model, seed=9, step=number):
            out = model(x)
            (out.sum() + 0.1 * kl_gradient(model)).backward()
        return out.detach(), *(p.grad for p in model.parameters())

    def recorded(x):
        found = step(x, count)
        count.add_(1)
        return found

    graphed = GraphedStep(recorded, (x,))
    count.fill_(5)
    for number in (5, 6, 7):
        found = [one.clone() for one in graphed(x)]
        for one, other in zip(found, step(x, number), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * float(other.abs().max()))


@triton
@needs_gpu
def test_a_key_of_python_is_not_recorded():
    layer = LAYERS["gaussian"]().to(PLACE)

    def step(x):
        with redraw(layer, seed=1, step=2), torch.no_grad():
            return layer(x)

    with pytest.raises(RuntimeError, match=r"every replay would repeat the noise. Call .*redraw.*tensor on the device"):
        GraphedStep(step, (torch.ones(2, 33, device=PLACE),))
    torch.cuda.synchronize()
    assert step(torch.ones(2, 33, device=PLACE)).isfinite().all()


@pytest.fixture
def fresh(monkeypatch):
    """A process that has not looked for the kernels yet."""
    gpu.kernels.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    gpu.kernels.cache_clear()


@pytest.mark.parametrize("why", ["off", "no Triton"])
def test_without_triton_pytorch_draws_on_a_gpu_and_says_nothing(fresh, why):
    if why == "off":
        fresh.setenv(build.SWITCH, "0")
    else:
        fresh.setitem(sys.modules, "bnnlib._native.triton_kernels", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gpu.kernels() is None
        if CUDA:
            key, like = torch.tensor(fold(0, 5) >> 1), torch.empty(1000, device=PLACE)
            expected = like.normal_(generator=torch.Generator(PLACE).manual_seed(fold(int(key), 0)))
            assert torch.equal(draw_normal(like, Keys(key)), expected)


@triton
def test_where_triton_fails_one_warning_says_why(fresh):
    def failing(*_):
        raise RuntimeError("Failed to find C compiler.\nPlease specify one.")

    fresh.setattr(gpu, "launch", failing)
    fresh.setattr(torch, "empty", lambda *_, **__: None)
    fresh.setitem(sys.modules, "bnnlib._native.triton_kernels", nn)  # any module: none of its functions is called
    with pytest.warns(NativeWarning, match=f"Failed to find C compiler.*{build.SWITCH}=0") as said:
        assert gpu.kernels() is None and gpu.kernels() is None
    assert len(said) == 1


def test_a_step_may_be_a_tensor_and_ranks_have_draws_of_their_own():
    layer, x = LAYERS["gaussian"](), torch.ones(1, 33)
    outputs = []
    for step in (7, torch.tensor(7), torch.tensor([7])):
        with redraw(layer, seed=1, step=step):
            outputs.append(layer(x))
    assert torch.equal(outputs[0], outputs[1]) and torch.equal(outputs[0], outputs[2])
    with redraw(layer, seed=1, step=7, rank=1):
        assert not torch.equal(layer(x), outputs[0])
    for wrong in (torch.tensor(7.0), torch.tensor([1, 2])):
        with pytest.raises(ValueError, match=r"step is a tensor of . numbers in torch\..*one number in torch.int64"):
            redraw(layer, seed=1, step=wrong)

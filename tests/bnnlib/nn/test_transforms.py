"""torch.func, derivatives of derivatives and whole compiled graphs: every layer goes through them unchanged."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from bnnlib import nn as bnn
from tests.bnnlib.nn.conftest import CONV, LINEAR, OTHERS, Divergence
from tests.seeded import seeded as generator


class Objective(nn.Module):
    """The loss and divergence of a network, drawn from one seed."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        with bnn.use_generator(generator(1)):
            loss = self.network(x).square().mean()
            return loss + bnn.kl_gradient(self.network) / 10


def parameters(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def gradients(module):
    return {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in module.named_parameters()}


def called(module, values, *inputs):
    return functional_call(module, values, inputs)


# whose divergence has a closed form: else a transformation estimates it at noise of its own
exactly = pytest.mark.parametrize("any_network", [n for n in (*LINEAR, *OTHERS) if n != "scale-mixture"], indirect=True)


@exactly
def test_grad_gives_the_gradient_of_a_step(any_network, x):
    model = Objective(any_network)
    model(x).backward()
    found = grad(lambda values: called(model, values, x))(parameters(model))
    torch.testing.assert_close(found, gradients(model), rtol=1e-9, atol=1e-11)


def test_the_divergence_has_a_gradient_under_grad(exact_network):
    model = Divergence(exact_network)
    model().backward()
    found = grad(lambda values: called(model, values))(parameters(model))
    torch.testing.assert_close(found, gradients(model), rtol=1e-9, atol=1e-11)


@exactly
@pytest.mark.parametrize("with_value", [True, False])
def test_a_divergence_outside_of_the_functional_call_warns(any_network, x, with_value, recwarn):
    def outside(values):
        return bnn.elbo_loss(called(any_network, values, x).square().mean(), any_network, 10, 1.0, with_value)

    leaves = {name: p.detach().clone().requires_grad_() for name, p in any_network.named_parameters()}
    if float(bnn.kl_divergence(any_network)):  # that of random statistics is 0
        alone = lambda values: (called(any_network, values, x).sum(), bnn.kl_divergence(any_network))[1]  # noqa: E731
        beside = lambda: (called(any_network, leaves, x), bnn.kl_divergence(any_network))  # noqa: E731
        for derivatives in (
            lambda: grad(outside)(parameters(any_network)),
            lambda: grad(alone)(parameters(any_network)),
            lambda: outside(leaves),
            beside,
        ):
            with pytest.warns(UserWarning, match="has no gradient here.*functional_call a module") as caught:
                derivatives()
            assert caught[0].filename == __file__
    outside({name: p for name, p in any_network.named_parameters()})
    called(any_network, leaves, x).sum()  # whose graph nobody has any more
    bnn.kl_divergence(any_network)
    rows, model = x[:, None], Objective(any_network)
    grad(lambda values: vmap(lambda row: called(model, values, row), randomness="same")(rows).sum())(parameters(model))
    vmap(grad(lambda values, row: called(model, values, row)), (None, 0), randomness="same")(parameters(model), rows)
    grad(lambda values: grad(lambda x: called(model, values, x))(x).sum())(parameters(model))
    assert not [one for one in recwarn.list if "no gradient here" in str(one.message)]


def test_vmap_draws_anew_or_the_same_as_it_is_asked(any_network, x):
    values, numbers = parameters(any_network), torch.arange(6.0)
    different = vmap(lambda _: called(any_network, values, x), randomness="different")(numbers)
    same = vmap(lambda _: called(any_network, values, x), randomness="same")(numbers)
    assert different.shape == same.shape == (6, 7, 2)
    assert torch.equal(same[0], same[5]) and not torch.allclose(different[0], different[5])


def test_gradients_of_single_examples_are_those_of_a_loop(any_network, x):
    values = parameters(any_network)
    with bnn.mean_weights(any_network):
        found = vmap(grad(lambda v, row: called(any_network, v, row[None]).square().sum()), (None, 0))(values, x)
        for index, row in enumerate(x):
            any_network.zero_grad()
            any_network(row[None]).square().sum().backward()
            own = {name: values[index] for name, values in found.items()}
            torch.testing.assert_close(own, gradients(any_network), rtol=1e-9, atol=1e-11)
    noisy = vmap(
        grad(lambda v, row: called(any_network, v, row[None]).square().sum()), (None, 0), randomness="different"
    )
    assert all(one.isfinite().all() for one in noisy(values, x).values())


def test_a_stack_of_models_is_evaluated_at_once(any_network, x):
    models = [copy.deepcopy(any_network) for _ in range(3)]
    for index, model in enumerate(models):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1 * index)
    values, buffers = stack_module_state(models)
    run = vmap(lambda v, b: functional_call(any_network, (v, b), (x,)), randomness="different")
    with bnn.mean_weights(any_network):
        found = run(values, buffers)
    for model, output in zip(models, found, strict=True):
        with bnn.mean_weights(model):
            torch.testing.assert_close(output, model(x), rtol=1e-9, atol=1e-11)
    assert run(values, buffers).isfinite().all()


@exactly
def test_derivatives_of_derivatives(any_network, x):
    model = Objective(any_network)
    names, leaves = zip(*model.named_parameters(), strict=True)
    directions = [torch.randn(p.shape, generator=generator(2), dtype=p.dtype) for p in leaves]

    def slope(gradients):
        return sum((g * d).sum() for g, d in zip(gradients, directions, strict=True) if g is not None)

    first = torch.autograd.grad(model(x), leaves, create_graph=True, allow_unused=True)
    second = torch.autograd.grad(slope(first), leaves, allow_unused=True)

    def along(values):
        gradients = grad(lambda v: called(model, v, x))(values)
        return slope([gradients[name] for name in names])

    expected = grad(along)(parameters(model))
    for name, found in zip(names, second, strict=True):
        found = torch.zeros_like(expected[name]) if found is None else found
        torch.testing.assert_close(found, expected[name], rtol=1e-7, atol=1e-8, msg=name)


def test_the_divergence_of_a_drawn_mixture_can_be_differentiated_twice(x):
    layer = bnn.ScaleMixtureLinear(5, 4, slab_scale=1.0, spike_scale=0.1, initial_scale=0.3, dtype=torch.float64)

    def objective(weight, rho):
        with bnn.use_generator(generator(1)), torch.nn.utils.parametrize.cached():
            values = {"weight": weight, "weight_rho": rho}
            return torch.func.functional_call(Objective(layer), {f"network.{k}": v for k, v in values.items()}, (x,))

    inputs = [p.detach().clone().requires_grad_() for p in (layer.weight, layer.weight_rho)]
    first = torch.autograd.grad(objective(*inputs), inputs, create_graph=True)
    second = torch.autograd.grad(first[0].square().sum() + first[1].sum(), inputs)
    assert all(one.isfinite().all() and one.abs().sum() > 0 for one in second)


@pytest.mark.slow
@pytest.mark.parametrize("any_network", ["statistics"], indirect=True)
def test_batch_statistics_move_in_one_compiled_graph(any_network, x):
    """What compiled layers draw, and that each is one graph, is seen in tests/book: here what a step leaves behind."""
    torch.compiler.reset()
    model = any_network.train()
    twin = copy.deepcopy(model)

    def objective(model):
        return lambda x: model(x).square().mean() + bnn.kl_gradient(model) / 10

    compiled = torch.compile(objective(model), fullgraph=True, backend="aot_eager")
    for seed in (1, 2, 3):
        for step in (compiled, objective(twin)):
            with bnn.use_generator(generator(seed)):
                step(x).backward()
    torch.testing.assert_close(gradients(model), gradients(twin), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(dict(model.named_buffers()), dict(twin.named_buffers()), rtol=1e-12, atol=1e-12)
    assert model[1].moment_count == twin[1].moment_count == 6


@pytest.mark.parametrize("conv", [name for name in CONV if name != "scale-mixture"], indirect=True)
def test_convolutions_go_through_grad(conv):
    torch.manual_seed(0)
    layer, images = conv(3, 4, 3, padding=1).double(), torch.randn(2, 3, 6, 6, dtype=torch.float64)
    objective = Objective(layer)
    objective(images).backward()
    found = grad(lambda values: called(objective, values, images))(parameters(objective))
    torch.testing.assert_close(found, gradients(objective), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_divergence_of_half_precision_is_summed_in_float32(linear, dtype):
    torch.manual_seed(0)
    layer = linear(400, 300)
    with torch.no_grad():
        expected = float(layer.kl_divergence())
        found = layer.to(dtype).kl_divergence()
    assert found.dtype == torch.float32 and expected > 65504  # the largest number of float16
    torch.testing.assert_close(float(found), expected, rtol=0.02, atol=0.0)
    total = bnn.kl_divergence(nn.Sequential(layer, layer))
    assert total.dtype == torch.float32
    bnn.kl_gradient(layer).backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)

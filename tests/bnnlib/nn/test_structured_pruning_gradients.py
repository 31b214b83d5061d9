"""Gradients of unit noise: joint draws, fixed locations, clamping, compiled steps."""

import contextlib
import copy

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from chapters.unit_noise import formulas
from tests.bnnlib.nn.test_objective import gradients
from tests.bnnlib.nn.test_structured_pruning import spread
from tests.seeded import seeded as generator


def network(**settings) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [spread(dim=-1, **settings), nn.Linear(6, 4), nn.Tanh(), spread(4, kl_weight=5.0), nn.Linear(4, 2)]
    return nn.Sequential(*layers).double()


def joint(model, x, objective=bnn.kl_gradient, context=bnn.drawn_together, call=None):
    """The gradients of a pass of the model, or of what calls it, and of the divergence."""

    def run():
        with context(model):
            output = (call or model)(x)
        (output.sin().mean() + objective(model) / 10).backward()

    return gradients(model, run)


def test_all_layers_draw_together_as_each_would_alone():
    model, x = network(), torch.randn(7, 6, dtype=torch.float64, generator=generator(1))
    first, second = model[0], model[3]
    level = torch.empty(10, dtype=torch.float64).uniform_(generator=generator(3))
    expected = [
        formulas.truncated_log_normal_sample(layer.location.detach(), layer.log_scale.detach().exp(), part)
        for layer, part in zip((first, second), level.split((6, 4)), strict=True)
    ]
    with bnn.use_generator(generator(3)), bnn.drawn_together(model):
        for layer, theta in zip((first, second), expected, strict=True):
            torch.testing.assert_close(
                layer(torch.ones(1, len(theta), dtype=torch.float64)), theta[None], rtol=1e-12, atol=0
            )
        inside = model(x)
        assert torch.equal(model(x), inside)
    assert first._held is None and second._held is None and not torch.equal(model(x), inside)

    torch.testing.assert_close(joint(model, x), joint(model, x, bnn.kl_divergence), rtol=1e-10, atol=1e-13)
    with pytest.raises(KeyError), bnn.drawn_together(model):
        raise KeyError
    assert first._held is None


def test_drawing_together_leaves_other_modes_and_kinds_alone():
    model, x = network(), torch.randn(7, 6, dtype=torch.float64)
    # another interval, another type, fixed parameters, a layer that the pass does not reach
    model[3] = spread(4, lower=-10.0, kl_weight=5.0)
    model.append(spread(2, dtype=torch.float32, learn_location=False))
    model.unused = nn.ModuleList([spread(3)])
    model.forward = lambda v: nn.Sequential(*list(model)[:6])(v)

    ours, theirs = joint(model, x), joint(model, x, bnn.kl_divergence)
    assert sum(g is None for g in theirs) == 1
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None and b is None) or torch.allclose(a, b, rtol=1e-6, atol=1e-13)
    for context in (bnn.held_weights(model, generator(1)), bnn.mean_weights(model)):
        with context:
            first = model(x)
            with bnn.drawn_together(model):
                assert torch.equal(model(x), first)
            assert torch.equal(model(x), first)
    with bnn.drawn_together(nn.Linear(2, 2)):
        pass


def test_a_fixed_location_gets_no_gradient_and_the_scale_the_same():
    x = torch.randn(7, 6, dtype=torch.float64)
    free, fixed = network(), network(learn_location=False)
    assert not fixed[0].location.requires_grad and fixed[0].log_scale.requires_grad
    for objective in (bnn.kl_gradient, bnn.kl_divergence):
        a, b = (
            gradients(m, lambda m=m, f=objective: (m(x).sin().mean() + f(m) / 10).backward()) for m in (free, fixed)
        )
        assert b[0] is None and a[0] is not None
        torch.testing.assert_close(b[1:], a[1:], rtol=1e-10, atol=1e-13)
    for p in fixed.parameters():
        p.requires_grad_(False)
    assert not (fixed(x).sum() + bnn.kl_gradient(fixed)).requires_grad


def test_parameters_act_clamped_and_get_no_gradient_outside():
    inside = spread(4)
    with torch.no_grad():
        inside.location.copy_(torch.tensor([-20.0, 5.0, -1.0, -1.0]))
        inside.log_scale.copy_(torch.tensor([-1.0, -1.0, -20.0, 5.0]))
    outside = copy.deepcopy(inside)
    with torch.no_grad():
        outside.location.add_(torch.tensor([-3.0, 3.0, 0.0, 0.0]))
        outside.log_scale.add_(torch.tensor([0.0, 0.0, -3.0, 3.0]))
    assert torch.equal(inside.draw(generator(1)), outside.draw(generator(1)))
    assert inside.kl_divergence() == outside.kl_divergence()
    assert torch.equal(inside.signal_to_noise(), outside.signal_to_noise())
    assert torch.equal(inside.mean(), outside.mean())
    x = torch.ones(1, 4, dtype=torch.float64)
    for objective in (lambda m: m(x).sum() + bnn.kl_gradient(m), lambda m: m.kl_divergence(), lambda m: m.mean().sum()):
        ours, theirs = (gradients(m, lambda m=m, f=objective: f(m).backward()) for m in (outside, inside))
        for k, out in ((0, torch.tensor([True, True, False, False])), (1, torch.tensor([False, False, True, True]))):
            assert (ours[k][out] == 0).all() and torch.equal(ours[k][~out], theirs[k][~out])
            assert theirs[k].isfinite().all()


@pytest.mark.slow
def test_compiled_steps_equal_eager_steps():
    model, x = nn.Sequential(spread(dim=-1), nn.Linear(6, 1)).double(), torch.randn(7, 6, dtype=torch.float64)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager")

    for context in (contextlib.nullcontext, bnn.drawn_together):
        found = joint(model, x, context=context, call=compiled)
        # fused kernels round differently
        torch.testing.assert_close(found, joint(model, x, context=context), rtol=1e-9, atol=1e-12)
    assert not torch.equal(compiled(x), compiled(x))

"""Every method of the contest trains, predicts, selects and is weighed through one interface."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from bnnlib.contest import METHODS, GaussianNoise, Method, Predictor, Problem, Range, predictive_nll
from bnnlib.contest.method import UnsuitableError
from bnnlib.models import mlp
from tests.refused import refusals

SPARSE = ("group_lasso", "gradual_pruning", "lottery_ticket", "random_pruning", "sghmc_sa")


def regression(rows: int = 240) -> Problem:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows + 60, 6, generator=generator)
    y = x[:, :1] - 2.0 * x[:, 1:2].relu() + 0.3 * torch.randn(rows + 60, 1, generator=generator)
    y = (y - y.mean()) / y.std()
    return Problem(x[:rows], y[:rows], x[rows:], y[rows:], batch_size=64)


def images() -> Problem:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(96, 1, 28, 28, generator=generator), torch.arange(96) % 10
    return Problem(x[:64], y[:64], x[64:], y[64:], "classification", 32)


def network() -> nn.Module:
    return mlp((6, 8, 8, 1), generator=torch.Generator().manual_seed(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_table_is_fitted_predicted_and_weighed(name):
    problem, start = regression(), network()
    before = {key: value.clone() for key, value in start.state_dict().items()}
    settings = {"lr": 0.02} if "lr" in METHODS[name].box else {}
    predictor = METHODS[name].fit(start, problem, 300, seed=3, settings=settings)
    assert all(torch.equal(before[key], value) for key, value in start.state_dict().items())
    draws = predictor.predict(problem.x_validation, 8)
    assert draws.shape[1:] == (60, 1) and draws.isfinite().all()
    # a constant leaves a variance of 1; whatever a method is, it must be better than that where it keeps weights
    if name not in ("random_pruning", "lottery_ticket", "small_dense", "sghmc_sa"):
        assert (draws.mean(0) - problem.y_validation).square().mean() < 0.9
    assert 0.0 <= predictor.sparsity <= 1.0 and (predictor.sparsity > 0.4) >= (name in SPARSE[1:])
    assert predictor.selected.shape == predictor.inclusion(20).shape == (6,)
    sizes = predictor.size_in_bytes()
    assert min(sizes.values()) > 0 and sizes["dense"] % predictor.networks == 0
    assert predictor.cost["steps"] == 300 and predictor.cost["seconds"] > 0.0
    x = problem.x_validation.clone().requires_grad_()
    outputs = predictor.differentiable(x, 8)
    assert torch.equal(outputs, draws)
    (slope,) = torch.autograd.grad(outputs.sum(), x)
    # a difference quotient in single precision, across some of the kinks of a piecewise linear function
    step = 1e-2 * slope / slope.abs().max().clamp(min=1e-12)
    rise = (predictor.predict(problem.x_validation + step, 8) - draws).double().sum().item()
    assert rise == pytest.approx((slope * step).sum().item(), rel=0.05, abs=1e-4)
    short = [METHODS[name].fit(start, problem, 60, seed=3, settings=settings) for _ in range(2)]
    first, again = (one.predict(problem.x_validation, 8) for one in short)
    torch.testing.assert_close(again, first, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("name", METHODS)
def test_images_go_through_a_convolutional_network(name):
    problem, pooled = images(), (nn.MaxPool2d(2), nn.ReLU())
    torch.manual_seed(0)
    # LeNet-5 with a fiftieth of its weights, whose 5,010 last ones have a covariance of half a minute
    start = nn.Sequential(
        *(nn.Conv2d(1, 4, 5), *pooled, nn.Conv2d(4, 6, 5), *pooled),
        *(nn.Flatten(), nn.Linear(96, 50), nn.ReLU(), nn.Linear(50, 10)),
    )
    if name == "horseshoe":
        with pytest.raises(UnsuitableError, match="linear"):
            METHODS[name].fit(start, problem, 4)
        return
    predictor = METHODS[name].fit(start, problem, 8)
    logits = predictor.predict(problem.x_validation, 3)
    assert logits.shape[1:] == (32, 10)
    assert float(predictive_nll(logits, problem.y_validation)) > 0.0
    assert min(predictor.size_in_bytes().values()) > 0


@pytest.mark.slow
def test_inputs_that_matter_are_the_ones_selected():
    """The inputs 0 and 1 of six matter; a spike and slab trained to its end keeps them and drops the others."""
    settings = {"lr": 0.02, "inclusion": 0.01}
    predictor = METHODS["spike_slab"].fit(network(), regression(960), 3000, settings=settings)
    assert predictor.selected.tolist() == [True, True, False, False, False, False]
    inclusion = predictor.inclusion(400)
    assert (inclusion[:2] > 0.95).all() and (inclusion[2:] < 0.3).all()


class Backwards(nn.Module):
    """The network of `network`, its layers registered from the last to the first."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = reversed([layer for layer in network() if isinstance(layer, nn.Linear)])

    def forward(self, x):
        return self.a(self.b(self.c(x).relu()).relu())


@pytest.mark.parametrize("name", ["dropout", "batch_norm", "group_lasso", "group_lasso_adam", "gradual_pruning"])
def test_what_counts_is_the_order_of_the_pass_and_not_of_registration(name):
    problem = regression()
    straight, backwards = (METHODS[name].fit(model, problem, 60, 1) for model in (network(), Backwards()))
    for predict in (lambda one: one.predict(problem.x_validation, 3), lambda one: one.inclusion()):
        torch.testing.assert_close(predict(backwards), predict(straight))
    assert torch.equal(backwards.selected, straight.selected)


@pytest.mark.parametrize("name", ["deterministic", "group_lasso", "gradual_pruning", "lottery_ticket", "spike_slab"])
def test_the_problem_may_ask_for_the_last_state_or_the_best(name):
    """With targets of chance the validation loss only rises: the best state is an early one, where it may be."""
    problem, own = regression(), METHODS[name].box
    order = torch.randperm(240, generator=torch.Generator().manual_seed(3))
    problem = dataclasses.replace(problem, y=problem.y[order])
    settings = {"lr": 0.03} | ({"sparsity": 0.5} if "sparsity" in own else {})
    found = {}
    for keep in ("own", "last", "best"):
        predictor = METHODS[name].fit(network(), dataclasses.replace(problem, keep=keep), 200, 1, settings)
        outputs = predictor.predict(problem.x_validation, 30)
        found[keep] = outputs, float((outputs.mean(0) - problem.y_validation).square().mean())
        if "sparsity" in own:
            assert predictor.sparsity >= 0.45, "an early state would not be pruned yet"
    assert torch.equal(found["own"][0], found["best" if name == "deterministic" else "last"][0])
    assert found["best"][1] < found["last"][1]


def test_the_cost_is_that_of_the_steps_that_were_done():
    for name, steps in (("ensemble", 10), ("lottery_ticket", 12)):
        assert METHODS[name].fit(network(), regression(), 14).cost["steps"] == steps


def test_trials_begin_with_the_default_and_are_the_same_each_time():
    method = METHODS["gaussian_spike_slab"]
    trials = method.trials(8)
    assert trials == method.trials(8) and len({tuple(one.items()) for one in trials}) == 8
    assert trials[0] == {name: one.default for name, one in method.box.items()}
    for name, one in method.box.items():
        assert all(one.low <= trial[name] <= one.high for trial in trials)
    assert method.trials(1) == trials[:1]


def test_the_noise_stays_where_nothing_is_learned_and_the_loss_is_the_density():
    loss = GaussianNoise()
    loss(torch.zeros(20, 2), 0.2 * torch.randn(20, 2, generator=torch.Generator().manual_seed(0)))
    kept = float(loss.variance)
    with torch.no_grad():
        value = loss(torch.zeros(20, 2), torch.ones(20, 2))
    assert float(loss.variance) == kept
    assert float(value) == pytest.approx(1.0 / kept + math.log(2.0 * math.pi * kept))


def test_the_fitted_noise_is_that_of_the_validation_rows():
    problem = regression()
    model = nn.Sequential(nn.Linear(6, 1))
    nn.init.zeros_(model[0].weight), nn.init.zeros_(model[0].bias)
    expected = float(problem.y_validation.square().mean())
    assert Predictor(model, problem).fitted_variance() == pytest.approx(expected, rel=2e-3)


test_errors_say_what_was_given = refusals(
    [
        (lambda: METHODS["gaussian"].fit(network(), regression(), 0), "steps"),
        (lambda: METHODS["gaussian"].fit(network(), regression(), 5, settings={"rate": 1.0}), "no settings"),
        (lambda: METHODS["gaussian"].fit(network(), regression(), 5, settings={"lr": "1"}), "lr = '1'.* are numbers"),
        (lambda: METHODS["gaussian"].fit(network(), regression(), 5, 1.5), "seed is 1.5"),
        (lambda: METHODS["deterministic"].fit(mlp((6, 2)), regression(), 5), r"shape \(64, 2\) .* \(64, 1\)"),
        (lambda: Predictor(network(), regression()).predict(torch.zeros(2, 6), 0), "num_samples is 0"),
        (lambda: predictive_nll(torch.zeros(2, 5, 1), torch.zeros(5, 1)), "variance is nan.*fitted_variance"),
        (lambda: predictive_nll(torch.zeros(2, 5, 1), torch.zeros(5, 3), 1.0), r"shape \(5, 1\) .* \(5, 3\)"),
        (lambda: predictive_nll(torch.zeros(2, 5, 3), torch.arange(5) % 3, temperature=0.0), "temperature is 0"),
        (lambda: Problem(*[torch.zeros(2, 1).numpy()] * 4), "are ndarray", TypeError),
        (lambda: Problem(*[torch.zeros(2, 1), torch.zeros(2)] * 2, kind="classification"), "torch.float32.*integers"),
        (lambda: Range(1.0, 2.0, 3.0), "default"),
        (lambda: Range(1.0, -1.0, 3.0), "positive"),
        (lambda: Method("own", print, dict.fromkeys("abcd", Range(1.0, 0.5, 2.0))), "at most 3"),
        (lambda: Problem(torch.zeros(3, 2), torch.zeros(3), torch.zeros(1, 2), torch.zeros(1)), "numbers"),
        (lambda: Problem(torch.zeros(3, 2), torch.zeros(2, 1), torch.zeros(1, 2), torch.zeros(1, 1)), "rows"),
        (lambda: Problem(*[torch.zeros(1, 1)] * 4, kind="ranking"), "kind"),
        (lambda: Problem(*[torch.zeros(1, 1)] * 4, keep="first"), "keep is 'first'"),
    ]
)

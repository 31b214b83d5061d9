"""What the loop asks of a loss of one's own: which row belongs to which target, and whether it is a mean."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.train import fit
from tests.bnnlib.train.runs import ROWS, data
from tests.seeded import seeded


class Counted(nn.Module):
    """A loss with a state and randomness of its own."""

    steps = 0

    def forward(self, outputs, y):
        self.steps += 1
        return (outputs.squeeze(-1) - y).square().mean() * (1.0 + torch.rand(()))


@pytest.mark.parametrize("constant", [False, True])
def test_losses_that_pair_rows_or_ask_for_no_target_may_have_outputs_of_another_shape(constant):
    x, counted = data()[0], Counted()
    y = torch.zeros(ROWS) if constant else x[:, 0]
    square = lambda o, y: (o - y).square().mean()  # noqa: E731
    losses = [counted, lambda o, y: square(o, y[:, None]), lambda o, y: -o.mean(), *[square] * constant]
    for loss in losses:
        model = nn.Linear(6, 1)
        torch.manual_seed(0)
        fit(model, (x, y), epochs=1, batch_size=16, loss=loss, generator=seeded())
        after = torch.rand(())
        torch.manual_seed(0)
        assert after == torch.rand(5)[4 if loss is counted else 0]
    assert counted.steps == 4


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (lambda o, y: F.poisson_nll_loss(o.squeeze(-1), y), torch.arange(ROWS) + 25.0),
        (lambda o, y: F.poisson_nll_loss(o.squeeze(-1).clamp(-10, 10), y), torch.arange(ROWS) + 11.0),
        (lambda o, y: (o.squeeze(-1).exp() - y).square().mean(), torch.arange(ROWS) + 30.0),
        (lambda o, y: (100 * o.squeeze(-1).sigmoid() - y).square().mean(), torch.arange(ROWS) + 50.0),
        (lambda o, y: (o.squeeze(-1).relu() + y).square().mean(), -torch.arange(ROWS) - 1.0),
        (lambda o, y: F.gaussian_nll_loss(o.squeeze(-1), y, torch.ones(())), 1e4 + torch.arange(ROWS)),
    ],
)
def test_losses_may_squeeze_outputs_that_go_through_a_link(loss, y):
    assert fit(nn.Linear(6, 1), (data()[0], y), epochs=1, batch_size=16, max_steps=1, loss=loss).step == 1


class Sum(nn.Module):
    """With a buffer and a count that a call changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, o, y):
        self.calls += 1
        self.seen += len(y)
        return (o - y).square().sum()


def closure(made):
    steps, noise, last = 0, torch.Generator(), partial(add, to=made)

    def loss(o, y, *, scale=2.0):
        nonlocal steps
        steps += 1
        torch.rand((), generator=noise)
        made.append(steps)
        return scale * last(o, y)

    return loss


def add(o, y, to):
    to.append(len(to))
    return square(o, y)


def square(o, y):  # a name that a method has too
    KEPT.append(len(o))
    return (o - y).square().sum()


KEPT, ROW_WEIGHTS = [], torch.arange(16.0)[:, None]


@pytest.mark.parametrize("form", ["lambda", "module", "method", "another function", "partial", "closure", "compiled"])
def test_a_sum_of_ones_own_is_told_once(form):
    """And is not refused: it may be divided by a number that stands for the rows. What it keeps is of the steps."""
    x, kept, module = data()[0], [], Sum()
    loss = {
        "lambda": lambda o, y: (o - y).square().sum(),
        "module": module,
        "method": module.forward,
        "another function": lambda o, y: 2.0 * square(o, y),
        "partial": partial(add, to=kept),
        "closure": closure(kept),
        "compiled": torch.compile(square, backend="eager"),
    }[form]
    KEPT.clear()
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="twice as large .* a sum over the rows.*Divide it by len") as told:
        fit(nn.Linear(6, 1), (x, x[:, :1]), epochs=1, batch_size=16, loss=loss, generator=seeded())
    assert [one.filename for one in told] == [__file__]
    assert form not in ("module", "method") or (module.calls, float(module.seen)) == (4, ROWS)
    assert kept == {"partial": [0, 1, 2, 3], "closure": [1, 1, 2, 3, 3, 5, 4, 7]}.get(form, [])
    assert KEPT == [16, 16, 16, 2] * (form in ("another function", "partial", "closure", "compiled"))


@pytest.mark.parametrize(
    "loss",
    [
        lambda o, y: ((o - y).square() * y.abs()).sum() / y.abs().sum(),  # a weighted mean
        lambda o, y: (ROW_WEIGHTS[: len(y)] * (o - y).square()).sum() / 16,  # weights of so many rows
        lambda o, y: (o - y).square()[y > 0].sum() / (y > 0).sum(),  # over the labels that count
        lambda o, y: ((o - o.T) - (y - y.T)).square().mean(),  # pairs of rows
        lambda o, y: ((o - y).square() * torch.rand_like(y)).mean(),
        lambda o, y: F.gaussian_nll_loss(o[:, :1], y, o[:, 1:].exp()),
        lambda o, y: torch.zeros(()) * o.sum(),
        lambda o, y: Sum()(o, y) / len(y),
        lambda o, y: (o - y).square().sum() if len(y) <= 16 else 1 / 0,  # for so many rows
    ],
)
def test_losses_that_divide_themselves_are_left_alone(loss, recwarn):
    x, names = data()[0], loss.__code__.co_names
    outputs = 1 + ("exp" in names)
    torch.manual_seed(0)
    fit(nn.Linear(6, outputs), (x[:48], x[:48, :1]), epochs=1, batch_size=16, loss=loss, generator=seeded())
    assert not recwarn.list
    after = torch.rand(())
    torch.manual_seed(0)
    nn.Linear(6, outputs), [torch.rand(16, 1) for _ in range(3 * ("rand_like" in names))]
    assert after == torch.rand(())

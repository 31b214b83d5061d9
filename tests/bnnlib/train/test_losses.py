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


def total(o, y, *, weight=1.0):
    return (weight * (o - y).square()).sum()


def kept_count():
    steps = 0

    def loss(o, y):
        nonlocal steps
        steps += 1
        KEPT.append(steps)
        return total(o, y)

    return loss


def seen(o, y):
    COUNT.add_(1.0)
    return total(o, y)


def even(o, y, left=2):
    return odd(o, y, left - 1) if left else total(o, y)


def odd(o, y, left):
    return even(o, y, left - 1)


KEPT, COUNT, ROW_WEIGHTS = [], torch.zeros(()), torch.arange(16.0)[:, None]
NOISE = torch.Generator()


@pytest.mark.parametrize(
    "loss",
    [
        lambda o, y: (o - y).square().sum(),
        Sum(),
        lambda o, y: 2.0 * total(o, y),
        partial(total, weight=torch.tensor(2.0)),
        (lambda weight: lambda o, y: weight * total(o, y))(0.5),
    ],
    ids=["lambda", "module", "another function", "partial", "closure"],
)
def test_a_sum_of_ones_own_is_told_once(loss):
    """And is not refused: it may be divided by a number that stands for the rows."""
    x = data()[0]
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="twice as large .* a sum over the rows.*Divide it by len") as told:
        fit(nn.Linear(6, 1), (x, x[:, :1]), epochs=1, batch_size=16, loss=loss, generator=seeded())
    assert [one.filename for one in told] == [__file__]
    if isinstance(loss, Sum):
        assert (loss.calls, float(loss.seen)) == (4, ROWS)


@pytest.mark.parametrize(
    "loss",
    [
        kept_count(),
        seen,
        partial(lambda o, y, to: to.append(len(y)) or total(o, y), to=KEPT),
        lambda o, y: total(o, y) + 0.0 * torch.rand((), generator=NOISE),
        Sum().forward,
        even,
        lambda o, y: sum(KEPT.append(0) or total(one, other) for one, other in zip(o, y, strict=True)),
    ],
    ids=["nonlocal", "in place", "list", "generator", "method", "each other", "within"],
)
def test_what_may_keep_something_is_not_asked(loss, recwarn):
    """So that its counts are those of the steps, and its draws as well."""
    x, state = data()[0], NOISE.get_state()
    KEPT.clear()
    COUNT.zero_()
    fit(nn.Linear(6, 1), (x, x[:, :1]), epochs=1, batch_size=16, loss=loss, generator=seeded())
    assert not recwarn.list
    assert len(KEPT) in (0, 4, ROWS)
    assert COUNT in (0.0, 4.0)
    NOISE.set_state(state)


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

"""What all methods are given: the rows, the loss, the budget, and one way down the gradient."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_choice, check_count, check_positive
from bnnlib.train import EarlyStopping, cosine, fit

KINDS = ("regression", "classification")
KEEPS = ("own", "last", "best")
WARM_UP = 0.2  # share of the epochs in which the KL term rises from 0 to its whole


@dataclass(frozen=True)
class Problem:
    """Rows to train on, rows to choose by, and what kind of answer is asked. There are no test rows in it.

    Args:
        x, y: training rows, (n, ...), with numbers (n, K) or class labels (n,).
        x_validation, y_validation: held out, for early stopping, the noise and the temperature of what is predicted.
        kind: "regression" or "classification".
        batch_size: rows in a step, the same for all methods.
        keep: the state that a training ends with: "last", or "best" for that of lowest validation loss, with "own" as
            the method has it. Methods that average over their way, chains and the adaptive variational optimizer, do
            not ask.

    Raises:
        TypeError: what should be a tensor is something else.
        ValueError: an unknown kind or keep, rows that do not fit each other, labels that are no integers, or no rows.

    Example:
        >>> problem = Problem(torch.randn(80, 3), torch.randn(80, 1), torch.randn(20, 3), torch.randn(20, 1))
        >>> problem.epochs(steps=100)
        100
    """

    x: Tensor
    y: Tensor
    x_validation: Tensor
    y_validation: Tensor
    kind: str = "regression"
    batch_size: int = 128
    keep: str = "own"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_choice("keep", self.keep, KEEPS)
        check_count("batch_size", self.batch_size)
        for name, x, y in (("", self.x, self.y), ("validation ", self.x_validation, self.y_validation)):
            if not isinstance(x, Tensor) or not isinstance(y, Tensor):
                raise TypeError(
                    f"the {name}rows are {type(x).__name__} and {type(y).__name__}, but both must be tensors: "
                    "torch.as_tensor(array) makes one."
                )
            if self.kind == "classification" and (y.is_floating_point() or y.is_complex()):
                raise ValueError(f"the {name}labels are {y.dtype}, but classes are numbered by integers: y.long().")
            if len(x) != len(y) or not len(x) or y.dim() != (2 if self.kind == "regression" else 1):
                targets = "numbers (n, K)" if self.kind == "regression" else "labels (n,)"
                raise ValueError(
                    f"the {name}rows have shapes {tuple(x.shape)} and {tuple(y.shape)}, but {self.kind} needs inputs "
                    f"(n, ...) and {targets} with equal n of at least 1."
                )

    @property
    def example(self) -> Tensor:
        """Two rows of inputs, by which a network is followed."""
        return self.x[:2]

    def loss(self) -> nn.Module:
        """A new loss: the mean negative log-likelihood of a row in nats."""
        return GaussianNoise() if self.kind == "regression" else nn.CrossEntropyLoss()

    def epochs(self, steps: int) -> int:
        """How many epochs hold so many steps, the last perhaps not in whole."""
        return math.ceil(steps / math.ceil(len(self.x) / self.batch_size))


class GaussianNoise(nn.Module):
    """Mean Gaussian negative log-likelihood, whose variance follows the residuals: the M-step of a stochastic EM.

    Equation (side-noise). The one home of the noise scale: a method needs no parameter for it, whatever its optimizer
    or sampler is.

    Args:
        variance: at the start, in the squared units of the targets; 1 suits standardized ones.
        rate: share by which a batch moves the variance, while gradients are on.

    Example:
        >>> loss = GaussianNoise()
        >>> for _ in range(200):
        ...     _ = loss(torch.zeros(64, 1), 0.5 * torch.randn(64, 1))
        >>> 0.2 < loss.variance.item() < 0.3
        True
    """

    variance: Tensor

    def __init__(self, variance: float = 1.0, rate: float = 0.05) -> None:
        super().__init__()
        self.rate = rate
        self.register_buffer("variance", torch.tensor(variance))

    def forward(self, prediction: Tensor, y: Tensor) -> Tensor:
        """Scalar, in nats a row.

        Raises:
            ValueError: the predictions have another shape than the targets.
        """
        _check_shape(prediction.shape, y.shape)
        square = (prediction - y).square().sum(dim=1).mean()
        count = y.shape[1]
        if torch.is_grad_enabled():
            moved = self.variance.lerp(square.detach() / count, self.rate)
            self.variance = moved.clamp_min(1e-6)  # a network that interpolates has no residuals
        return 0.5 * (square / self.variance + count * torch.log(2.0 * torch.pi * self.variance))


def descend(
    model: nn.Module,
    problem: Problem,
    steps: int,
    seed: int,
    optimizer: torch.optim.Optimizer,
    *,
    callbacks: Sequence[Any] = (),
    best: bool = False,
    best_from: int = 0,
    warm_up: float = 0.0,
) -> float:
    """Train a model in place by so many steps, with the learning rate along half a cosine.

    Batches are those of the seed, for every method; the noise of layers has a generator of its own.

    Args:
        model: that is trained; with Bayesian layers its loss has their KL term.
        problem: rows and loss.
        steps: of the optimizer.
        seed: of order and noise.
        optimizer: over the model's parameters.
        callbacks: see `bnnlib.train.Callback`.
        best: end with the weights of the epoch of lowest validation loss, where the problem leaves it to the method.
        best_from: the step from which on an epoch may be that one.
        warm_up: share of the epochs in which the KL term rises from 0; none of these may be that one.

    Returns:
        Variance of the noise at the end; NaN for a classification.

    Raises:
        DivergedError: the loss is NaN or infinite.

    Example:
        >>> x = torch.randn(120, 3)
        >>> y, network = x[:, :1] + 0.1 * torch.randn(120, 1), torch.nn.Sequential(torch.nn.Linear(3, 1))
        >>> problem = Problem(x[:100], y[:100], x[100:], y[100:])
        >>> descend(network, problem, 300, 0, adam(network, lr=0.03)) < 0.05
        True
    """
    epochs, device = problem.epochs(check_count("steps", steps)), problem.x.device
    loss = problem.loss().to(device)
    rising = max(1.0, warm_up * epochs)
    best = best if problem.keep == "own" else problem.keep == "best"
    start = min(epochs, max(1, math.ceil(warm_up * epochs), math.ceil(epochs * best_from / steps)))
    stopping = [EarlyStopping(epochs, start)] if best else []
    fit(
        model,
        (problem.x, problem.y),
        epochs=epochs,
        max_steps=steps,
        batch_size=problem.batch_size,
        optimizer=optimizer,
        loss=loss,
        kl_scale=(lambda epoch: min(1.0, (epoch + 1) / rising)) if warm_up else 1.0,
        schedule=cosine(epochs, 0.02),
        validation=(problem.x_validation, problem.y_validation) if best else None,
        generator=torch.Generator(device).manual_seed(2 * seed),
        shuffle_generator=torch.Generator(device).manual_seed(2 * seed + 1),
        callbacks=[*callbacks, *stopping],
        keyed=False,  # stored comparisons rest on the generator's own numbers
    )
    return float(loss.variance) if isinstance(loss, GaussianNoise) else math.nan


def adam(model: nn.Module, lr: float, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """AdamW; without a weight decay it is Adam.

    Example:
        >>> type(adam(torch.nn.Linear(3, 1), lr=1e-3)).__name__
        'AdamW'
    """
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)


def sgd(model: nn.Module, lr: float, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """SGD with Nesterov's momentum of .9."""
    return torch.optim.SGD(model.parameters(), lr, momentum=0.9, weight_decay=weight_decay, nesterov=True)


def predictive_nll(outputs: Tensor, y: Tensor, variance: float = math.nan, temperature: float = 1.0) -> Tensor:
    """Mean negative log-likelihood a row of the predictive that averages densities or probabilities of S draws.

    Equations (side-predictive) and (side-nll).

    Args:
        outputs: (S, n, K), predictions, or logits with class labels y.
        y: numbers (n, K) or labels (n,).
        variance: of the noise, for numbers.
        temperature: divides the log-probabilities of the average, for labels.

    Returns:
        Scalar tensor, in nats.

    Raises:
        ValueError: the outputs do not fit the targets, or the variance or temperature is not above 0.

    Example:
        >>> logits = torch.tensor([[[3.0, 0.0]], [[0.0, 3.0]]])  # two draws that disagree about one row
        >>> round(float(predictive_nll(logits, torch.tensor([0]))), 4)
        0.6931
    """
    if y.dim() == 1:
        check_positive("temperature", temperature)
        return F.nll_loss(F.log_softmax(log_predictive(outputs) / temperature, dim=1), y)
    _check_shape(outputs.shape[1:], y.shape)
    check_positive("variance", variance, hint="That of the noise: `Predictor.variance` or `Predictor.fitted_variance`.")
    square = (outputs - y).square().sum(dim=2) / variance
    density = -0.5 * (square + y.shape[1] * math.log(2.0 * math.pi * variance))
    return -(torch.logsumexp(density, dim=0) - math.log(len(outputs))).mean()


def _check_shape(given: torch.Size, targets: torch.Size) -> None:
    if given != targets:
        raise ValueError(
            f"the predictions have shape {tuple(given)} and the targets {tuple(targets)}, but both must have (n, K). A "
            f"network for these targets ends in {targets[-1]} outputs."
        )


def log_predictive(logits: Tensor) -> Tensor:
    """Logarithm of the mean probability over draws, (n, K), of logits (S, n, K).

    Example:
        >>> log_predictive(torch.zeros(5, 2, 4)).exp()[0]
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return torch.logsumexp(F.log_softmax(logits, dim=2), dim=0) - math.log(len(logits))

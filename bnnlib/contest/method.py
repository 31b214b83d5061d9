"""A method of the contest: how it trains, the box that it is tuned in, and the trials that go through the box."""

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import nn
from torch.quasirandom import SobolEngine

from bnnlib._checks import check_count
from bnnlib.contest.predictor import Predictor
from bnnlib.contest.problem import Problem

Train = Callable[..., Predictor]  # train(network, problem, steps, seed, **settings)
MAX_TUNED = 3


class UnsuitableError(ValueError):
    """The method is not made for this network or problem; the message says why.

    Example:
        >>> from bnnlib.contest import METHODS
        >>> network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(72, 10))
        >>> x, y = torch.rand(8, 1, 8, 8), torch.zeros(8, dtype=torch.long)
        >>> problem = Problem(x, y, x, y, kind="classification")
        >>> try:
        ...     predictor = METHODS["horseshoe"].fit(network, problem, steps=1)
        ... except UnsuitableError as error:
        ...     print(error)
        the library's horseshoe layers are linear, and this network has convolutions
    """


@dataclass(frozen=True)
class Range:
    """Where a setting is looked for: its default, the lowest and the highest value, and whether by their logarithm.

    Raises:
        ValueError: the default is outside, or a bound of a logarithm is not positive.

    Example:
        >>> Range(1e-3, 1e-4, 1e-2).at(0.5)
        0.001
    """

    default: float
    low: float
    high: float
    log: bool = True

    def __post_init__(self) -> None:
        if not self.low <= self.default <= self.high or (self.log and self.low <= 0.0):
            raise ValueError(
                f"the range from {self.low:g} to {self.high:g} must hold its default {self.default:g}, and be positive "
                "where it goes by the logarithm. Widen it, or give log=False."
            )

    def at(self, share: float) -> float:
        """The value at a share, 0 to 1, of the way, to three digits; equation (side-box)."""
        value = self.low * (self.high / self.low) ** share if self.log else self.low + share * (self.high - self.low)
        return float(f"{value:.3g}")


@dataclass(frozen=True)
class Method:
    """One way to train a network, called in the same way as all others.

    Args:
        name: for tables.
        train: called as train(network, problem, steps, seed, **settings) with a copy of the network; returns a
            `Predictor`. `steps` are optimizer steps of all its networks together.
        box: setting to `Range`, at most three.
        summary: one line.

    Raises:
        ValueError: more than three settings are to be tuned.

    Example:
        >>> def train(network, problem, steps, seed, lr):
        ...     descend(network, problem, steps, seed, torch.optim.SGD(network.parameters(), lr))
        ...     return Predictor(network, problem)
        >>> method = Method("plain", train, {"lr": Range(0.1, 0.01, 1.0)})
        >>> problem = Problem(torch.randn(80, 3), torch.randn(80, 1), torch.randn(20, 3), torch.randn(20, 1))
        >>> predictor = method.fit(torch.nn.Sequential(torch.nn.Linear(3, 1)), problem, steps=20)
        >>> predictor.cost["steps"], [trial["lr"] for trial in method.trials(3)][:1]
        (20, [0.1])
    """

    name: str
    train: Train
    box: Mapping[str, Range] = field(default_factory=dict)
    summary: str = ""

    def __post_init__(self) -> None:
        if len(self.box) > MAX_TUNED:
            raise ValueError(f"{self.name!r} tunes {', '.join(self.box)}, but at most {MAX_TUNED} settings may be.")

    def trials(self, count: int = 8, seed: int = 0) -> list[dict[str, float]]:
        """Settings to try: the default, then points of one scrambled Sobol sequence in the box, the same each time."""
        trials = [{name: bounds.default for name, bounds in self.box.items()}]
        if self.box and count > 1:
            points = SobolEngine(len(self.box), scramble=True, seed=seed).draw(count - 1)
            trials += [
                {name: bounds.at(float(share)) for (name, bounds), share in zip(self.box.items(), point, strict=True)}
                for point in points
            ]
        return trials[: check_count("count", count)]

    def fit(
        self,
        network: nn.Module,
        problem: Problem,
        steps: int,
        seed: int = 0,
        settings: Mapping[str, float] | None = None,
    ) -> Predictor:
        """Train a copy of `network`, whose weights are the first ones.

        Args:
            network: deterministic; it is not changed.
            problem: the rows.
            steps: optimizer steps in total, an ensemble's members together.
            seed: of the order of rows and of the noise.
            settings: in place of the defaults; those that are missing keep theirs.

        Raises:
            UnsuitableError: the method is not made for this network or problem.
            ValueError: a setting is unknown or no number, steps is below 1, or seed is no count.
            DivergedError: the loss has become NaN or infinite.
        """
        check_count("steps", steps)
        check_count("seed", seed, 0)
        settings = dict(settings or {})
        if unknown := set(settings) - set(self.box):
            raise ValueError(
                f"{self.name!r} has no settings {sorted(unknown)}; it has {', '.join(self.box) or 'none'}."
            )
        if wrong := [f"{name} = {value!r}" for name, value in settings.items() if not isinstance(value, Real)]:
            raise ValueError(
                f"{self.name!r} is given {', '.join(wrong)}, but settings are numbers. Omit one for its default."
            )
        began = time.process_time()
        with torch.random.fork_rng():  # dropout draws from the global generator
            torch.manual_seed(seed)
            values = {name: bounds.default for name, bounds in self.box.items()} | settings
            predictor = self.train(deepcopy(network), problem, steps, seed, **values)
        predictor.cost = {"steps": steps, "seconds": time.process_time() - began, **predictor.cost}
        predictor.model.eval()
        return predictor

"""Training steps with a sampler, for `benchmarks.step_time`: those of bnnlib, of posteriors and of ivon.

All sample the same deterministic classifier with the same energy, N times the mean cross-entropy plus a normal prior's
ridge. posteriors (`pip install posteriors`) is used as its documentation recommends for speed, with `inplace=True`.
The adaptive variational optimizer and IVON (`pip install ivon-opt`) take the mean loss and a weight decay.
"""

import warnings
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import Timed
from bnnlib.optim import IVON, AdaptiveVariational
from bnnlib.sampling import Sampler, SpikeSlabGaussianLaplacePrior, polynomial

LEARNING_RATE = 1e-2  # of the mean loss; a sampler's is divided by the number of data
MOMENTUM = 0.9


class Ours(Timed):
    """One step of a sampler of bnnlib; with `learned` the adaptive prior of the first layer moves too.

    On a CPU the noise is `keyed`, and all is done in passes of the compiled kernels.
    """

    def __init__(
        self,
        model: nn.Module,
        num_data: int,
        sampler: Callable[..., Sampler],
        learned: bool = False,
        keyed: bool = True,
    ) -> None:
        self.model, self.num_data = model, num_data
        on_cpu = next(model.parameters()).is_cpu  # a recorded step needs numbers that are made on the GPU
        settings = {"lr": LEARNING_RATE / num_data, "keyed": keyed and on_cpu, "weight_decay": 0.0 if learned else 1.0}
        self.sampler = sampler(model.parameters(), **settings)
        self.generators = (self.sampler.generator,)
        settings = {"spike_scale": 1.0, "slab_variance": 0.1, "step_size": polynomial(1, 1000, 0.75), "fused": keyed}
        self.recordable = not learned  # the prior's step size follows a count of steps
        self.prior = (
            SpikeSlabGaussianLaplacePrior(model, sparse=["0.weight"], weight_decay=1.0, **settings) if learned else None
        )

    def step(self, x: Tensor, y: Tensor) -> None:
        self.sampler.zero_grad()
        (self.num_data * F.cross_entropy(self.model(x), y)).backward()
        if self.prior is not None:
            self.prior.add_gradient_()
        self.sampler.step()
        if self.prior is not None:
            self.prior.update()


class Posteriors(Timed):
    """One step of a sampler of posteriors."""

    recordable = False

    def __init__(self, model: nn.Module, num_data: int, name: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of tensordict, about the package's own classes
            import posteriors

        def log_posterior(params: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            logits = torch.func.functional_call(model, params, (batch[0],))
            prior = sum(p.square().sum() for p in params.values())
            return -num_data * F.cross_entropy(logits, batch[1]) - 0.5 * prior, logits

        rate = LEARNING_RATE / num_data
        settings = {"lr": rate}
        if name != "sgld":
            # the same step and friction in its units: lr = step^2, 1 - momentum = step * alpha
            settings = {"lr": rate**0.5, "alpha": (1.0 - MOMENTUM) / rate**0.5, "momenta": 0.0}
        self.transform = getattr(posteriors.sgmcmc, name).build(log_posterior, **settings)
        self.state = self.transform.init({name: p.detach().clone() for name, p in model.named_parameters()})

    def step(self, x: Tensor, y: Tensor) -> None:
        self.state, _ = self.transform.update(self.state, (x, y), inplace=True)


class Adaptive(Timed):
    """One step of the adaptive variational optimizer, in the form that samples or in the natural one."""

    def __init__(self, model: nn.Module, num_data: int, form: str) -> None:
        self.model = model
        settings = {"form": form, "estimator": "stein" if form == "natural" else "squared"}
        self.optimizer = AdaptiveVariational(
            model.parameters(), LEARNING_RATE, num_data, weight_decay=1.0 / num_data, **settings
        )
        self.generators = (self.optimizer.generator,)

    def step(self, x: Tensor, y: Tensor) -> None:
        def closure() -> Tensor:
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            return loss

        self.optimizer.step(closure)


class Ivon(Timed):
    """One step of IVON (Shen et al., 2024): ours, or that of its authors as its documentation has it."""

    def __init__(self, model: nn.Module, num_data: int, ours: bool = True) -> None:
        self.model, self.recordable, settings = model, False, {"lr": LEARNING_RATE, "weight_decay": 1.0 / num_data}
        if ours:
            self.optimizer = IVON(model.parameters(), num_data=num_data, **settings)
            self.draw, self.generators = self.optimizer.sampled_parameters, (self.optimizer.generator,)
        else:
            import ivon

            self.optimizer = ivon.IVON(model.parameters(), ess=num_data, **settings)
            self.draw = partial(self.optimizer.sampled_params, train=True)

    def step(self, x: Tensor, y: Tensor) -> None:
        with self.draw():
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()

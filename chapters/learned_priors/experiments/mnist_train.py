"""How a network of Table 2 of Deng et al. (2019) is trained."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.sampling.samples import SampleStore
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.fit import Callback, Run
from bnnlib.train.sample import sample
from book.lab.cells import Cell
from chapters.learned_priors.networks import cnn_two_conv
from chapters.shared.images import held_out_parts
from chapters.shared.training import fit

SIDE = 28
TEST_BATCH = 1000
ROWS = 60_000  # training images of MNIST and of Fashion-MNIST

State = dict[str, Tensor]
Images = tuple[Tensor, Tensor]


def load_images(params: dict[str, Any], device: torch.device) -> tuple[Images, Images]:
    """Images in [0, 1] of 28 x 28 and their labels, to train on and to score on.

    With "held_out" in the settings not 0, so many training images take the place of the test images, the same always.
    """
    parts = held_out_parts(params["data"], params["held_out"])

    def ready(x: Tensor, y: Tensor) -> Images:
        x, y = x[: params["rows"]], y[: params["rows"]]  # fewer for a first look; None takes all
        x = x if x.shape[-1] == SIDE else F.interpolate(x, size=(SIDE, SIDE), mode="bilinear")
        return x.to(device), y.to(device)

    return ready(*parts["train"]), ready(*parts.get("validation", parts["test"]))


class Network(nn.Module):
    """A network with what happens to its images: augmentation while it trains, normalization, and the arithmetic.

    With precision "bfloat16" convolutions and products are computed in bfloat16; weights, noise, prior and the softmax
    stay in float32.
    """

    def __init__(
        self, net: nn.Module, precision: str, generator: torch.Generator, augment=None, normalize=None
    ) -> None:
        super().__init__()
        self.net = net.to(memory_format=torch.channels_last)
        self.augment, self.normalize = augment, normalize
        self.precision, self.generator = precision, generator

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, 1, 28, 28) in [0, 1]."""
        if self.training and self.augment is not None:
            x = self.augment(x, generator=self.generator)
        elif self.normalize is not None:
            x = self.normalize(x)
        x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            logits = self.net(x)
        return logits.float()


def build(params: dict[str, Any], method: str, replicate: int, device: torch.device) -> Network:
    """The network without augmentation before training: the same first weights for all methods of a replicate."""
    start, generator = generators(replicate, device)
    net = cnn_two_conv(dropout=0.5 if method == "Dropout" else 0.0, generator=start)
    return Network(net.to(device), params["precision"], generator)


def generators(replicate: int, device: torch.device) -> tuple[torch.Generator, torch.Generator]:
    """Of the first weights, always on the CPU, and of batches, augmentation and dropout."""
    return torch.Generator().manual_seed(70_000 + replicate), torch.Generator(device).manual_seed(71_000 + replicate)


class EpochCopies(Callback):
    """A copy of the network after every epoch, for the curves of the methods that do not sample."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.states: list[State] = []

    def on_epoch(self, run: Run) -> None:
        self.steps.append(run.step)
        self.states.append({name: value.detach().clone() for name, value in run.model.state_dict().items()})

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "states": self.states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.states = list(state["steps"]), list(state["states"])


class two_rates:
    """Step size of the burn-in, reached linearly over the first steps, and that of the sampling after it.

    With both rates equal and one step of warm-up it is constant, as published.
    """

    def __init__(self, burn_in_rate: float, rate: float, warm_up: int, burn_in: int) -> None:
        self.burn_in_rate, self.rate, self.warm_up, self.burn_in = burn_in_rate, rate, warm_up, burn_in

    def __call__(self, step: int) -> float:
        return self.burn_in_rate * min(1.0, step / self.warm_up) if step <= self.burn_in else self.rate


WEIGHTS = polynomial(1.0, 1000.0, 0.75)  # of the stochastic approximation


def step_sizes(params: dict[str, Any], num_data: int) -> two_rates:
    """Of the sampler, by the step from 1."""
    burn_in_rate, rate = (params[name] / num_data for name in ("burn_in_rate", "learning_rate"))
    return two_rates(burn_in_rate, rate, params["warm_up"], params["burn_in"])


def reads(cell: Cell) -> list[partial]:
    """The call of `load_images` that a cell makes, for its probe."""
    params = cell.params.get("network", cell.params)
    return [partial(load_images, {name: params[name] for name in ("data", "held_out", "rows")}, torch.device("cpu"))]


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell that samples, for its probe."""
    params = cell.params
    if not cell.method.startswith("SGHMC"):
        return {}
    num_data = params["rows"] or ROWS - params["held_out"]
    steps = range(1, params["epochs"] * -(-num_data // params["batch_size"]) + 1)
    learns = {"weight": (WEIGHTS, steps)} if cell.method == "SGHMC-SA" else {}
    return {"step size": (step_sizes(params, num_data), steps)} | learns


def train_point(model: Network, train: Images, params: dict[str, Any], checkpoint: Checkpoint | None) -> dict[str, Any]:
    """Adam; "states" has a copy after every epoch, of which the last one is the result."""
    copies = EpochCopies()
    fit(
        model,
        train,
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        optimizer=torch.optim.Adam(model.parameters(), lr=params["adam_rate"], fused=True),
        generator=model.generator,
        checkpoint=checkpoint,
        callbacks=[copies],
    )
    return {"steps": copies.steps, "states": copies.states, "latent": {}}


def train_sampled(
    model: Network, train: Images, params: dict[str, Any], learns: bool, replicate: int, checkpoint: Checkpoint | None
) -> dict[str, Any]:
    """SGHMC with the prior frozen where it starts, or SGHMC-SA, whose prior `learns`; Algorithm 1 without pruning."""
    num_data = len(train[1])
    sparse = "net.fc1.weight"
    prior = SpikeSlabGaussianLaplacePrior(
        model,
        sparse=[sparse],
        spike_scale=1.0,
        slab_variance=0.1,
        sigma=1.0,
        nu=1000.0,
        lam=1000.0,
        kappa=(5e-4, 5e-4),
        weight_decay=5e-4 * num_data,
        scaled_densities=False,
        step_size=WEIGHTS if learns else 0.0,
    )
    lr_schedule = step_sizes(params, num_data)
    sampler = SGHMC(
        model.parameters(),
        lr=lr_schedule.rate,
        momentum=0.9,
        temperature=1.0 / params["inverse_temperature"],
        scheme="euler",
        generator=torch.Generator(train[0].device).manual_seed(72_000 + replicate),
    )
    total = params["epochs"] * -(-num_data // params["batch_size"])
    store = SampleStore(max_samples=1 + total // params["thin"])  # all of them
    sample(
        model,
        train,
        sampler=sampler,
        prior=prior,
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        store=store,
        burn_in=params["burn_in"],
        thin=params["thin"],
        lr_schedule=lr_schedule,
        generator=model.generator,
        checkpoint=checkpoint,
    )
    values = {"sigma": prior.sigma, "rho": prior.rho[sparse].mean(), "delta": prior.inclusion[sparse]}
    latent = {name: float(value) for name, value in values.items()}
    steps = [params["burn_in"] + params["thin"] * offer for offer in store.offers]
    return {"steps": steps, "states": list(store), "latent": latent}


@torch.no_grad()
def probabilities(model: Network, state: State, x: Tensor) -> Tensor:
    """Class probabilities (n, classes) of one copy of the network, dropout off."""
    model.load_state_dict(state)
    model.eval()
    return torch.cat([model(part).softmax(dim=1) for part in x.split(TEST_BATCH)])

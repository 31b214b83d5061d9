"""One stage of the ResNet20 experiment: a chain on augmented images, resumable, on one device or several."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib import datasets
from bnnlib.metrics import accuracy
from bnnlib.pruning import MagnitudePruner, smooth_sparsity
from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.sampling.schedules import Schedule
from bnnlib.train.checkpoint import Checkpoint
from bnnlib.train.fit import Run
from bnnlib.train.sample import sample
from chapters.learned_priors.augmentation import RandomErasing
from chapters.learned_priors.distributed import Team
from chapters.learned_priors.formulas import annealed, constant
from chapters.shared.augmentation import Compose, Normalize, RandomCrop, RandomHorizontalFlip
from chapters.shared.networks import resnet
from chapters.shared.training import EpochRows

MEAN, SD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
NUM_DATA = 50_000  # of the likelihood, for fewer images too: the prior's published constants are made for it
PUBLISHED_STEPS, PUBLISHED_EPOCH = 50_000, 50  # of batches of 1000
BLOCKS = ["layer*.conv?.weight"]  # the convolutions inside the blocks: not the first one, not the 1 x 1 shortcuts
IMAGES = {"simulated": 512}  # to train on, where they are not those of CIFAR-10
LEARNED = {"A-SGHMC": 0.0, "A-SGHMC-EM": 1.0}  # fixed weights of the stochastic approximation; SA's fall

Images = tuple[Tensor, Tensor]


def load_images(name: str, device: torch.device) -> tuple[Images, Images, str]:
    """Training and test images, uint8 (n, 3, height, width) with labels, and the data's title."""
    if name == "simulated":
        train, test = ((x.to(device), y.to(device)) for x, y in (_simulated(512, 1), _simulated(256, 2)))
        return train, test, "simulated images"
    whole = datasets.load(name)
    parts = [(whole.train_x, whole.train_y), (whole.test_x, whole.test_y)]
    train, test = (((x * 255.0).round().to(torch.uint8).to(device), y.to(device)) for x, y in parts)
    return train, test, whole.name


def _simulated(count: int, seed: int) -> Images:
    """Ten fixed patterns of 16 x 16 under noise."""
    patterns = 2.0 * torch.randn(10, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(10, (count,), generator=generator)
    x = F.interpolate(patterns, size=16)[y] + torch.randn(count, 3, 16, 16, generator=generator)
    return (255.0 * torch.sigmoid(x)).round().to(torch.uint8), y


def augmentation() -> Compose:
    """The published one; what is erased becomes the given numbers after normalization."""
    erase = RandomErasing(p=0.5, scale=(0.02, 0.4), ratio=(0.3, 1.0 / 0.3), value=MEAN)
    return Compose([RandomCrop(4), RandomHorizontalFlip(), Normalize(MEAN, SD), erase])


def rate_factor(kind: str, step: int, steps: int) -> float:
    """Factor of the learning rate: tenths after 70 % and 90 % of the steps as published, or up and down once."""
    if kind == "tenths":
        return 0.1 ** ((step > 0.7 * steps) + (step > 0.9 * steps))
    rise = 0.2 * steps
    return min(step / rise, (steps - step + 1) / (steps - rise))


def weights_of(params: dict[str, Any]) -> Schedule:
    """Of the stochastic approximation: 0.02 (1000 + t)^-0.75 at the published step t.

    A chain that is `speed` times shorter makes `speed` of these steps in one.
    """
    if params["method"] in LEARNED:
        return constant(LEARNED[params["method"]])
    speed = params["speed"]
    return polynomial(0.02 * speed**0.25, 1000.0 / speed, 0.75)


def learning_rate(k: int, params: dict[str, Any], steps: int) -> float:
    """Of the chain at step k = 1, 2, ..."""
    return params["learning_rate"] / NUM_DATA * rate_factor(params["schedule"], k, steps)


def removed(k: int, params: dict[str, Any]) -> float:
    """Share of every layer that is pruned after step k, by the published schedule."""
    return smooth_sparsity(k * params["speed"], params["rate"], base=0.99, steps=PUBLISHED_EPOCH)


def schedules(params: dict[str, Any]) -> dict[str, Any]:
    """What changes on the way of a stage, for its probe."""
    count = params["epochs"] * -(-IMAGES.get(params["data"], NUM_DATA) // params["batch_size"])
    steps = range(1, count + 1)
    found: dict[str, Any] = {"learning rate": (partial(learning_rate, params=params, steps=count), steps)}
    if "method" in params:
        found |= {"temperature": (cooling(params), steps), "weight": (weights_of(params), steps)}
        found["sparsity"] = (partial(removed, params=params), steps)
    return found


def make_prior(network: nn.Module, params: dict[str, Any]) -> SpikeSlabGaussianLaplacePrior:
    """The prior of the sparse stage with the settings of the published code."""
    return SpikeSlabGaussianLaplacePrior(
        network,
        sparse=BLOCKS,
        spike_scale=params["spike_scale"],
        slab_variance=params["slab_variance"],
        a=2.7e5,
        b=2.7e5,
        nu=1000.0,
        lam=1000.0,
        kappa=(5e-4, 5e-4),
        step_size=weights_of(params),
        update=params["learned"],
        scaled_densities=False,
        weight_decay=params["weight_decay"] * NUM_DATA,
    )


def run_stage(
    team: Team, params: dict[str, Any], first: dict[str, Tensor] | None, checkpoint: Checkpoint | None
) -> dict[str, Any]:
    """Compute one stage, or what is left of it.

    Args:
        team: the devices; every one of them calls this function with the same arguments.
        params: settings; with a "method" it is the sparse stage, else the pre-training.
        first: the network to start from, None for random weights.
        checkpoint: of this stage.

    Returns:
        "model" the last network, "curve" rows [epoch, mean loss, test accuracy in percent, percent of all parameters
        that are not 0], "latent" numbers about the prior, "data" the data's title.

    Raises:
        DivergedError: the chain has left the finite numbers.
        KeyboardInterrupt: on Ctrl-C, after the checkpoint is written.
    """
    device = team.device
    (x, y), test, title = load_images(params["data"], device)
    network = resnet(params["depth"], width=params["width"], generator=_seeded("cpu", params, 0))
    if first is not None:
        network.load_state_dict(first)
    network.to(device, memory_format=torch.channels_last)  # before the gradients are laid out for averaging
    divided = team.wrap(network)
    # the seeds are the same on all devices, so they draw the same batches and the same noise
    lr, noise = params["learning_rate"] / NUM_DATA, _seeded(device, params, 1)
    sampler = SGHMC(network.parameters(), lr, momentum=0.9, scheme="euler", generator=noise)
    steps = params["epochs"] * -(-len(x) // params["batch_size"])
    curve = Curve(network, test, params["bfloat16"])
    prior, callbacks, temperature = None, [curve], constant(1.0 / params["inverse_temperature"])
    if "method" in params:
        prior = make_prior(network, params)
        callbacks = [make_pruner(prior, params), curve]
        temperature = cooling(params)
    else:
        sampler.register_step_pre_hook(_decay(params["weight_decay"] * NUM_DATA))
    sample(
        divided,
        (x, y),
        sampler=sampler,
        epochs=params["epochs"],
        batch_size=params["batch_size"],
        prior=prior,
        num_data=NUM_DATA,
        loss=lambda outputs, labels: F.cross_entropy(outputs, team.share(labels)),
        augment=_augment(augmentation()),
        lr_schedule=partial(learning_rate, params=params, steps=steps),
        temperature_schedule=temperature,
        callbacks=callbacks,
        generator=_seeded(device, params, 2),
        checkpoint=ReadOnly(checkpoint) if checkpoint and team.rank else checkpoint,
        autocast=torch.bfloat16 if params["bfloat16"] else None,
        channels_last=True,
    )
    sampler.check_finite()
    model = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    return {"model": model, "curve": curve.rows, "latent": latent(prior), "data": title}


def _seeded(device: torch.device | str, params: dict[str, Any], purpose: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(70_000 + 10 * params["seed"] + purpose)


def _augment(augment: Compose):
    return lambda x, generator: augment(x.float() / 255.0, generator=generator)


def _decay(coefficient: float):
    """Before a step of the pre-training, the gradient of the ridge on all parameters."""

    def add_gradient(sampler: SGHMC, *_) -> None:
        parameters = sampler.param_groups[0]["params"]
        torch._foreach_add_([p.grad for p in parameters], [p.detach() for p in parameters], alpha=coefficient)

    return add_gradient


def cooling(params: dict[str, Any]):
    """Temperature of step k: the inverse temperature grows by half a percent with every published epoch, or stays."""
    factor = 1.005 if params["method"].startswith("A-") else 1.0
    temperature = annealed(1.0 / params["inverse_temperature"], factor)
    return lambda k: temperature(int((k - 1) * params["speed"]) // PUBLISHED_EPOCH)


def make_pruner(prior: SpikeSlabGaussianLaplacePrior, params: dict[str, Any]) -> MagnitudePruner:
    """Prunes after every step, the same share of every layer."""
    return MagnitudePruner(prior.weights, partial(removed, params=params), persistent=params["persistent"])


class ReadOnly:
    """A checkpoint that the other devices read and only the first one writes."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.load = checkpoint.load

    def save(self, state: dict[str, Any]) -> None:
        """Nothing: the state is the first device's too."""

    def due(self) -> bool:
        return False


class Curve(EpochRows):
    """A row after every epoch; the test images choose nothing."""

    def __init__(self, network: nn.Module, test: Images, bfloat16: bool) -> None:
        super().__init__()
        self.network, self.test, self.bfloat16 = network, test, bfloat16

    @torch.no_grad()
    def on_epoch(self, run: Run) -> None:
        normalize, (x, y) = Normalize(MEAN, SD), self.test
        self.network.eval()
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bfloat16):
            outputs = [
                self.network(normalize(part.float() / 255.0).contiguous(memory_format=torch.channels_last))
                for part in x.split(500)
            ]
        self.network.train()
        parameters = list(self.network.parameters())
        active = 100.0 * sum(int(p.count_nonzero()) for p in parameters) / sum(p.numel() for p in parameters)
        self.rows.append([run.epoch, run.history[-1]["nll"], accuracy(torch.cat(outputs).float(), y), active])


def latent(prior: SpikeSlabGaussianLaplacePrior | None) -> dict[str, float]:
    """Where the prior's latent variables have gone."""
    if prior is None:
        return {}
    rho = torch.cat([value.flatten() for value in prior.rho.values()])
    kappa = torch.cat([value.flatten() for value in prior.kappa1.values()])
    return {
        "sigma": float(prior.sigma),
        "rho_smallest": float(rho.min()),
        "rho_mean": float(rho.mean()),
        "rho_largest": float(rho.max()),
        "kappa1_mean": float(kappa.mean()),
        "inclusion_mean": float(torch.stack(list(prior.inclusion.values())).mean()),
    }

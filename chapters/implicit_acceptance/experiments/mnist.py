"""Generators of MNIST filtered by implicit Metropolis-Hastings (after Figure 3 of section 1.4, which has other images).

Nothing is published for MNIST. The book profile is made for two CPU cores: small networks, 5,000 images, 10 proposals a
chain; the paper profile has 10,000 images, as published, 20 proposals, and networks of the size of DCGAN. The numbers
of iterations, the learning rate of the discriminator, b and the angle were settled in trials on held-out training
images (one generator) before the test images were looked at; they are the same for all replicates.
"""

import math
from collections.abc import Sequence
from typing import Any

from book.lab.cells import Cell
from chapters.implicit_acceptance.experiments.images import CCE, MCE, PICKED, RANDOM, RAW, TINY, UB, experiment, grid

NAME = "imh-mnist"
GAN = {"width": 16, "steps": 1000, "batch_size": 64, "learning_rate": 1e-3, "critic_steps": 2}
AUTOENCODER = {"width": 16, "steps": 1500, "batch_size": 64, "learning_rate": 1e-3, "likelihood": "bernoulli"}
DISCRIMINATOR = {"width": 32, "batch_size": 64, "lower": 0.01, "spread": 1.0, "logit_penalty": 1e-3}
BOOK: dict[str, Any] = {"held_out": 5_000, "scaling": "unit", "samples": 5_000, "bootstrap": 50}
BOOK |= {"pool": 50_000, "pool_steps": 500}
BOOK |= {"chain_steps": 10, "angle": math.pi / 3, "classifier": {"width": 16, "epochs": 4}}
BOOK |= {"inversion": {"images": 4_000, "steps": 40, "penalty": 0.1}}
PAPER = BOOK | {"held_out": 10_000, "samples": 10_000, "chain_steps": 20, "bootstrap": 100}
PAPER |= {"inversion": {"images": 20_000, "steps": 200, "penalty": 0.1}}
SMOKE = BOOK | TINY | {"inversion": TINY["inversion"] | {"penalty": 0.1}}
LARGE = {"width": 64, "steps": 20_000, "learning_rate": 2e-4}
AGAINST_GAN = {"learning_rate": 1e-3, "iterations": [0, 200, 400, 800, 1600], "iterations_markov": [0, 400, 800, 1200]}
# its images are easy to tell from real ones: with 800 iterations chains hardly moved any more
AGAINST_VAE = {"learning_rate": 3e-4, "iterations": [0, 50, 100, 200, 400], "iterations_markov": [0, 100, 200, 400]}
MODELS = ("WGAN-GP", "VAE")


def models(images: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Parameters of the two generators and their discriminators, at the sizes of the book or of the images' own."""
    gan, vae = GAN | images.get("gan", {}), AUTOENCODER | images.get("vae", {})
    first, second = (DISCRIMINATOR | one | images.get("filter", {}) for one in (AGAINST_GAN, AGAINST_VAE))
    return {
        "WGAN-GP": {"generator": gan, "latent_dim": 64, "discriminator": first},
        "VAE": {"generator": vae, "latent_dim": 16, "discriminator": second},
    }


def smoke(name: str, shape: list[int]) -> list[Cell]:
    """One replicate of everything, in seconds, on the digits of scikit-learn."""
    tiny = {"gan": TINY["generator"], "vae": TINY["generator"], "filter": TINY["discriminator"]}
    counts = dict.fromkeys((RAW, RANDOM, CCE, PICKED, UB, MCE), 1)
    return grid(name, SMOKE | {"shape": shape}, models(tiny), dict.fromkeys(MODELS, counts))


def book(name: str, data: str, shape: Sequence[int] = (1, 28), picked: int = 0, **own: Any) -> list[Cell]:
    """Five replicates; Markov proposals of WGAN-GP alone, two of MCE; of it too so many with a picked discriminator."""
    counts = dict.fromkeys((RAW, RANDOM, CCE), 5)
    return grid(
        name,
        BOOK | {"data": data, "shape": list(shape)},
        models(own),
        {"WGAN-GP": counts | {PICKED: picked, UB: 5, MCE: 2}, "VAE": counts},
    )


def paper(name: str, data: str, shape: list[int], **own: Any) -> list[Cell]:
    """Five replicates of everything."""
    counts = dict.fromkeys((RAW, RANDOM, CCE, UB, MCE), 5)
    large = {
        "gan": LARGE | {"critic_steps": 5},
        "vae": LARGE | {"learning_rate": 1e-3},
        "filter": {"width": 64, "learning_rate": 2e-4},
    }
    large["filter"]["iterations"] = [0, 200, 400, 600, 800, 1000, 1200, 1400]  # as in Figure 3
    large["filter"]["iterations_markov"] = large["filter"]["iterations"]
    common = PAPER | {"data": data, "shape": shape}
    return grid(name, common, models(large | own), dict.fromkeys(MODELS, counts))


EXPERIMENTS = [
    experiment(
        NAME,
        "MNIST",
        {
            "smoke": lambda: smoke(NAME, [1, 28]),
            "book": lambda: book(NAME, "mnist"),
            "paper": lambda: paper(NAME, "mnist", [1, 28]),
        },
    )
]

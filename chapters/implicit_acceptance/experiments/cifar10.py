"""Generators of CIFAR-10 filtered by implicit Metropolis-Hastings (Figure 3 of section 1.4, and the authors' slides).

Published are FID and inception score, of a network that is not ours: numbers of our classifier's features stand beside
them without a verdict. The likelihood of the variational autoencoder is Gaussian with one standard deviation.
"""

from book.lab.cells import Cell
from chapters.implicit_acceptance.experiments.images import experiment
from chapters.implicit_acceptance.experiments.mnist import AUTOENCODER, GAN, LARGE, book, paper, smoke

NAME = "imh-cifar10"
GAUSSIAN = {"likelihood": "gaussian"}


def _book() -> list[Cell]:
    networks = {"gan": GAN | {"steps": 2_000}, "vae": AUTOENCODER | GAUSSIAN | {"steps": 3_000}}
    return book(NAME, "cifar10", shape=[3, 32], **networks)


def _paper() -> list[Cell]:
    networks = {"gan": LARGE | {"critic_steps": 5, "steps": 50_000}, "vae": LARGE | GAUSSIAN | {"learning_rate": 1e-3}}
    return paper(NAME, "cifar10", [3, 32], **networks)


EXPERIMENTS = [
    experiment(
        NAME,
        "CIFAR-10",
        {"smoke": lambda: smoke(NAME, [3, 32]), "book": _book, "paper": _paper},
    )
]

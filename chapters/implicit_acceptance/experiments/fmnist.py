"""Generators of Fashion-MNIST filtered by implicit Metropolis-Hastings; settings and budgets are those of imh-mnist."""

from chapters.implicit_acceptance.experiments.images import experiment
from chapters.implicit_acceptance.experiments.mnist import book, paper, smoke

NAME = "imh-fmnist"

EXPERIMENTS = [
    experiment(
        NAME,
        "Fashion-MNIST",
        {
            "smoke": lambda: smoke(NAME, [1, 28]),
            "book": lambda: book(NAME, "fashion_mnist", picked=5),
            "paper": lambda: paper(NAME, "fashion_mnist", [1, 28]),
        },
    )
]

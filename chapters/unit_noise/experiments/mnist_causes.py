"""Why SparseVD leaves other numbers of units on MNIST than published: the length of its training.

`sbp-mnist` gives LeNet-500-300 80 epochs and finds fewer units than published, and LeNet-5 10 epochs and finds more;
neither length is published. Here they are a quarter of it and four times as long. Both factors were set before these
runs, the quarter with the knowledge that an earlier state of `sbp-mnist`, which had those 20 epochs, kept more units.
All else, the length of the dense network included, is as in `sbp-mnist`; nothing is timed.
"""

from book.lab.cells import Cell, Experiment, profiles
from chapters.shared.images import reads
from chapters.unit_noise.experiments import mnist
from chapters.unit_noise.experiments.images import MEASURED, TINY, budget, run_cell, schedules

NAME = "sbp-mnist-causes"


def _cells(epochs: dict[str, int], profile: str, replicates: int) -> list[Cell]:
    return [
        cell for setting in epochs for cell in mnist.sparse_alone(NAME, setting, profile, epochs[setting], replicates)
    ]


EXPERIMENTS = [
    Experiment(
        name=NAME,
        summary="SparseVD on LeNet-500-300 and LeNet-5, a quarter and four times as long as in sbp-mnist",
        profiles=profiles(
            _cells,
            smoke=({"LeNet-500-300": 1, "LeNet-5": 2}, "smoke", 1),
            book=({"LeNet-500-300": 20, "LeNet-5": 40}, "book", 3),
        ),
        run_cell=run_cell,
        tiny=TINY,
        measured=MEASURED,
        reads=reads,
        schedules=schedules,
        budget=budget,
        value=7.0,
    )
]

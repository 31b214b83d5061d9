"""Does the correlation of phi with the effects vary less for linear functions (Experiment 2)? On thirty data sets each.

Written down before the run. Cells are those of `sbnn-importance` with 30 data sets in place of five, under the prior
that its ELBO chose, for D = 10 and 50 and all ten alphas; linear and nonlinear functions share inputs and noise.

"correlation_spread" of a data set is the distance of its correlation from the median over the thirty, averaged over the
alphas: comparing these distances by t is the test of Brown and Forsythe for equal spreads, here in pairs of data sets.
"fisher_spread" is the same of the inverse hyperbolic tangent of the correlation. A correlation near 1 has no room to
vary, whatever the function; the transform takes this away.

What an outcome means, for each D:

1. The linear correlations' distances are smaller, decided by t: they vary less, as claimed.
2. So, but "fisher_spread" is not smaller: they do because they are nearer to 1, and for no other reason. No claim reads
   this; the text says it.
3. Undecided or larger: the order is not there at thirty data sets.
"""

import torch
from torch import Tensor

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, epochs_of, profiles, rows_of
from chapters.closed_form.experiments import simulation_nets as nets
from chapters.closed_form.experiments import simulations


def distances(values: Tensor) -> Tensor:
    """Distance of each data set's value from the median over data sets, averaged over settings: (s, R) to (R,)."""
    return (values - values.quantile(0.5, dim=1, keepdim=True)).abs().mean(dim=0)


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """All alphas of all data sets as one stack, and the spreads of their correlations."""
    rows = simulations.run_importance(cell, device, checkpoint).rows
    found = [row["value"] for row in rows if (row["method"], row["metric"]) == (cell.method, "correlation")]
    correlation = torch.tensor(found, dtype=torch.float64).view(-1, len(cell.replicates))
    kept = [row for row in rows if row["metric"] == "correlation"]
    spreads = {"correlation_spread": distances(correlation), "fisher_spread": distances(correlation.atanh())}
    return CellResult(kept + rows_of(cell, spreads))


def _cells(sizes: tuple[int, ...], replicates: int, epochs: int, num_samples: int) -> list[Cell]:
    params = nets.TRAINING | {"epochs": epochs, "num_samples": num_samples, "prior": list(nets.READ_PRIOR)}
    return [
        Cell(
            f"{function}, D={size}",
            "sBNN",
            tuple(range(replicates)),
            params | {"num_inputs": size, "function": function, "keep_phi": False},
        )
        for size in sizes
        for function in simulations.FUNCTIONS
    ]


EXPERIMENTS = [
    nets.experiment(
        name="sbnn-importance-spread",
        summary="Experiment 2 on thirty data sets: how much the correlation of phi with the effects varies",
        profiles=profiles(_cells, smoke=((10,), 3, 3, 100), book=((10, 50), 30, nets.TRAINING["epochs"], 2_000)),
        run_cell=run_cell,
        budget=epochs_of,
    )
]

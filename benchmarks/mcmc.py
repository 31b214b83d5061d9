"""Time of many chains as one batch against a loop over chains, and against emcee.

`python -m benchmarks.mcmc [--json] [--chains 1000] [--draws 100]`

The target is the posterior of a logistic regression with 25 coefficients and 1,000 simulated data, the size of German
credit. Batch: all chains together. Loop: the same kernel on one chain at a time, for `loop_chains` of them, scaled to
all (`loop_chains` is in the row). emcee (`pip install emcee`), where it is installed, runs as many walkers with its
default moves on the same density, vectorized, for as many steps; "not installed" otherwise. Its walkers are one
ensemble, a single chain of the whole, so that effective draws are not comparable by chains; `ess_per_s`, the least over
coefficients after the run's first half, is.
"""

import warnings
from importlib.util import find_spec

import torch
from torch import Tensor

from benchmarks import command
from benchmarks.timing import seconds
from bnnlib.sampling import (
    FullGaussian,
    HamiltonianMonteCarlo,
    Independent,
    Kernel,
    RandomWalk,
    effective_sample_size,
    learn_proposal,
    metropolis_hastings,
    sample,
)

DIM, ROWS = 25, 1000
LEARNING_STEPS = 500


class Posterior:
    """Log density of logistic regression with a standard normal prior, and its Laplace approximation."""

    def __init__(self, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(ROWS, DIM, generator=generator)
        x[:, -1] = 1.0
        uniform, coefficients = torch.rand(ROWS, generator=generator), 0.3 * torch.randn(DIM, generator=generator)
        labels = uniform < torch.sigmoid(x @ coefficients)
        # log sigmoid(signed x) is the likelihood
        self.signed = (x * (2.0 * labels.float() - 1.0)[:, None]).to(device)
        self.mode = torch.zeros(DIM, device=device)
        for _ in range(20):
            share = torch.sigmoid(-self.signed @ self.mode)
            precision = (self.signed.T * (share * (1.0 - share))) @ self.signed + torch.eye(DIM, device=device)
            self.mode = self.mode + torch.linalg.solve(precision, self.signed.T @ share - self.mode)
        self.covariance = torch.linalg.inv(precision)
        self.covariance = 0.5 * (self.covariance + self.covariance.T)

    def log_prob(self, points: Tensor) -> Tensor:
        """(chains, 25) to (chains,)."""
        fit = torch.nn.functional.logsigmoid(points @ self.signed.T).sum(dim=-1)
        return fit - 0.5 * points.square().sum(dim=-1)

    def start(self, chains: int, generator: torch.Generator) -> Tensor:
        """Draws of the Laplace approximation."""
        noise = torch.randn(chains, DIM, generator=generator, device=self.mode.device)
        return self.mode + noise @ torch.linalg.cholesky(self.covariance).T


def kernels(target: Posterior, generator: torch.Generator) -> dict[str, tuple[Kernel, float]]:
    """By name: a kernel, and the seconds that learning it took."""
    density, settings = FullGaussian(DIM).to(target.mode.device), {"batch_size": 64, "learning_rate": 0.02}
    settings |= {"num_steps": LEARNING_STEPS, "generator": generator}
    learned = seconds(lambda: learn_proposal(target.log_prob, density, "symmetric_kl", **settings), target.mode.device)
    scale = 2.4 / DIM**0.5 * target.covariance.diagonal().sqrt()
    return {
        "independent": (metropolis_hastings(target.log_prob, Independent(density)), learned),
        "random walk": (metropolis_hastings(target.log_prob, RandomWalk(scale)), 0.0),
        "HMC": (HamiltonianMonteCarlo(target.log_prob, 0.5, 5, target.covariance), 0.0),
    }


def _ess(draws: Tensor) -> float:
    return float(effective_sample_size(draws[:, draws.shape[1] // 2 :]).min())


def measure(chains: int, draws: int, loop_chains: int, device: torch.device) -> list[dict]:
    """Rows {library, kernel, chains, draws, device, batch_s, loop_s, loop_chains, factor, learn_s, ess_per_s}."""
    target, generator = Posterior(device), torch.Generator(device).manual_seed(1)
    start, rows, traces = target.start(chains, generator), [], []
    about = {"chains": chains, "draws": draws, "device": str(device)}
    for name, (kernel, learn_s) in kernels(target, generator).items():
        sample(kernel, start, 2, generator=generator)  # warm
        batch_s = seconds(lambda k=kernel: traces.append(sample(k, start, draws, generator=generator)), device)
        loop_s = seconds(lambda k=kernel: _loop(k, start[:loop_chains], draws, generator), device)
        loop_s *= chains / loop_chains
        row = {"library": "bnnlib", "kernel": name, **about, "batch_s": round(batch_s, 4), "loop_s": round(loop_s, 3)}
        row |= {"loop_chains": loop_chains, "factor": round(loop_s / batch_s, 1), "learn_s": round(learn_s, 3)}
        rows.append(row | {"ess_per_s": round(2 * _ess(traces[-1].draws) / batch_s, 1)})
    return [*rows, {"library": "emcee", "kernel": "stretch", **about} | _emcee(target, start, draws, device)]


def _loop(kernel: Kernel, start: Tensor, draws: int, generator: torch.Generator) -> None:
    for one in start:
        sample(kernel, one[None], draws, generator=generator)


def _emcee(target: Posterior, start: Tensor, draws: int, device: torch.device) -> dict:
    """{batch_s, ess_per_s} of the peer, or a note."""
    if find_spec("emcee") is None:
        return {"note": "not installed"}
    import emcee
    import numpy as np

    np.random.seed(0)

    def density(points: np.ndarray) -> np.ndarray:
        return target.log_prob(torch.from_numpy(points).to(target.mode)).cpu().numpy()

    sampler = emcee.EnsembleSampler(len(start), DIM, density, vectorize=True)
    taken = seconds(lambda: sampler.run_mcmc(start.cpu().double().numpy(), draws), device)
    found = torch.from_numpy(sampler.get_chain()).transpose(0, 1)
    return {"batch_s": round(taken, 4), "ess_per_s": round(2 * _ess(found) / taken, 1)}


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("mcmc", __doc__, device=True)
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--loop-chains", type=int, default=10, help="chains of the loop, scaled to all")
    options = parser.parse_args(arguments)
    device, say = command.start(options, f"{DIM} dimensions")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*chains never moved")  # of short runs
        rows = measure(options.chains, options.draws, min(options.loop_chains, options.chains), device)
    for row in rows:
        name = f"{row['library']:7s} {row['kernel']:12s} {row['chains']} chains x {row['draws']} draws"
        if "note" in row:
            print(f"{name}  {row['note']}", file=say)
            continue
        text = f"{name}  {row['batch_s']:8.3f} s, {row['ess_per_s']:10.0f} effective draws a second"
        if "loop_s" in row:
            loop = f"{row['loop_s']:8.1f} s (scaled from {row['loop_chains']} chains)"
            text += f", loop {loop}: {row['factor']:6.1f} times"
            text += f", learned in {row['learn_s']:.1f} s" if row["learn_s"] else ""
        print(text, file=say)
    return command.done(rows, options)


if __name__ == "__main__":
    main()

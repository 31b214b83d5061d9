"""Whether numbers drawn by key have the law they claim: moments, quantiles, and independence of what lies side by side.

`python -m benchmarks.noise_law [--json] [--millions 100]`

Each row is one statistic of that many numbers, standardized by its own standard deviation under the claimed law: about
N(0, 1) where the law holds. Neighbors are numbers of one draw at a distance, and the same place in two draws whose
keys differ by one in the step, the layer, the seed or the number of the draw within a pass.
"""

import math

import torch
from torch import Tensor, nn

from benchmarks import command
from bnnlib._noise import Keyed, draw_normal, draw_signs, draw_uniform
from bnnlib.nn import redraw

WIDTH = 250_000  # numbers of one draw
BINS = 1024
LAGS = (1, 2, 3, 4, 8, 16, 624)  # lanes of vectorized generators, and the words of the Mersenne Twister
# raw moments 1 to 4 and their variances for one number, under N(0, 1)
MOMENTS = ((0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0))


class Layer(Keyed, nn.Module):
    """A layer that draws twice in a pass."""

    def draws(self) -> tuple[Tensor, Tensor]:
        noise, like = self._noise(None), torch.empty(WIDTH)
        return draw_normal(like, noise), draw_normal(like, noise)


class Sums:
    """Running sums of products of standard normal numbers, by name."""

    def __init__(self) -> None:
        self.sums: dict[str, list[float]] = {}

    def add(self, name: str, one: Tensor, other: Tensor) -> None:
        """Products of independent standard normals have mean 0 and variance 1."""
        kept = self.sums.setdefault(name, [0.0, 0.0])
        kept[0] += float(torch.dot(one, other))
        kept[1] += one.numel()

    def rows(self) -> list[dict]:
        return [{"statistic": name, "z": total / math.sqrt(count)} for name, (total, count) in self.sums.items()]


def normals(draws: int) -> list[dict]:
    """Rows {statistic, z} of `draws` keyed draws of `WIDTH` standard normal numbers each."""
    model, sums = nn.ModuleList([Layer(), Layer()]), Sums()
    powers, counts = [0.0] * 4, torch.zeros(BINS, dtype=torch.float64)
    before = torch.zeros(0, dtype=torch.float64)
    for step in range(draws // 4):
        redraw(model, seed=9, step=step)
        (first, second), (other, last) = ([x.double() for x in layer.draws()] for layer in model)
        redraw(model, seed=10, step=step)
        sums.add("neighboring seeds", first, model[0].draws()[0].double())
        sums.add("neighboring draws of a pass", first, second)
        sums.add("neighboring layers", first, other)
        sums.add("squares, neighboring draws of a pass", (first**2 - 1) / 2**0.5, (second**2 - 1) / 2**0.5)
        if step:
            sums.add("neighboring steps", first, before)
        before = first
        for x in (first, second, other, last):
            for lag in LAGS:
                sums.add(f"distance {lag} in a draw", x[lag:], x[:-lag])
            powers = [total + float((x**k).sum()) for k, total in enumerate(powers, 1)]
            counts += torch.histc(torch.special.ndtr(x), BINS, 0.0, 1.0)
    number = draws // 4 * 4 * WIDTH
    moments = [
        {"statistic": f"moment {k}", "z": (total / number - mean) / math.sqrt(variance / number)}
        for k, (total, (mean, variance)) in enumerate(zip(powers, MOMENTS, strict=True), 1)
    ]
    return [*moments, _chi_square(f"{BINS} equal shares", counts), *sums.rows()]


def others(draws: int) -> list[dict]:
    """Rows of uniform numbers and of signs, by key as well."""
    layer, counts = Layer(), torch.zeros(BINS, dtype=torch.float64)
    total, like = 0.0, torch.empty(WIDTH)
    for step in range(draws):
        redraw(layer, seed=11, step=step)
        counts += torch.histc(draw_uniform(like, layer._noise(None)), BINS, 0.0, 1.0).double()
        total += float(draw_signs((WIDTH,), like, layer._noise(None)).double().sum())
    return [
        _chi_square(f"uniform, {BINS} equal shares", counts),
        {"statistic": "signs, mean", "z": total / math.sqrt(draws * WIDTH)},
    ]


def _chi_square(name: str, counts: Tensor) -> dict:
    """Pearson's statistic less its degrees of freedom, over its standard deviation."""
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    return {
        "statistic": name,
        "z": (float(((counts - expected) ** 2 / expected).sum()) - freedom) / math.sqrt(2 * freedom),
    }


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("noise_law", __doc__)
    parser.add_argument("--millions", type=int, default=100, help="numbers of each kind")
    options = parser.parse_args(arguments)
    draws = options.millions * 1_000_000 // WIDTH
    rows = [{**row, "z": round(row["z"], 2)} for row in (*normals(draws), *others(draws // 4))]
    for row in rows:
        print(f"{row['statistic']:40s} {row['z']:6.2f}", file=command.progress(options))
    return command.done(rows, options)


if __name__ == "__main__":
    main()

"""The exact posterior of a small sigmoid network under a spike-and-slab prior, by Markov chains on gates and weights.

It is what the variational posterior approximates: the same network, prior and noise, and no restriction of its form.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bnnlib import functional as bF
from bnnlib.replicates import Layout

_MIXTURE = 0.8  # weight of the fitted normal in a proposal; the rest is the slab, whose tails bound the ratio
_WIDER = 1.2  # of the fitted normal's standard deviation
_LEAST = 1e-3  # probability of proposing an open, or a closed, gate


@dataclass
class GateChains:
    """Chains on the weights of an inputs-a-b-1 sigmoid network with N(0, 1) noise; a closed gate is a weight of 0.

    `sweep` visits every weight and draws gate and value together: from the odds and the normal that the output's slope
    in this weight gives, corrected by the ratio of Metropolis and Hastings. `path` does so with three gates of a path,
    and `move` shifts all open weights together by Hamiltonian dynamics.

    Args:
        x: inputs, shape (n, p).
        y: targets, shape (n,).
        theta: where the chains start, shape (chains, parameters), in the order of `Layout`; 0 is a closed gate.
        sizes: of the network, two hidden layers.
        inclusion: prior inclusion probability lambda.
        scale: the slab's standard deviation sigma_0.
        generator: of all randomness.

    Raises:
        ValueError: the network has not two hidden layers and one output.
    """

    x: Tensor
    y: Tensor
    theta: Tensor
    sizes: tuple[int, ...]
    inclusion: float
    scale: float
    generator: torch.Generator
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        if len(self.sizes) != 4 or self.sizes[-1] != 1:
            raise ValueError(
                f"sizes are {self.sizes}, but these chains know networks with two hidden layers, one output."
            )
        self.layout = Layout(self.sizes, len(self.theta))
        self.theta = self.theta.clone()
        self._columns = torch.cat([self.x.T, torch.ones_like(self.x.T[:1])]).contiguous()
        self._sites = self._named()

    def _named(self) -> list[tuple[int, int, int]]:
        """(layer, unit, input) of every parameter; the input of a bias is the layer's width."""
        found: list[tuple[int, int, int]] = []
        for layer, (fan_in, fan_out) in enumerate(self.layout.pairs):
            found += [(layer, unit, source) for unit in range(fan_out) for source in range(fan_in)]
            found += [(layer, unit, fan_in) for unit in range(fan_out)]
        return found

    @torch.no_grad()
    def sweep(self) -> None:
        """Visit every gate once, in an order that is drawn."""
        self._refresh()
        for site in torch.randperm(len(self._sites), generator=self.generator).tolist():
            self._visit(site, *self._sites[site])

    def _refresh(self) -> None:
        (w1, b1), (w2, b2), _ = self._layers = self.layout.layers(self.theta)
        self._a1 = w1 @ self.x.T + b1
        self._h1, self._h2, self._f = self._states(self.theta)
        self._a2 = w2 @ self._h1 + b2
        self._bend = self._h2 * (1 - self._h2)

    def _shifted(self, layer: int, unit: int, source: int, by: Tensor) -> tuple[Tensor, ...]:
        """a1 of the unit, h1 of the unit, a2, h2 and f after one weight has moved by `by` (chains,)."""
        (_, _), (w2, _), (w3, _) = self._layers
        a1, h1, a2, h2 = self._a1[:, unit] if layer == 0 else None, None, self._a2, self._h2
        if layer == 0:
            a1 = a1 + by[:, None] * self._columns[source]
            h1 = torch.sigmoid(a1)
            a2 = a2 + w2[:, :, unit, None] * (h1 - self._h1[:, unit])[:, None]
            h2 = torch.sigmoid(a2)
        elif layer == 1:
            below = self._h1[:, source] if source < self.sizes[1] else torch.ones_like(self._f)
            a2 = a2.clone()
            a2[:, unit] += by[:, None] * below
            h2 = h2.clone()
            h2[:, unit] = torch.sigmoid(a2[:, unit])
        else:
            above = h2[:, source] if source < self.sizes[2] else torch.ones_like(self._f)
            return a1, h1, a2, h2, self._f + by[:, None] * above
        return a1, h1, a2, h2, self._f + (w3 @ (h2 - self._h2))[:, 0]

    def _slope(self, layer: int, unit: int, source: int, moved: tuple[Tensor, ...]) -> Tensor:
        """df / dw of one weight at every row, (chains, n), after the move."""
        (_, _), (w2, _), (w3, _) = self._layers
        _, h1, _, h2, _ = moved
        if layer == 2:
            return h2[:, source] if source < self.sizes[2] else torch.ones_like(self._f)
        if layer == 1:
            below = self._h1[:, source] if source < self.sizes[1] else 1.0
            return w3[:, 0, unit, None] * h2[:, unit] * (1 - h2[:, unit]) * below
        bend = self._bend if h2 is self._h2 else h2 * (1 - h2)
        back = (w3[:, 0, :] * w2[:, :, unit])[:, None, :] @ bend
        return back[:, 0] * (h1 * (1 - h1)) * self._columns[source]

    def _visit(self, site: int, layer: int, unit: int, source: int) -> None:
        old = self.theta[:, site].clone()
        if old.any():
            closed = self._shifted(layer, unit, source, -old)
        else:
            closed = self._a1[:, unit], self._h1[:, unit], self._a2, self._h2, self._f
        slope = self._slope(layer, unit, source, closed)
        residual = self.y - closed[-1]
        precision = slope.square().sum(1) + self.scale**-2
        mean = (slope * residual).sum(1) / precision
        logit = bF.log_odds(self.inclusion)
        logit = logit + 0.5 * mean.square() * precision - 0.5 * precision.log() - math.log(self.scale)
        chance = torch.sigmoid(logit).clamp(_LEAST, 1 - _LEAST)
        wide = _WIDER / precision.sqrt()
        noise, uniform = (self._drawn(torch.Tensor.normal_, 1), self._drawn(torch.Tensor.uniform_, 3))
        value = torch.where(uniform[0] < _MIXTURE, mean + wide * noise[0], self.scale * noise[0])
        new = torch.where(uniform[1] < chance, value, 0.0)
        if not (old.any() or new.any()):
            return
        moved = self._shifted(layer, unit, source, new - old)
        gain = 0.5 * ((self.y - self._f).square() - (self.y - moved[-1]).square()).sum(1)

        def weighed(value: Tensor) -> Tensor:
            """Log prior less log proposal."""
            open_ = math.log(self.inclusion) + self._slab(value) - chance.log() - self._proposed(value, mean, wide)
            return torch.where(value == 0, math.log1p(-self.inclusion) - (-chance).log1p(), open_)

        accepted = uniform[2].log() < gain + weighed(new) - weighed(old)
        if not accepted.any():
            return
        self.theta[:, site] = torch.where(accepted, new, old)  # the layers are views of it
        keep = accepted[:, None]
        a1, h1, a2, h2, f = moved
        if layer == 0:
            self._a1[:, unit] = torch.where(keep, a1, self._a1[:, unit])
            self._h1[:, unit] = torch.where(keep, h1, self._h1[:, unit])
        if layer < 2:
            self._a2 = torch.where(keep[..., None], a2, self._a2)
            self._h2 = torch.where(keep[..., None], h2, self._h2)
            self._bend = self._h2 * (1 - self._h2)
        self._f = torch.where(keep, f, self._f)

    @torch.no_grad()
    def path(self) -> Tensor:
        """Open, or close, the gates of a whole path from an input to the output: one of them alone is worth nothing.

        A path is opened among those of three closed gates, and closed among those of three open ones. Its upper weights
        are drawn from the slab, the lowest from the normal that the output's slope gives then, and the output's bias
        takes the mean of what the path adds.

        Returns:
            Which chains changed, (chains,).
        """
        inputs, first, row = *self.sizes[:2], torch.arange(len(self.theta))
        birth = self._drawn(torch.Tensor.uniform_, 1)[0] < 0.5
        choices = torch.where(birth[:, None], *self._paths(self.theta))
        possible = choices.any(1) & (self.theta[:, -1] != 0)
        chosen = torch.multinomial((choices | ~possible[:, None]).double(), 1, generator=self.generator)[:, 0]
        m, k, j = chosen // (first * inputs), chosen // inputs % first, chosen % inputs
        ends = torch.tensor(self.layout.splits).cumsum(0)
        sites = torch.stack([ends[3] + m, ends[1] + m * first + k, k * inputs + j], dim=1)
        old = self.theta.gather(1, sites)
        off = self.theta.scatter(1, sites, torch.zeros_like(old))
        values = torch.where(birth[:, None], self.scale * self._drawn(torch.Tensor.normal_, 3).T, old)
        values[:, 2] = 0.0
        h1, h2, middle = self._states(off.scatter(1, sites, values))
        (_, _), (w2, _), (w3, _) = self.layout.layers(off.scatter(1, sites, values))
        back = (w3[:, 0] * w2[row, :, k])[:, None, :] @ (h2 * (1 - h2))
        slope = back[:, 0] * (h1 * (1 - h1))[row, k] * self._columns[j]
        slope, residual = (part - part.mean(1, keepdim=True) for part in (slope, self.y - middle))
        precision = slope.square().sum(1) + self.scale**-2
        mean, wide = (slope * residual).sum(1) / precision, _WIDER / precision.sqrt()
        noise, uniform = self._drawn(torch.Tensor.normal_, 1)[0], self._drawn(torch.Tensor.uniform_, 2)
        lowest = torch.where(uniform[0] < _MIXTURE, mean + wide * noise, self.scale * noise)
        values[:, 2] = torch.where(birth, lowest, old[:, 2])
        on = off.scatter(1, sites, values)
        closed, opened = self._states(off)[2], self._states(on)[2]
        shift = (opened - closed).mean(1)
        on[:, -1] -= torch.where(birth, shift, 0.0)
        off[:, -1] += torch.where(birth, 0.0, shift)
        closed, opened = closed + (off - self.theta)[:, -1:], opened + (on - self.theta)[:, -1:]
        ratio = 3 * bF.log_odds(self.inclusion) + self._slab(values[:, 2]) - self._proposed(values[:, 2], mean, wide)
        ratio += self._slab(on[:, -1]) - self._slab(off[:, -1])
        ratio += 0.5 * ((self.y - closed).square() - (self.y - opened).square()).sum(1)
        ratio += self._paths(off)[0].sum(1).log() - self._paths(on)[1].sum(1).log()
        accepted = possible & (uniform[1].log() < torch.where(birth, ratio, -ratio))
        self.theta = torch.where(accepted[:, None], torch.where(birth[:, None], on, off), self.theta)
        return accepted

    def _paths(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Which paths (unit of the second layer, of the first, input) have no open gate and which have three."""
        (w1, _), (w2, _), (w3, _) = self.layout.layers(theta != 0)
        on = w3[:, 0, :, None, None].int() + w2[..., None].int() + w1[:, None].int()
        return (on == 0).flatten(1), (on == 3).flatten(1)

    def _states(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both hidden layers and the output at all rows."""
        (w1, b1), (w2, b2), (w3, b3) = self.layout.layers(theta)
        h1 = torch.sigmoid(w1 @ self.x.T + b1)
        h2 = torch.sigmoid(w2 @ h1 + b2)
        return h1, h2, (w3 @ h2 + b3)[:, 0]

    def _slab(self, value: Tensor) -> Tensor:
        return _log_normal(value, torch.zeros_like(value), torch.full_like(value, self.scale))

    def _proposed(self, value: Tensor, mean: Tensor, wide: Tensor) -> Tensor:
        """Log density of a proposal: the fitted normal, with the slab mixed in."""
        fitted = _log_normal(value, mean, wide) + math.log(_MIXTURE)
        return torch.logaddexp(fitted, self._slab(value) + math.log(1 - _MIXTURE))

    def _drawn(self, fill, count: int) -> Tensor:
        return fill(torch.empty(count, len(self.theta), dtype=self.theta.dtype), generator=self.generator)

    def move(self, step_sizes: tuple[float, float, float], num_leapfrog: int) -> Tensor:
        """One Hamiltonian step of the open weights; each layer has its step, all scaled by one factor that is drawn.

        Returns:
            Which chains moved, (chains,).
        """
        open_ = self.theta != 0
        each = [torch.full((n,), step_sizes[k // 2]) for k, n in enumerate(self.layout.splits)]
        factor = 10 ** -self._drawn(torch.Tensor.uniform_, 1)[0]  # 0.1 to 1: some steps fit the narrowest direction
        step = torch.cat(each).to(self.theta) * factor[:, None] * open_
        start = torch.empty_like(self.theta).normal_(generator=self.generator) * open_
        position, momentum = self.theta, start
        before, gradient = self._log_density(position)
        after = before
        for _ in range(num_leapfrog):
            momentum = momentum + 0.5 * step * gradient
            position = position + step * momentum
            after, gradient = self._log_density(position)
            momentum = momentum + 0.5 * step * gradient
        energy = 0.5 * (start.square() - momentum.square()).sum(1)
        accepted = self._drawn(torch.Tensor.uniform_, 1)[0].log() < (after - before + energy).nan_to_num(-math.inf)
        self.theta = torch.where(accepted[:, None], position, self.theta)
        return accepted

    def _log_density(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Of the open weights, up to a constant, and its gradient."""
        point = theta.detach().requires_grad_()
        fit = outputs(self.layout, point, self.x)
        value = -0.5 * (self.y - fit).square().sum(1) - 0.5 * point.square().sum(1) / self.scale**2
        (gradient,) = torch.autograd.grad(value.sum(), point)
        return value.detach(), gradient


def outputs(layout: Layout, theta: Tensor, x: Tensor) -> Tensor:
    """f of sigmoid networks with weights theta (networks, parameters) at inputs (m, p): shape (networks, m)."""
    h = x.T.expand(len(theta), *x.T.shape)
    for k, (weight, bias) in enumerate(layout.layers(theta)):
        h = torch.baddbmm(bias, weight, h if k == 0 else torch.sigmoid(h))
    return h[:, 0]


def _log_normal(value: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    return -0.5 * ((value - mean) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)

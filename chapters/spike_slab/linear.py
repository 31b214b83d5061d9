"""Linear regression with a spike and slab on each coefficient: objective and posterior are known in closed form.

The lesson judges gradients by it: whatever trains, the exact objective says how far it came.
"""

import itertools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib import functional as bF
from chapters.spike_slab import formulas

KINDS = ("exact", "straight-through", "inverse CDF")


@dataclass(frozen=True)
class LinearModel:
    """y = X theta + N(0, 1) noise, with independent spike-and-slab priors on the coefficients.

    Args:
        gram: X'X, shape (p, p).
        cross: X'y, shape (p,).
        inclusion: prior inclusion probability lambda.
        scale: the slab's standard deviation sigma_0.
    """

    gram: Tensor
    cross: Tensor
    inclusion: float = 0.1
    scale: float = 1.0

    def objective(self, mean: Tensor, rho: Tensor, logit: Tensor) -> Tensor:
        """Negative ELBO in nats, equation (svbnn-elbo), without what depends on y alone; shape (...) of (..., p)."""
        sigma, phi = F.softplus(rho), torch.sigmoid(logit)
        first = phi * mean
        spread = phi * (mean**2 + sigma**2) - first**2
        misfit = 0.5 * ((first @ self.gram * first).sum(-1) + spread @ self.gram.diag()) - first @ self.cross
        return misfit + bF.spike_slab_kl(mean, sigma, logit, self.inclusion, self.scale).sum(-1)

    def posterior(self) -> tuple[Tensor, float]:
        """Exact inclusion probability of each coefficient, shape (p,), and the log evidence, over all 2^p models.

        The log evidence leaves out what depends on y alone, as `objective` does.

        Raises:
            ValueError: for more than 12 coefficients.
        """
        p = len(self.cross)
        if p > 12:
            raise ValueError(f"{p} coefficients make 2^{p} models: at most 12 are summed over")
        chosen = torch.tensor(list(itertools.product((False, True), repeat=p)))
        logs = torch.stack([self._log_joint(one) for one in chosen])
        weights = logs.softmax(0)
        return weights @ chosen.to(weights.dtype), float(logs.logsumexp(0))

    def _log_joint(self, chosen: Tensor) -> Tensor:
        """log prior probability + log marginal likelihood of the model with these coefficients."""
        size = int(chosen.sum())
        prior = size * math.log(self.inclusion) + (len(chosen) - size) * math.log1p(-self.inclusion)
        gram = self.gram[chosen][:, chosen]
        precision = gram + torch.eye(size, dtype=gram.dtype) / self.scale**2
        cross = self.cross[chosen]
        fit = 0.5 * cross @ torch.linalg.solve(precision, cross) if size else cross.sum()
        return prior + fit - 0.5 * torch.logdet(precision) - size * math.log(self.scale)

    def fit(
        self,
        kind: str,
        temperature: float | list[float] = 0.5,
        *,
        sign: int = 1,
        scale: float = 0.0025,
        inclusion: float = 0.99,
        draws: int = 1,
        steps: int = 500,
        rate: float = 0.02,
        seed: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Minimize the negative ELBO with one kind of gradient, for several temperatures side by side.

        Args:
            kind: "exact", "straight-through" or "inverse CDF".
            temperature: tau of the relaxed gate, one or several.
            sign: -1 gives the divergence the other sign of phi', as a wrong program would.
            scale, inclusion: where sigma and phi start; the means start at U(-0.6, 0.6).
            draws: samples of the coefficients a step.
            rate: Adam's step size.

        Returns:
            The exact objective after each step, (steps, temperatures), and phi, (steps, temperatures, p).

        Raises:
            ValueError: for an unknown kind.
        """
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r} is unknown, use one of {', '.join(map(repr, KINDS))}")
        generator = torch.Generator().manual_seed(seed)
        tau = torch.as_tensor(temperature, dtype=self.cross.dtype).reshape(-1, 1)
        start = torch.empty_like(self.cross).uniform_(-0.6, 0.6, generator=generator).repeat(len(tau), 1)
        rho = torch.full_like(start, float(bF.softplus_inverse(scale)))
        params = [start, rho, torch.full_like(start, bF.log_odds(inclusion))]
        mean, rho, logit = params = [value.requires_grad_() for value in params]
        optimizer = torch.optim.Adam(params, lr=rate)
        objectives, inclusions = [], []
        for _ in range(steps):
            if kind == "exact":
                loss = self.objective(*params)
            else:
                uniform, noise = (
                    f(draws, *start.shape, dtype=start.dtype, generator=generator) for f in (torch.rand, torch.randn)
                )
                theta = self._draw(kind, params, uniform, noise, tau)
                misfit = 0.5 * (theta @ self.gram * theta).sum(-1) - theta @ self.cross
                kl = bF.spike_slab_kl(mean, F.softplus(rho), sign * logit, self.inclusion, self.scale)
                loss = misfit.mean(0) + kl.sum(-1)
            optimizer.zero_grad()
            loss.sum().backward()
            optimizer.step()
            with torch.no_grad():
                objectives.append(self.objective(*params))
                inclusions.append(torch.sigmoid(logit))
        return torch.stack(objectives), torch.stack(inclusions)

    @staticmethod
    def _draw(kind: str, params: list[Tensor], uniform: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        mean, rho, logit = params
        if kind == "inverse CDF":
            return formulas.spike_slab_inverse_cdf(uniform, mean, F.softplus(rho), torch.sigmoid(logit))
        many = (value.expand_as(uniform) for value in params)
        return bF.spike_slab_draw(*many, noise, bF.logistic_noise(uniform), tau)[0]


def linear_model(x: Tensor, y: Tensor, inclusion: float = 0.1, scale: float = 1.0) -> LinearModel:
    """The model of data x of shape (n, p) and y of shape (n,)."""
    return LinearModel(x.T @ x, x.T @ y, inclusion, scale)

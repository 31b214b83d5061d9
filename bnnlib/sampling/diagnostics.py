"""Has the chain converged, and how many independent draws is it worth: split R-hat and effective sample size."""

import math

import torch
from torch import Tensor

from bnnlib._checks import check_choice, check_count

_FEWEST = 4  # draws of a chain, as in ArviZ
_CUTOFF = 0.05  # of the autocorrelation, in ESS by threshold


def split_r_hat(draws: Tensor) -> Tensor:
    """Split R-hat, equations (aeb-rhat) and (fnd-rhat), Gelman et al., Bayesian Data Analysis, 3rd edition, (11.4).

    R-hat is the square root of the pooled variance over the mean variance within the chains' halves. Values above 1.01
    say that the chains, or the halves of one chain, are not yet in the same place.

    Args:
        draws: shape (chains, draws, ...), any units; each remaining entry is a quantity of its own.

    Returns:
        Tensor (...), float64. Where nothing moves, infinite if the chains are in different places, and else NaN; NaN
        where a draw is not finite.

    Raises:
        ValueError: fewer than 4 draws.

    Example:
        >>> draws = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))  # 4 chains
        >>> 0.99 < split_r_hat(draws).item() < 1.01
        True
    """
    halves = _halves(_checked(draws))
    count = halves.shape[1]
    within = halves.var(dim=1).mean(dim=0)
    between = count * halves.mean(dim=1).var(dim=0)
    return ((between / within + count - 1) / count).sqrt()


def effective_sample_size(draws: Tensor, *, rule: str = "geyer") -> Tensor:
    """Number of independent draws with the same standard error of the mean, equations (mh-ess) and (fnd-ess).

    The rules differ in where they stop to sum the autocorrelation: "geyer" takes his initial monotone sequence, as Stan
    and ArviZ do (Vehtari et al., 2021, section 3.2); "threshold" the lags up to the first that is not above 0.05, as
    the code of A-NICE-MC does with the target's moments, where we take each chain's; "batch_means" compares the
    variance of the means of blocks of sqrt(draws) draws with that of draws.

    Args:
        draws: shape (chains, draws, ...).
        rule: "geyer", "threshold" or "batch_means". The last two look within chains only: they do not see that the
            chains are in different places.

    Returns:
        Tensor (...), float64. NaN where a draw is not finite; where nothing moves, the number of draws; but NaN by the
        last two rules where no chain moves and they stand in different places.

    Raises:
        ValueError: fewer than 4 draws, or an unknown rule.

    Example:
        >>> draws = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))  # 4 chains
        >>> 3000 < effective_sample_size(draws).item() < 5000
        True
    """
    check_choice("rule", rule, _RULES)
    draws = _checked(draws)
    halves = _halves(draws) if rule == "geyer" else draws
    shape = halves.shape[2:]
    flat = halves.reshape(*halves.shape[:2], -1)
    known = [(_known(one), one) for one in flat.unbind(-1)]
    return torch.stack([_RULES[rule](one) if size is None else size for size, one in known]).reshape(shape)


def _checked(draws: Tensor) -> Tensor:
    if draws.dim() < 2 or not draws.shape[0]:
        raise ValueError(
            f"draws has shape {tuple(draws.shape)}, but it must be (chains, draws, ...). For one chain: draws[None]."
        )
    check_count("the number of draws in a chain", draws.shape[1], _FEWEST)
    return draws.detach().to(torch.float64)


def _halves(draws: Tensor) -> Tensor:
    half = draws.shape[1] // 2
    return torch.cat([draws[:, :half], draws[:, -half:]])


def _autocovariance(halves: Tensor) -> Tensor:
    """Biased autocovariance of each chain, shape (chains, draws), by the fast Fourier transform."""
    count = halves.shape[1]
    centered = halves - halves.mean(dim=1, keepdim=True)
    spectrum = torch.fft.rfft(centered, n=2 * count)  # padded, so that the end does not meet the start
    return torch.fft.irfft(spectrum.abs().square(), n=2 * count)[:, :count] / count


def _known(chains: Tensor) -> Tensor | None:
    """The answer where there is nothing to sum: a draw that is not finite, or chains that do not move."""
    if not chains.isfinite().all():
        return chains.new_tensor(torch.nan)
    # no move is what the largest draw's rounding explains, in whatever units
    if chains.max() - chains.min() <= torch.finfo(chains.dtype).resolution * chains.abs().max().clamp_max(1.0):
        return chains.new_tensor(float(chains.numel()))
    return None


def _ess_by_threshold(halves: Tensor) -> Tensor:
    covariance = _autocovariance(halves).mean(dim=0)
    rho = covariance / covariance[0]
    below = (rho <= _CUTOFF).nonzero()
    last = int(below[0]) if len(below) else len(rho)
    return halves.numel() / (1.0 + 2.0 * rho[1:last].sum())


def _ess_by_batch_means(chains: Tensor) -> Tensor:
    size = math.isqrt(chains.shape[1])
    blocks = chains[:, : chains.shape[1] // size * size].unflatten(1, (-1, size))
    means = blocks.mean(dim=2)
    spread = (means - means.mean(dim=1, keepdim=True)).square().sum() / (means.numel() - len(means))
    tau = size * spread / chains.var(dim=1).mean()
    return chains.numel() / tau.clamp_min(1.0 / math.log10(chains.numel()))  # as in _ess


def _ess(halves: Tensor) -> Tensor:
    chains, count = halves.shape
    total = chains * count
    covariance = _autocovariance(halves)
    within = covariance[:, 0].mean() * count / (count - 1.0)
    pooled = within * (count - 1.0) / count + halves.mean(dim=1).var()
    rho = (1.0 - (within - covariance.mean(dim=0)) / pooled).tolist()
    rho[0] = 1.0
    # Geyer: sums of neighboring pairs are positive and decreasing; the first that is not is noise, but for its even lag
    pairs: list[float] = []
    for lag in range(0, max(1, count - 2), 2):
        pair = rho[lag] + rho[lag + 1]
        if pair < 0.0:
            break
        pairs.append(min([pair, *pairs[-1:]]))
    else:
        pairs.pop()
    tau = -1.0 + 2.0 * sum(pairs) + max(rho[lag], 0.0)
    # antithetic chains may beat independent draws, but an estimate of tau near 0 is not to be trusted
    tau = max(tau, 1.0 / math.log10(total))
    return halves.new_tensor(total / tau)


_RULES = {"geyer": _ess, "threshold": _ess_by_threshold, "batch_means": _ess_by_batch_means}

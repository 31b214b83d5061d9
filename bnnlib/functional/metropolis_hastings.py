"""The Metropolis-Hastings test, its acceptance rate as a distance, and the losses of proposals and discriminators.

Densities come as logarithms in nats and need no normalizing constant where only their ratios enter. Neklyudov's thesis,
sections 1.3 and 1.4, after Neklyudov et al. (2018), arXiv 1810.07151, and Neklyudov et al. (2019), arXiv 1906.03644.
"""

import math

import torch
from torch import Tensor


def log_acceptance_ratio(log_p: Tensor, log_p_proposed: Tensor, log_forward: Tensor, log_backward: Tensor) -> Tensor:
    """log xi = log p(x') + log q(x | x') - log p(x) - log q(x' | x), equation (mh-ratio), the variable of Theorem 1.

    Args:
        log_p, log_p_proposed: log density of the target at the point x and at the proposed point x', up to one
            constant. -inf at x' is a point outside of the support: the ratio is -inf and the point is refused.
        log_forward: log q(x' | x), of the move that was made.
        log_backward: log q(x | x'), of the move back.

    Returns:
        The shape of the arguments, in nats.

    Example:
        >>> log_acceptance_ratio(*torch.tensor([-1.0, -2.0, 0.0, 0.5]))
        tensor(-0.5000)
    """
    return log_p_proposed - log_p + log_backward - log_forward


def acceptance_probability(log_ratio: Tensor) -> Tensor:
    """min{1, xi}, equation (mh-accept), without overflow.

    Example:
        >>> acceptance_probability(torch.tensor([-1.0, 0.0, 1000.0]))
        tensor([0.3679, 1.0000, 1.0000])
    """
    return log_ratio.clamp_max(0.0).exp()


def acceptance_rate_loss(log_ratio: Tensor) -> Tensor:
    """-E min{1, xi}, equation (mh-loss-ar), (13): minus the acceptance rate of pairs x ~ p, x' ~ q.

    Its gradient is that of xi where xi < 1 and zero elsewhere: a proposal far from its target hardly learns from it.

    Example:
        >>> acceptance_rate_loss(torch.tensor([0.0, 2.0]))
        tensor(-1.)
    """
    return -acceptance_probability(log_ratio).mean()


def symmetric_kl_loss(log_ratio: Tensor) -> Tensor:
    """-E log xi = KL(q || p) + KL(p || q), equation (mh-loss-kl), (14)-(15), of pairs x ~ p, x' ~ q, in nats.

    Example:
        >>> symmetric_kl_loss(torch.tensor([-1.0, 0.5]))
        tensor(0.2500)
    """
    return -log_ratio.mean()


def upper_bound_loss(log_ratio: Tensor) -> Tensor:
    """E[-D + exp(-D)], equation (imh-loss-ub), (28), where D = log d(x, y) - log d(y, x), x ~ p and y ~ q(y | x).

    Least, pair by pair, where D is log p(x) q(y | x) - log p(y) q(x | y), with the value 1 - KL of (28).

    Example:
        >>> upper_bound_loss(torch.tensor([0.0, 0.0]))
        tensor(1.)
    """
    return (torch.exp(-log_ratio) - log_ratio).mean()


def markov_cross_entropy(log_forward: Tensor, log_complement: Tensor) -> Tensor:
    """E[-log d(x, y) - log(1 - d(y, x))], equation (imh-loss-mce), for x ~ p and y ~ q(y | x).

    It is at least the loss of (28) less 1 / b.

    Args:
        log_forward: log d(x, y).
        log_complement: log(1 - d(y, x)). If d(y, x) = 1 - d(x, y), it equals `log_forward`.

    Example:
        >>> half = torch.full((4,), 0.5).log()
        >>> markov_cross_entropy(half, half)  # 2 log 2
        tensor(1.3863)
    """
    return -(log_forward + log_complement).mean()


def conditional_cross_entropy(data_logit: Tensor, proposed_logit: Tensor) -> Tensor:
    """-E_p log d(x) - E_q log(1 - d(y)), equation (imh-loss-cce), for an independent proposal.

    The discriminator of pairs is then d(x, y) = d(x) (1 - d(y)).

    Args:
        data_logit: logit of d at data, any shape.
        proposed_logit: logit of d at proposed points, any shape.

    Example:
        >>> conditional_cross_entropy(torch.zeros(4), torch.zeros(4))  # 2 log 2
        tensor(1.3863)
    """
    return torch.nn.functional.softplus(-data_logit).mean() + torch.nn.functional.softplus(proposed_logit).mean()


def bounded_logit(logit: Tensor, lower: float) -> Tensor:
    """Squash a logit to +-logit(1 - b), so that sigmoid of it lies in [b, 1 - b]; odd, and the identity near 0.

    Equation (imh-bounded).

    Raises:
        ValueError: `lower` is outside of (0, 1/2).

    Example:
        >>> torch.sigmoid(bounded_logit(torch.tensor([-1e3, 0.0, 1e3]), lower=0.1))
        tensor([0.1000, 0.5000, 0.9000])
    """
    if not 0.0 < lower < 0.5:
        raise ValueError(f"lower is {lower}, but it must be in (0, 1/2): d and 1 - d are both >= b.")
    limit = math.log1p(-lower) - math.log(lower)
    return limit * torch.tanh(logit / limit)

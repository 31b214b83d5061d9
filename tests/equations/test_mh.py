"""The numbered equations of the Metropolis-Hastings chapter, each checked by a number that is computed another way."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from bnnlib import functional as bF
from bnnlib import sampling as mcmc
from chapters.acceptance import formulas
from chapters.acceptance.adversarial import learn_adversarial_proposal
from chapters.acceptance.formulas import acceptance_rate_of, mean_of
from chapters.shared.finite import metropolis_hastings_kernel

SEED = 3
DOUBLE = torch.float64
COUNT = 200_000
GRID = np.linspace(-12.0, 12.0, 1201)


def normal(count, generator, mean=0.0, scale=1.0):
    return mean + scale * torch.randn(count, 1, generator=generator, dtype=DOUBLE)


def log_p(points):
    """A mixture of two normal laws: the target of this file."""
    pieces = torch.stack([-0.5 * (points + 1.5).square(), -0.5 * ((points - 1.0) / 0.6).square() - math.log(0.6)])
    weights = torch.tensor([0.4, 0.6], dtype=DOUBLE).log().reshape(2, *[1] * points.dim())
    return (weights + pieces).logsumexp(dim=0).sum(dim=-1) - 0.5 * math.log(2 * math.pi)


def p_density(values):
    return 0.4 * stats.norm.pdf(values, -1.5, 1.0) + 0.6 * stats.norm.pdf(values, 1.0, 0.6)


def draw_p(count, generator):
    first = torch.rand(count, 1, generator=generator, dtype=DOUBLE) < 0.4
    return torch.where(first, normal(count, generator, -1.5), normal(count, generator, 1.0, 0.6))


def gaussian(mean, scale):
    """A proposal with these moments."""
    density = mcmc.DiagonalGaussian(1, scale - 1e-6).double()
    with torch.no_grad():
        density.mean.fill_(mean)
    return density


def double_integral(values):
    return float(integrate.simpson(integrate.simpson(values, x=GRID), x=GRID))


def joints(q):
    """p(x) q(x' | x) at [x, x'] and its mirror p(x') q(x | x'), for q as a matrix or as a density of its own."""
    joint = p_density(GRID)[:, None] * q
    return joint, joint.T


# equation: mh-ratio, mh-accept
@pytest.mark.parametrize(("x", "y"), [(-1.5, 0.7), (0.7, -1.5), (3.0, 0.9), (0.2, 5.0)])
def test_the_ratio_is_that_of_the_densities(x, y):
    def law(given):
        return stats.norm(0.5 * given, 1.0 + given**2)

    values = (p_density(x), p_density(y), law(x).pdf(y), law(y).pdf(x))
    log_xi = bF.log_acceptance_ratio(*(torch.tensor(value, dtype=DOUBLE).log() for value in values))
    xi = p_density(y) * law(y).pdf(x) / (p_density(x) * law(x).pdf(y))
    assert float(log_xi.exp()) == pytest.approx(xi, rel=1e-12)
    assert float(bF.acceptance_probability(log_xi)) == pytest.approx(min(1.0, xi), rel=1e-12)


# equation: mh-kernel
def test_detailed_balance_by_matrices(generator):
    """The kernel as a matrix, entry by entry in plain Python; its flow is symmetric and the target stays."""
    target, proposal = (torch.softmax(torch.randn(s, generator=generator, dtype=DOUBLE), -1) for s in ((6,), (6, 6)))
    p, q = target.numpy(), proposal.numpy()
    expected = np.zeros((6, 6))
    for y in range(6):
        for x in range(6):
            if x != y:
                expected[y, x] = q[y, x] * min(1.0, p[x] * q[x, y] / (p[y] * q[y, x]))
        expected[y, y] = 1.0 - expected[y].sum()
    found = metropolis_hastings_kernel(target, proposal).numpy()
    assert np.abs(found - expected).max() < 1e-14
    flow = p[:, None] * found
    assert np.abs(flow - flow.T).max() < 1e-14
    assert np.abs(p @ np.linalg.matrix_power(found, 50) - p).max() < 1e-13


# equation: mh-theorem
def test_theorem_1_on_the_line(generator):
    def law(given):
        return torch.distributions.Normal(0.3 * given, 1.5)

    way = mcmc.Markov(
        lambda x, g: law(x).mean + 1.5 * torch.randn(x.shape, generator=g, dtype=DOUBLE),
        lambda y, x: law(x).log_prob(y).sum(-1),
    )
    found = acceptance_rate_of(log_p, way, draw_p(COUNT, generator), generator)
    joint, mirror = joints(stats.norm(0.3 * GRID[:, None], 1.5).pdf(GRID[None, :]))
    assert abs(found.mean - double_integral(np.minimum(joint, mirror))) < 3.0 * found.standard_error
    assert abs(found.mean - 1.0 + 0.5 * double_integral(np.abs(joint - mirror))) < 3.0 * found.standard_error


# equation: mh-pinsker
@pytest.mark.parametrize("kind", ["independent", "Markov"])
def test_the_rate_is_above_its_bound(kind, generator):
    for mean in (0.0, 0.3, 1.0):
        q = stats.norm(mean, 1.8).pdf(GRID)[None, :] if kind == "independent" else None
        q = stats.norm(0.5 * GRID[:, None] + mean, 1.8).pdf(GRID[None, :]) if q is None else np.repeat(q, len(GRID), 0)
        joint, mirror = joints(q)
        inside = (joint > 1e-300) & (mirror > 1e-300)
        divergence = double_integral(np.where(inside, mirror * np.log(np.where(inside, mirror / joint, 1.0)), 0.0))
        rate = 1.0 - 0.5 * double_integral(np.abs(joint - mirror))
        assert 1.0 - math.sqrt(divergence / 2) == pytest.approx(formulas.acceptance_lower_bound(divergence), abs=1e-14)
        assert formulas.acceptance_lower_bound(divergence) <= rate


# equation: mh-bound, mh-loss-kl
@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.6), (0.5, 1.3), (-0.8, 2.5)])
def test_the_divergence_of_the_joint_laws_is_the_symmetric_one(mean, scale, generator):
    q = stats.norm(mean, scale)
    p_x, q_x = p_density(GRID), q.pdf(GRID)
    log_ratio = np.log(p_x) - q.logpdf(GRID)
    forward, backward = (
        float(integrate.simpson(sign * law * log_ratio, x=GRID)) for sign, law in ((1, p_x), (-1, q_x))
    )
    joint, mirror = joints(np.repeat(q_x[None, :], len(GRID), 0))
    # log p(x') q(x) - log p(x) q(x')
    of_joints = double_integral(mirror * (log_ratio[None, :] - log_ratio[:, None]))
    assert of_joints == pytest.approx(forward + backward, rel=1e-6)
    rate = double_integral(np.minimum(joint, mirror))
    assert formulas.acceptance_lower_bound(of_joints) <= rate
    # (15): the same number by pairs
    density, points = gaussian(mean, scale), draw_p(COUNT, generator)
    with torch.no_grad():
        offered, log_q = density.rsample_with_log_prob(COUNT, generator)
        ratio = bF.log_acceptance_ratio(log_p(points), log_p(offered), log_q, density.log_prob(points))
    error = float(ratio.std()) / COUNT**0.5
    assert abs(float(bF.symmetric_kl_loss(ratio)) - forward - backward) < 4.0 * error


def learned_loss(objective, mean, scale, generator):
    """The loss that `learn_proposal` computes in its first step, with its Monte Carlo error by repeats."""
    points = draw_p(20_000, generator)
    settings = {"num_steps": 1, "batch_size": 1000, "samples": None if objective == "vi" else points}
    values = [
        float(mcmc.learn_proposal(log_p, gaussian(mean, scale), objective, generator=generator, **settings).loss)
        for _ in range(30)
    ]
    return np.mean(values), np.std(values) / math.sqrt(len(values) - 1) + 1.0 / math.sqrt(len(points))


# equation: mh-loss-ar, mh-loss-kl, mh-loss-vi
@pytest.mark.slow
@pytest.mark.parametrize("objective", ["acceptance", "symmetric_kl", "vi"])
def test_the_losses_are_those_of_quadrature(objective, generator):
    mean, scale = 0.4, 1.7
    q = stats.norm(mean, scale)
    log_ratio = np.log(p_density(GRID)) - q.logpdf(GRID)
    joint, mirror = joints(np.repeat(q.pdf(GRID)[None, :], len(GRID), 0))
    expected = {
        "acceptance": -double_integral(np.minimum(joint, mirror)),
        "symmetric_kl": double_integral(joint * (log_ratio[:, None] - log_ratio[None, :])),
        "vi": float(integrate.simpson(-q.pdf(GRID) * log_ratio, x=GRID)),
    }[objective]
    found, error = learned_loss(objective, mean, scale, generator)
    assert abs(found - expected) < 3.0 * error


# equation: mh-random-walk
def test_a_random_walk_moves_by_its_own_law(generator):
    """The chain's rate is E min{1, p(x') / p(x)}; a draw's law is seen in tests/bnnlib/sampling."""
    joint = p_density(GRID)[:, None] * stats.norm(GRID[:, None], 0.8).pdf(GRID[None, :])
    found = acceptance_rate_of(log_p, mcmc.RandomWalk(0.8), draw_p(COUNT, generator), generator)
    assert abs(found.mean - double_integral(np.minimum(joint, joint.T))) < 3.0 * found.standard_error


# equation: mh-independent
def test_an_independent_chain_accepts_by_importance_weights(generator):
    """One step from a fixed point: the rate is E_q min{1, w(x') / w(x)} with w = p / q."""
    density = gaussian(0.4, 1.7)
    kernel = mcmc.metropolis_hastings(log_p, mcmc.Independent(density))
    q = stats.norm(0.4, 1.7)
    weight = p_density(GRID) / q.pdf(GRID)
    for x in (-2.0, 1.0):
        start = p_density(x) / q.pdf(x)
        expected = integrate.simpson(q.pdf(GRID) * np.minimum(1.0, weight / start), x=GRID)
        move = kernel.step(kernel.start(torch.full((COUNT, 1), x, dtype=DOUBLE)), generator)
        error = float(move.probability.std()) / COUNT**0.5 + 1e-12
        assert abs(float(move.probability.mean()) - expected) < 4.0 * error


# equation: mh-hmc
def test_leapfrog_is_the_textbook_loop_and_the_rate_is_the_energy(generator):
    """Plain numpy for one chain, the gradient by a central difference."""
    kernel = mcmc.HamiltonianMonteCarlo(log_p, 0.3, 4, torch.tensor([2.0], dtype=DOUBLE), jitter=0.0)
    start, momentum = torch.tensor([[0.7]], dtype=DOUBLE), torch.tensor([[0.9]], dtype=DOUBLE)
    end, turned = kernel.leapfrog(kernel.start(start), momentum, 0.3)

    def gradient(x):
        return (np.log(p_density(x + 1e-6)) - np.log(p_density(x - 1e-6))) / 2e-6

    x, r = 0.7, 0.9
    for _ in range(4):
        r += 0.15 * gradient(x)
        x += 0.3 * 2.0 * r  # the mass is the inverse of the covariance 2
        r += 0.15 * gradient(x)
    assert float(end.position) == pytest.approx(x, abs=1e-7) and float(turned) == pytest.approx(r, abs=1e-7)
    # min{1, exp(-change of energy)} of a step, its momentum drawn with the same generator
    state = generator.get_state()
    move = kernel.step(kernel.start(start), generator)
    generator.set_state(state)
    torch.rand((), generator=generator, dtype=DOUBLE)
    r0 = float(torch.randn(1, 1, generator=generator, dtype=DOUBLE)) / math.sqrt(2.0)
    end, turned = kernel.leapfrog(kernel.start(start), torch.tensor([[r0]], dtype=DOUBLE), 0.3)
    change = -np.log(p_density(float(end.position))) + float(turned) ** 2 + np.log(p_density(0.7)) - r0**2
    assert float(move.probability) == pytest.approx(min(1.0, math.exp(-change)), abs=1e-9)


# equation: mh-ess
@pytest.mark.slow
@pytest.mark.parametrize("rule", ["geyer", "threshold", "batch_means"])
def test_the_size_says_the_error_of_the_mean(rule, generator):
    """Means of 1,000 chains spread by sd / sqrt(size of one chain)."""
    kernel = mcmc.metropolis_hastings(log_p, mcmc.RandomWalk(2.0))
    draws = mcmc.sample(kernel, draw_p(1000, generator), 2500, generator=generator).draws[..., 0]
    one_chain = float(mcmc.effective_sample_size(draws, rule=rule)) / 1000
    # the variance of 1,000 means is known to 4.5 %; blocks of 50 draws miss 5 % or so of it
    assert float(draws.mean(dim=1).var()) == pytest.approx(float(draws.var()) / one_chain, rel=0.15)


# equation: mh-tv
def test_total_variation_by_draws(generator):
    density = gaussian(0.4, 1.7)
    exact = 0.5 * float(integrate.simpson(np.abs(p_density(GRID) - stats.norm.pdf(GRID, 0.4, 1.7)), x=GRID))
    points = draw_p(COUNT, generator)
    found = mean_of((-torch.expm1(density.log_prob(points).detach() - log_p(points))).clamp_min(0.0))
    assert abs(found.mean - exact) < 3.0 * found.standard_error


# equation: mh-discriminator
def test_the_best_discriminator_of_pairs_is_the_ratio():
    """Logistic regression of pairs on a grid, solved pair by pair: D / (1 - D) = p(x) q(x') / p(x') q(x)."""
    line = np.linspace(-3.0, 3.0, 25)
    joint = p_density(line)[:, None] * stats.norm(0.4, 1.7).pdf(line)[None, :]
    # scores s(x), D(x, x') = sigmoid(s(x) - s(x')): gradient descent of the expected cross-entropy by autograd
    weight, score = torch.from_numpy(joint / joint.sum()), torch.zeros(25, dtype=DOUBLE, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [score], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def loss():
        optimizer.zero_grad()
        log_d = torch.nn.functional.logsigmoid(score[:, None] - score[None, :])
        value = 25**2 * bF.markov_cross_entropy(weight * log_d, weight * log_d)
        value.backward()
        return value

    optimizer.step(loss)
    log_ratio = np.log(p_density(line)) - stats.norm(0.4, 1.7).logpdf(line)
    found = score.detach().numpy()
    assert np.abs((found - found.mean()) - (log_ratio - log_ratio.mean())).max() < 1e-3


# equation: mh-adversarial
@pytest.mark.parametrize("objective", ["symmetric_kl", "acceptance"])
def test_the_generators_gradient_is_that_of_the_loss_on_the_discriminator(objective):
    """A fixed linear score s(x) = a x and data at 0: -E log xi is -E a x', -E min{1, xi} is -E min{1, exp(a x')}."""
    torch.manual_seed(0)
    network, score = torch.nn.Linear(1, 1).double(), torch.nn.Linear(1, 1).double()
    first = {name: value.clone() for name, value in network.state_dict().items()}
    generator = torch.Generator().manual_seed(5)
    settings = {"latent_dim": 1, "num_steps": 1, "batch_size": 64, "learning_rate": 1e-12, "generator": generator}
    learn_adversarial_proposal(torch.zeros(1, 1, dtype=DOUBLE), network, score, objective, **settings)
    found = network.weight.grad.item()
    generator.manual_seed(5)
    torch.randn(64, 1, generator=generator, dtype=DOUBLE)  # the discriminator's step
    torch.randint(1, (64,), generator=generator)
    z = torch.randn(64, 1, generator=generator, dtype=DOUBLE).numpy()[:, 0]
    slope, shift = float(score.weight), float(first["bias"])

    def loss(weight):
        log_xi = slope * (weight * z + shift)
        return np.mean(-log_xi if objective == "symmetric_kl" else -np.minimum(1.0, np.exp(log_xi)))

    weight = float(first["weight"])
    assert found == pytest.approx((loss(weight + 1e-6) - loss(weight - 1e-6)) / 2e-6, abs=1e-7)

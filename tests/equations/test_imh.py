"""The numbered equations of the chapter on implicit Metropolis-Hastings, each checked by a number computed another way.

Most are claims on chains, and are checked on a thousand random finite chains, whose laws are solved for.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, linalg, stats

from bnnlib import functional as bF
from bnnlib.sampling.discriminators import IndependentDiscriminator, MarkovDiscriminator
from bnnlib.sampling.latent import LatentProposal
from chapters.implicit_acceptance import chains, formulas
from chapters.implicit_acceptance.quality import classifier_score, density_coverage, frechet_distance, precision_recall
from chapters.shared import finite

SEED = 3
ROUNDING = 1e-12
KINDS = [(0.2, 0.3, 0.5), (0.5, 0.8, 0.0), (0.9, 0.9, 0.1), (0.05, 0.1, 2.0)]  # b, epsilon, error of the log ratio


def laws(generator, *shape) -> torch.Tensor:
    weights = torch.rand(*shape, generator=generator, dtype=torch.float64) + 0.05
    return weights / weights.sum(-1, keepdim=True)


@pytest.fixture(params=KINDS)
def many(request, generator):
    """A thousand random chains of each kind."""
    lower, minorization, error = request.param
    return chains.random_chains(1000, 6, generator, lower=lower, minorization=minorization, error=error)


# equation: imh-kernel
def test_the_kernel_written_out_state_by_state(generator):
    q, d = laws(generator, 5, 5), 0.1 + 0.9 * torch.rand(5, 5, generator=generator, dtype=torch.float64)
    kernel = finite.implicit_kernel(q, d)
    for y in range(5):
        moved = [float(q[y, x] * min(1.0, d[x, y] / d[y, x])) for x in range(5)]
        for x in range(5):
            stays = sum(float(q[y, z]) - moved[z] for z in range(5)) if x == y else 0.0
            assert float(kernel[y, x]) == pytest.approx(moved[x] + stays, abs=ROUNDING)


# equation: imh-stationary
def test_the_stationary_law_is_kept_and_is_the_limit(many):
    kernel = finite.implicit_kernel(many.proposal, many.discriminator)
    law = finite.stationary_law(kernel)
    assert (law[:, None] @ kernel - law[:, None]).abs().max() < ROUNDING
    # after 2^14 steps the slowest of them, with 1 - b eps = 0.995, has come within exp(-80)
    power = torch.linalg.matrix_power(kernel, 2**14)
    assert (power - law[:, None]).abs().max() < 1e-9


# equation: imh-tv
def test_total_variation_is_the_largest_difference_of_any_event(generator):
    p, q = laws(generator, 2, 6)
    events = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 6)
    assert float(finite.total_variation(p, q)) == pytest.approx(float((events @ (p - q)).max()), abs=ROUNDING)


# equation: imh-independent
def test_the_pair_of_an_independent_discriminator_has_the_ratio_of_odds(generator):
    x, y = torch.randn(2, 50, 3, generator=generator, dtype=torch.float64)
    critic = IndependentDiscriminator(lambda points: 2 * points.sum(1), 0.01)
    odds = [critic(points) / (1 - critic(points)) for points in (x, y)]
    assert torch.allclose(critic.pair(x, y) / critic.pair(y, x), odds[0] / odds[1], rtol=1e-9)
    assert torch.allclose(critic.log_ratio(x, y).exp(), odds[0] / odds[1], rtol=1e-9)


# equation: imh-markov
def test_the_pair_of_a_markov_discriminator_has_the_ratio_of_exponentials(generator):
    x, y = 0.1 * torch.randn(2, 50, 3, generator=generator, dtype=torch.float64)
    critic = MarkovDiscriminator(lambda points: points.sum(1), 1e-9)
    difference = (x - y).sum(1)
    assert torch.allclose(critic(x, y), 1 / (1 + torch.exp(-difference)), rtol=1e-3)  # bounded at 20.7 nats
    assert torch.allclose(critic(x, y) + critic(y, x), torch.ones(50, dtype=torch.float64))
    assert torch.allclose((critic(x, y) / critic(y, x)).log(), critic.log_ratio(x, y), atol=1e-9)


# equation: imh-latent
@pytest.mark.parametrize("angle", [0.1, math.pi / 3, math.pi / 2])
def test_the_latent_move_is_reversible_for_the_standard_normal_law(angle, generator):
    proposal = LatentProposal(lambda z: z, 1, angle, device=torch.device("cpu"))
    before = torch.randn(200_000, 1, generator=generator)
    after = proposal.move(before, generator)
    noise = 5 / math.sqrt(len(before))
    assert abs(after.mean()) < noise and abs(after.var() - 1) < 2 * noise
    assert abs((before * after).mean() - math.cos(angle)) < 2 * noise
    # exchanged in time the pair has the same law: a moment that is not symmetric agrees both ways
    assert abs((before**2 * after - before * after**2).mean()) < 10 * noise


# equation: imh-bounded
def test_a_bounded_logit_is_odd_rises_and_ends_at_b():
    logit = torch.linspace(-60, 60, 1201, dtype=torch.float64)
    found = bF.bounded_logit(logit, 0.01)
    assert torch.allclose(found, -found.flip(0)) and (found.diff() >= 0).all()
    assert torch.sigmoid(found).min() >= 0.01 - ROUNDING and torch.sigmoid(found).max() <= 0.99 + ROUNDING
    assert float(found[-1]) == pytest.approx(math.log(99), rel=1e-9)
    near = torch.tensor([1e-3], dtype=torch.float64)
    assert float(bF.bounded_logit(near, 0.01)) == pytest.approx(1e-3, rel=1e-6)


# equation: imh-implied
def test_an_independent_chain_settles_at_the_proposal_times_the_odds(generator):
    q, logit = laws(generator, 300, 6), 3 * torch.randn(300, 6, generator=generator, dtype=torch.float64)
    d = torch.sigmoid(logit)
    kernel = finite.implicit_kernel(q[:, None].expand(300, 6, 6), d[:, :, None] * (1 - d)[:, None])
    implied = q * d / (1 - d) / (q * d / (1 - d)).sum(-1, keepdim=True)
    assert (finite.stationary_law(kernel) - implied).abs().max() < 1e-10
    flow = implied[:, :, None] * kernel
    assert (flow - flow.mT).abs().max() < ROUNDING


# equation: imh-implied
def test_a_reversible_proposal_settles_at_its_own_law_times_the_weights(generator):
    weights = torch.rand(300, 6, 6, generator=generator, dtype=torch.float64) + 0.01
    symmetric = weights + weights.mT
    law = symmetric.sum(-1) / symmetric.sum((-1, -2))[:, None]
    score = 2 * torch.randn(300, 6, generator=generator, dtype=torch.float64)
    d = torch.sigmoid(score[:, :, None] - score[:, None])
    kernel = finite.implicit_kernel(symmetric / symmetric.sum(-1, keepdim=True), d)
    implied = torch.softmax(law.log() + score, dim=-1)
    assert (finite.stationary_law(kernel) - implied).abs().max() < 1e-10


# equation: imh-loss-ub, imh-loss-mce, imh-best
def test_the_losses_of_pairs_are_least_at_the_ideal_ratio(generator):
    """Minimized numerically over all tables d(x, y) of a chain, from an even start."""
    here = chains.random_chains(1, 4, generator, error=0.0)
    alpha = (here.target.unsqueeze(-1) * here.proposal)[0]
    best = chains.best_log_ratio(here.target, here.proposal)[0]
    for name in ("ub", "mce"):
        logit = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([logit], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

        def loss(name=name, logit=logit, optimizer=optimizer):
            optimizer.zero_grad()
            log_d, log_not = torch.nn.functional.logsigmoid(logit), torch.nn.functional.logsigmoid(-logit)
            if name == "ub":
                ratio = log_d - log_d.T
                terms = [[bF.upper_bound_loss(one) for one in row] for row in ratio]
            else:
                terms = [[bF.markov_cross_entropy(log_d[x, y], log_not[y, x]) for y in range(4)] for x in range(4)]
            value = (alpha * torch.stack([torch.stack(row) for row in terms])).sum()
            value.backward()
            return value

        optimizer.step(loss)
        log_d = torch.nn.functional.logsigmoid(logit.detach())
        assert (log_d - log_d.T - best).abs().max() < 1e-3, name
        if name == "ub":
            divergence = (alpha * (alpha / alpha.T).log()).sum()
            assert float(loss().detach()) == pytest.approx(float(1 - divergence), abs=1e-8)


# equation: imh-loss-cce
def test_the_loss_of_points_is_least_at_p_over_p_plus_q(generator):
    p, q = laws(generator, 2, 6)
    exact = {"tolerance_grad": 1e-12, "tolerance_change": 0.0}
    logit = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logit], max_iter=200, line_search_fn="strong_wolfe", **exact)

    def loss():
        optimizer.zero_grad()
        value = sum(p[i] * bF.conditional_cross_entropy(logit[i], torch.tensor(-1e9)) for i in range(6))
        value = value + sum(q[i] * bF.conditional_cross_entropy(torch.tensor(1e9), logit[i]) for i in range(6))
        value.backward()
        return value

    optimizer.step(loss)
    assert torch.allclose(torch.sigmoid(logit.detach()), p / (p + q), atol=1e-6)


# equation: imh-loss-ub, imh-loss-mce, imh-loss-cce
def test_the_cross_entropies_lie_above_the_loss_of_the_bound_less_one_over_b(generator):
    for _ in range(100):
        b = 0.02 + 0.4 * float(torch.rand((), generator=generator))
        forward, back = b + (1 - 2 * b) * torch.rand(2, 30, generator=generator, dtype=torch.float64)
        ub = bF.upper_bound_loss(forward.log() - back.log())
        assert ub <= bF.markov_cross_entropy(forward.log(), (1 - back).log()) + 1 / b
        x, y = torch.logit(forward), torch.logit(back)
        assert bF.upper_bound_loss(x - y) <= bF.conditional_cross_entropy(x, y) + 1 / b**2


# equation: imh-plugin
def test_an_ideal_discriminator_gives_the_losses_of_the_proposal(generator):
    p, q = laws(generator, 2, 6)
    logit = (p / q).log()
    x, y = torch.cartesian_prod(torch.arange(6), torch.arange(6)).T
    weight, log_ratio = p[x] * q[y], logit[y] - logit[x]  # log d(y, x) / d(x, y)
    rate = (weight * bF.acceptance_probability(log_ratio)).sum()
    assert float(rate) == pytest.approx(float(finite.acceptance_rate(p, q.expand(6, 6))), abs=ROUNDING)
    both = stats.entropy(p, q) + stats.entropy(q, p)
    assert float(-(weight * log_ratio).sum()) == pytest.approx(both, abs=ROUNDING)


# equation: imh-minorization
def test_every_move_has_at_least_b_epsilon_of_one_law(many):
    kernel = finite.implicit_kernel(many.proposal, many.discriminator)
    assert (kernel >= many.lower * many.proposal - ROUNDING).all()
    # the mass that all rows share is at least that of epsilon nu
    assert (many.proposal.min(1).values.sum(-1) >= many.minorization - ROUNDING).all()
    assert (kernel.min(1).values.sum(-1) >= many.lower * many.minorization - ROUNDING).all()


# equation: imh-contraction
def test_consecutive_steps_shrink_at_the_promised_rate(many):
    later, allowed = chains.contraction(many)
    assert (later <= allowed + ROUNDING).all()


# equation: imh-start, imh-joint, imh-bound
def test_every_bound_holds_on_a_thousand_chains_in_the_order_of_the_derivation(many):
    found = chains.ladder(many)
    for smaller, larger in pairwise(["measured", *chains.LADDER]):
        assert (found[smaller] <= found[larger] + ROUNDING).all(), (smaller, larger)


# equation: imh-joint
def test_the_identity_of_the_proof_and_that_no_factor_below_one_holds(generator):
    many = chains.random_chains(100, 6, generator, lower=0.1, minorization=0.2, error=1.0)
    kernel = finite.implicit_kernel(many.proposal, many.discriminator)
    after = (many.target[:, None] @ kernel)[:, 0]
    alpha, flow = chains.flows(many)
    back = (many.discriminator.mT / many.discriminator).clamp_max(1.0)  # a(y, x) at [x, y]
    assert ((back * (flow - alpha)).sum(-1) - (after - many.target)).abs().max() < ROUNDING
    even = torch.ones(1, 2, 2, dtype=torch.float64)
    two = chains.Chains(laws(generator, 1, 2), laws(generator, 1, 2, 2), even, 1.0, 1.0)
    found = chains.ladder(two)
    assert float(found["one step"]) == pytest.approx(float(found["(22), ours"]), rel=1e-9)


# equation: imh-bound
def test_the_bound_is_zero_at_the_ideal_and_the_gap_is_a_divergence_of_flows(generator):
    ideal = chains.random_chains(100, 5, generator, lower=1e-9, minorization=0.5, error=0.0)
    assert chains.gap(ideal).abs().max() < 1e-9
    many = chains.random_chains(100, 5, generator, lower=0.1, minorization=0.5, error=1.0)
    alpha, flow = chains.flows(many)
    other = (alpha * (alpha / flow).log() - alpha + flow).sum((-1, -2))
    assert torch.allclose(chains.gap(many), other, atol=1e-10)


# equation: imh-pinsker
def test_pinsker_without_normalization_on_random_functions(generator):
    alpha = laws(generator, 1000, 7)
    function = 3 * torch.rand(1000, 7, generator=generator, dtype=torch.float64) ** 3 + 1e-6
    formal = (alpha * (alpha / function).log()).sum(-1)
    bound = formulas.pinsker_bound(formal, function.sum(-1))
    assert (finite.total_variation(alpha, function) ** 2 <= bound + ROUNDING).all()


# equation: imh-pinsker
def test_the_inequality_between_numbers_behind_it():
    s = np.logspace(-8, 4, 20_001)
    gap = (2 * s + 4) * (s * np.log(s) - s + 1) - 3 * (s - 1) ** 2
    assert (gap >= -1e-12 * np.maximum(1, s**2)).all()
    # and it is exact to third order at 1, which makes Pinsker's constant the best one
    assert abs((2 * 1.01 + 4) * (1.01 * math.log(1.01) - 0.01) - 3e-4) < 1e-8


# equation: imh-constant
@pytest.mark.parametrize(("lower", "minorization"), [(1.0, 1.0), (0.3, 1.0), (0.01, 0.2)])
def test_the_constant_is_the_product_of_the_three_steps(lower, minorization):
    steps = (1 / (lower * minorization)) ** 2 * 2**2 * (2 / lower + 1) / 6
    assert formulas.implicit_bound_constant(lower, minorization) == pytest.approx(steps, rel=1e-12)


# equation: imh-direct
def test_the_bound_without_b_holds_and_is_the_divergence_by_quadrature(generator):
    p, q = laws(generator, 1000, 6), laws(generator, 1000, 6)
    logit = 2 * torch.randn(1000, 6, generator=generator, dtype=torch.float64)
    implied = torch.softmax(q.log() + logit, dim=-1)
    bracket = (p * logit).sum(-1) - torch.logsumexp(q.log() + logit, dim=-1)
    bound = 0.5 * ((p * (p / q).log()).sum(-1) - bracket)
    assert torch.allclose(bound, 0.5 * (p * (p / implied).log()).sum(-1), atol=1e-10)
    assert (finite.total_variation(implied, p) ** 2 <= bound + ROUNDING).all()
    # normal laws: q = N(0, 1), log w = x, so that the chain settles at N(1, 1)
    target, raw = stats.norm(0.5, 1), stats.norm(0, 1)
    mean_weight = integrate.quad(lambda x: raw.pdf(x) * math.exp(x), -12, 12)[0]
    divergence = 0.5 * 0.5**2 - (target.mean() - math.log(mean_weight))
    assert divergence == pytest.approx(0.5 * (1 - 0.5) ** 2, abs=1e-8)


# equation: imh-frechet
def test_the_distance_of_two_normal_laws_by_a_matrix_root(generator):
    real, made = (torch.randn(500, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    made = 0.5 + made @ torch.rand(4, 4, generator=generator, dtype=torch.float64)
    first, second = (np.cov(one.numpy().T) for one in (real, made))
    shift = ((real.mean(0) - made.mean(0)) ** 2).sum()
    expected = float(shift) + np.trace(first + second - 2 * linalg.sqrtm(first @ second).real)
    assert frechet_distance(real, made, repeats=0).value == pytest.approx(expected, rel=1e-6)


# equation: imh-score
def test_the_score_by_divergences_of_single_samples(generator):
    table = laws(generator, 200, 10)
    marginal = table.mean(0)
    expected = math.exp(np.mean([stats.entropy(row, marginal) for row in table]))
    assert classifier_score(table, repeats=0).value == pytest.approx(expected, rel=1e-9)


# equation: imh-precision, imh-density
def test_the_shares_of_balls_counted_one_by_one(generator):
    real, made = (torch.randn(60, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    made = 1.5 * made + 0.5
    distance = torch.cdist(made, real)

    def reach(points, k):
        return torch.cdist(points, points).sort(dim=1).values[:, k]  # the zeroth is the point itself

    for k in (3, 5):
        precision, recall = precision_recall(real, made, k, repeats=0)
        inside = distance <= reach(real, k)
        assert precision.value == pytest.approx(100 * float(inside.any(1).double().mean()), abs=1e-9)
        found = distance.T <= reach(made, k)
        assert recall.value == pytest.approx(100 * float(found.any(1).double().mean()), abs=1e-9)
        density, coverage = density_coverage(real, made, k, repeats=0)
        assert density.value == pytest.approx(float(inside.double().sum() / (k * len(made))), abs=1e-9)
        assert coverage.value == pytest.approx(100 * float(inside.any(0).double().mean()), abs=1e-9)

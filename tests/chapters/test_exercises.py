"""Reference answers of exercises against brute force, forms as right, and what half an answer is told."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from book.display import exercises
from book.display.exercises.judge import judge

V = torch.linspace(-20, 0, 400_001, dtype=torch.float64)  # log theta; the trapezoid rule is exact to 1e-9 here


def density(mean: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Of log theta on the grid V for each unit, by normalizing numerically."""
    weight = torch.exp(-0.5 * ((V - mean[:, None]) / scale[:, None]) ** 2)
    return weight / torch.trapezoid(weight, V)[:, None]


def test_the_learned_ratio_is_the_larger_maximum_on_a_grid():
    grid = torch.linspace(0.7, 12, 200_001, dtype=torch.float64)[:, None]
    for gain, weight in exercises.get("sbp-1").cases():
        value = gain * grid**2 / (1 + grid**2) - weight * grid.log()
        inner = (value[1:-1] > value[:-2]) & (value[1:-1] >= value[2:])
        found = (inner * grid[1:-1]).max(dim=0).values
        # steps of the grid, 6e-5
        assert exercises.get("sbp-1").reference()(gain, weight) == pytest.approx(found.numpy(), abs=1e-4)


def test_twins_cost_what_the_exact_prices_say():
    from chapters.unit_noise.prices import cheapest

    one, half = cheapest(np.array([20, 20 / math.sqrt(2)]))[0]
    assert exercises.get("sbp-9").reference() == pytest.approx(2 * half - one, abs=0.005)


def test_the_mean_agrees_with_quadrature():
    (wide,) = exercises.get("sbp-2").stress
    for mean, scale in [*exercises.get("sbp-2").cases(), *wide()]:
        first = torch.trapezoid(density(mean, scale) * V.exp(), V)
        assert exercises.get("sbp-2").reference()(mean, scale) == pytest.approx(first.numpy(), rel=1e-7)


def test_without_truncation_more_noise_always_pays():
    from chapters.unit_noise.formulas import truncated_log_normal_kl

    # an interval that grows with sigma stands in for (0, inf); the prior's undefined constant is log of its width
    sigma = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    divergence = [
        float(truncated_log_normal_kl(0 * s, s, -20.0 * float(s), 20.0 * float(s))) - math.log(40 * float(s))
        for s in sigma
    ]
    assert np.diff(divergence) == pytest.approx([-math.log(10)] * 2, rel=1e-6)
    assert exercises.get("sbp-3").reference() == "b"


def test_a_folded_weight_computes_what_the_layer_computes():
    from bnnlib.nn import StructuredBayesianPruning, selected_weights

    layer = StructuredBayesianPruning(6, dtype=torch.float64)
    with torch.no_grad():
        layer.log_scale.copy_(torch.linspace(-3, 3, 6))
    mean, snr = layer.mean().detach(), layer.signal_to_noise()
    assert 0 < int((snr > 1).sum()) < 6
    generator = torch.Generator().manual_seed(1)
    weight, x = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((4, 6), (5, 6)))
    folded = exercises.get("sbp-6").reference()(weight, mean, snr)
    assert folded.shape == (4, layer.num_active())
    with selected_weights(layer):
        expected = layer(x) @ weight.T
    assert x[:, snr > 1] @ folded.T == pytest.approx(expected.detach().numpy(), rel=1e-9)


def test_at_the_scale_of_the_threshold_signal_equals_noise():
    sigma = torch.tensor([exercises.get("sbp-5").reference()], dtype=torch.float64)
    q = density(torch.zeros(1, dtype=torch.float64), sigma)
    first, second = (torch.trapezoid(q * torch.exp(k * V), V) for k in (1, 2))
    assert float(second - first**2) == pytest.approx(float(first**2), rel=1e-7)


def test_a_unit_without_data_goes_to_the_prior():
    from bnnlib.nn import StructuredBayesianPruning

    layer = StructuredBayesianPruning(1, dtype=torch.float64)
    adam = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(300):
        adam.zero_grad()
        layer.kl_divergence().backward()
        adam.step()
    assert float(layer.signal_to_noise()) == pytest.approx(1 / 3, abs=0.01) and not layer.active().any()
    assert exercises.get("sbp-8").reference() == "c"


def test_other_forms_of_the_acceptance_are_right():
    exercise = exercises.get("imh-3")
    assert judge(exercise, lambda x, y: torch.minimum(torch.ones_like(x), torch.exp((x - y).clamp_max(1)))).right
    assert judge(exercise, lambda x, y: torch.exp(-torch.relu(y - x)).numpy()).right


def coin(logit, lam, off=None, log_off=None):
    """The divergence of svbnn-6, with another probability of the closed gate and another prior logarithm."""
    off = torch.sigmoid(-logit) if off is None else off
    log_off = math.log1p(-lam) if log_off is None else log_off
    return torch.sigmoid(logit) * (F.logsigmoid(logit) - math.log(lam)) + off * (F.logsigmoid(-logit) - log_off)


def test_other_forms_are_right_and_a_gate_by_its_law_whichever_end_of_u_opens_it():
    assert judge(exercises.get("svbnn-6"), coin).right
    exercise = exercises.get("svbnn-5")
    assert judge(exercise, lambda logit, u: u < torch.sigmoid(logit)).right
    assert judge(exercise, lambda logit, u: (u > 1 - torch.sigmoid(logit)).int()).right
    assert judge(exercise, lambda logit, u: (logit - torch.log1p(-u) + torch.log(u) > 0).double().numpy()).right


def test_each_form_of_the_gate_opens_with_probability_phi():
    exercise = exercises.get("svbnn-5")
    u = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    for logit in (-3.0, 0.0, 2.0):
        for form in (exercise.reference(), *exercise.accepted):
            share = form(torch.full_like(u, logit), u).double().mean()
            assert share == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-4)  # the step of u


def test_one_minus_phi_is_wrong_by_more_than_rounding_where_both_terms_are_small():
    (logit, lam), *_ = [case for stress in exercises.get("svbnn-6").stress for case in stress() if case[1] > 0.99]
    right = exercises.get("svbnn-6").reference()(logit, lam)
    error = (coin(logit, lam, off=1 - torch.sigmoid(logit)) / right - 1).abs().max()
    assert error > 1e-4  # nine digits are asked; 1e-16 of rounding beside terms of 1e-12
    assert (coin(logit, lam) / right - 1).abs().max() < 1e-12


def test_at_the_threshold_spike_and_slab_are_equally_probable():
    r = exercises.get("sbnn-5").reference()
    prior = ((0.25, math.exp(-1)), (0.75, math.exp(-3)))
    slab, spike = (share * math.exp(-(r**2) / (2 * s**2)) / s for share, s in prior)
    assert slab == pytest.approx(spike, rel=1e-9)


def test_the_closed_form_is_where_the_numeric_derivative_of_the_penalty_is_zero():
    from bnnlib.functional import mixture_prior
    from chapters.closed_form.formulas import spike_slab_penalty

    exercise = exercises.get("sbnn-1")
    for mean, scale, *prior in exercise.cases():
        p = exercise.reference()(mean, scale, *prior).requires_grad_()
        slope = torch.autograd.grad(spike_slab_penalty(mean, scale, p, mixture_prior(*prior)).sum(), p)[0]
        # the second derivative is 1 / (p (1 - p)), so rounding p moves the slope by about eps / (1 - p)
        assert (slope * (1 - p)).abs().max() < 1e-12


def test_the_far_cases_are_beyond_what_a_probability_can_hold():
    exercise = exercises.get("sbnn-2")
    (far,) = exercise.stress
    odds = torch.stack([exercise.reference()(*case) for case in far()])
    assert (torch.sigmoid(odds) == 1).any() and odds.min() < -30


def test_the_weights_of_the_minibatches_add_up_and_halve():
    r = exercises.get("sbnn-9").reference()(20)
    assert float(r.sum()) == pytest.approx(1.0, rel=1e-12)
    assert (r[:-1] / r[1:]).tolist() == pytest.approx([2.0] * 19, rel=1e-9)


def test_what_is_left_by_each_order():
    # r = 1.002, 0.055, 1.02, 0.308; |m| / sigma = 14, 0.8, 0, 4.3; |m| = 1, 0.035, 0, 0.3
    assert exercises.get("sbnn-3").reference().tolist() == [[1, 3], [1, 4], [1, 4]]


def test_the_rows_that_evict_a_weight_are_where_the_explorer_s_second_home_closes():
    from chapters.closed_form.figures import explorers

    needed, ratio = exercises.get("sbnn-4").reference(), math.log(20)
    assert len(explorers.homes(ratio, needed - 1)[0]) == 2 and len(explorers.homes(ratio, needed)[0]) == 1


def test_a_copy_of_the_third_unit_lowers_the_first_importance_and_raises_the_second():
    from bnnlib.functional import path_importance

    before = exercises.get("sbnn-8").reference()
    rows = [[0.6, 0.1], [0.9, 0.3], [0.2, 0.7], [0.2, 0.7]]
    after = path_importance([torch.tensor(rows), torch.tensor([[0.5, 0.8, 0.3, 0.3]])])
    assert after[0] < before[0] - 0.05 and after[1] > before[1] + 0.01


def test_matched_moments_maximize_the_mean_log_density():
    def log_density(means, log_scales, r):
        first = torch.distributions.Normal(r[0], r[1]).log_prob(means)
        return first + torch.distributions.Normal(r[2], r[3]).log_prob(log_scales) - log_scales

    exercise = exercises.get("sbn-5")
    for means, log_scales in exercise.cases():
        best = exercise.reference()(means, log_scales).requires_grad_()
        value = log_density(means, log_scales, best).mean(0).sum()
        slope = torch.autograd.grad(value, best)[0]
        assert slope.abs().max() < 1e-10  # rounding of sums of terms of size 1 to 1e3
        for row in range(4):
            moved = best.detach().clone()
            moved[row] += 0.05 * best[1].detach()
            assert log_density(means, log_scales, moved).mean(0).sum() < value


def test_copies_are_those_of_the_layer():
    from bnnlib.nn import StochasticBatchNorm1d, use_generator

    layer = StochasticBatchNorm1d(3, draws="object", dtype=torch.float64)
    generator = torch.Generator().manual_seed(2)
    for _ in range(10):
        layer(torch.randn(8, 3, generator=generator, dtype=torch.float64))
    layer.eval()
    x, moments = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64), torch.stack(layer.moments())
    state = generator.get_state()
    with use_generator(generator):
        expected = layer(x.expand(5, 3)).detach()
    generator.set_state(state)
    noise = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    assert exercises.get("sbn-8").reference()(x, moments, noise) == pytest.approx(expected.numpy(), rel=1e-9)


def test_all_ties_are_a_coin_and_both_parameterisations_log_normal():
    assert exercises.get("sbn-6").reference() == "c"  # 2 log sigma is normal when log sigma is
    exercise = exercises.get("sbn-9")
    assert [float(exercise.reference()(*case)) for case in exercise.cases()][-1] == 50.0


def test_a_temperature_is_about_what_common_noise_does():
    from chapters.batch_statistics.noise import average_of, sigmoid

    temperature = exercises.get("sbn-4").reference()
    for margin in (0.5, 2.0, 4.0, 8.0):
        assert average_of(margin, 2.0) == pytest.approx(sigmoid(margin / temperature), abs=0.02)


def test_common_noise_raises_every_entropy_and_keeps_the_order():
    """What sbn-3 asks, by draws: 60 images of two classes with margins of either sign."""
    generator = torch.Generator().manual_seed(7)
    margins = 3 * torch.randn(60, generator=generator, dtype=torch.float64)
    noise = 2 * torch.randn(4000, generator=generator, dtype=torch.float64)
    noise = torch.cat([noise, -noise])  # symmetric
    entropy = [torch.special.entr(p) + torch.special.entr(1 - p) for p in (
        margins.sigmoid(), (margins + noise[:, None]).sigmoid().mean(0))]  # fmt: skip
    assert (entropy[1] > entropy[0]).all()
    assert entropy[0].argsort().tolist() == entropy[1].argsort().tolist()
    assert exercises.get("sbn-3").reference() == "b"


def test_no_value_of_a_batch_is_further_out_than_the_root_of_the_others():
    values = torch.zeros(16, dtype=torch.float64)
    reached = []
    for far in (1.0, 10.0, 1e6):
        values[0] = far
        reached.append(((values - values.mean()) / values.std(correction=0)).max().item())
    assert reached == pytest.approx([exercises.get("sbn-10").reference()] * 3)


def printed_mean(mean, scale):
    normal = torch.distributions.Normal(0.0, 1.0)
    alpha, beta = (-20 - mean) / scale, -mean / scale
    share = (normal.cdf(scale - alpha) - normal.cdf(scale - beta)) / (normal.cdf(beta) - normal.cdf(alpha))
    return torch.exp(mean + scale**2 / 2) * share


def by_determinant(covariance):
    return 0.5 * (torch.linalg.inv(covariance).diagonal().log().sum() + torch.det(covariance).log())


def through_odds(odds):
    return lambda x, y: (odds(x) / odds(y)).clamp_max(1.0)


def unscaled(q, logit):
    return q * logit.exp() / (q * logit.exp()).sum()


def direct(logit, lam):
    phi = torch.sigmoid(logit)
    return phi * torch.log(phi / lam) + (1 - phi) * torch.log((1 - phi) / (1 - lam))


def through_p(mean, scale, *prior):
    return torch.logit(exercises.get("sbnn-1").reference()(mean, scale, *prior))


def powers(num_batches):
    r = [2.0 ** (num_batches - i) / (2.0**num_batches - 1) for i in range(1, num_batches + 1)]
    return torch.tensor(r, dtype=torch.float64)


def difference(values, momentum):
    w = (1 - momentum) ** torch.arange(len(values) - 1, -1, -1, dtype=values.dtype)
    w, mean = w / w.sum(), (w / w.sum() * values).sum()
    return torch.stack([mean, ((w * values**2).sum() - mean**2) / (1 - (w**2).sum())])


ORDINARY = "right on the ordinary tests"


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("fnd-3", by_determinant, ["use torch.logdet"]),
        ("imh-3", through_odds(lambda v: torch.sigmoid(v) / (1 - torch.sigmoid(v))), ["difference of the logits"]),
        ("imh-3", through_odds(lambda v: torch.exp(v.clamp_max(700))), ["difference of the logits"]),
        ("imh-4", unscaled, ["subtract the largest"]),
        ("sbn-3", "a", []),
        ("sbn-6", "b", []),
        ("sbn-7", difference, [ORDINARY, "near 1e8"]),
        ("sbnn-2", through_p, [ORDINARY, "never compute p"]),
        ("sbnn-9", powers, ["2^M overflows", "OverflowError"]),
        ("sbp-2", printed_mean, [ORDINARY, "overflows"]),
        ("sbp-3", "a", []),
        ("svbnn-6", lambda x, lam: coin(x, lam, off=1 - torch.sigmoid(x)), [ORDINARY, "1 - phi is sigmoid(-logit)"]),
        ("svbnn-6", lambda x, lam: coin(x, lam, log_off=math.log(1 - lam)), [ORDINARY, "1 - lambda or 1 - phi rounds"]),
        ("svbnn-6", direct, [ORDINARY, "with logsigmoid"]),
    ],
)
def test_half_an_answer_is_told_what_it_lacks(name, answer, words):
    verdict = judge(exercises.get(name), answer)
    assert not verdict.right and all(word in verdict.message for word in words)

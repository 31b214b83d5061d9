"""Reference answers of the exercises on Stochastic Batch Normalization, against optimization and brute force."""

import pytest
import torch

from book.display import exercises
from book.display.exercises.judge import judge


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


def test_a_difference_of_moments_has_no_digits_beside_a_large_offset():
    def difference(values, momentum):
        age = torch.arange(len(values) - 1, -1, -1, dtype=values.dtype)
        w = (1 - momentum) ** age / ((1 - momentum) ** age).sum()
        mean = (w * values).sum()
        return torch.stack([mean, ((w * values**2).sum() - mean**2) / (1 - (w**2).sum())])

    verdict = judge(exercises.get("sbn-7"), difference)
    assert not verdict.right and "right on the ordinary tests" in verdict.message and "near 1e8" in verdict.message


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


def test_all_ties_are_a_coin():
    exercise = exercises.get("sbn-9")
    assert [float(exercise.reference()(*case)) for case in exercise.cases()][-1] == 50.0


def test_both_parameterisations_are_log_normal():
    # 2 log sigma is normal when log sigma is: the same family, up to what is added to the variance
    assert exercises.get("sbn-6").reference() == "c"
    assert not judge(exercises.get("sbn-6"), "b").right


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
    assert exercises.get("sbn-3").reference() == "b" and not judge(exercises.get("sbn-3"), "a").right


def test_no_value_of_a_batch_is_further_out_than_the_root_of_the_others():
    values = torch.zeros(16, dtype=torch.float64)
    reached = []
    for far in (1.0, 10.0, 1e6):
        values[0] = far
        reached.append(((values - values.mean()) / values.std(correction=0)).max().item())
    assert reached == pytest.approx([exercises.get("sbn-10").reference()] * 3)

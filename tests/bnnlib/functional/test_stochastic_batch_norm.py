"""Statistics of batches: normalization in any shape, rounding, and what is refused."""

import math

import pytest
import torch

from bnnlib import functional as bF
from bnnlib.functional import stochastic_batch_norm as sbn
from tests.seeded import normal

DOUBLE = torch.float64


def test_statistics_of_a_row_are_its_own():
    x, mean, scale, weight, bias = normal(5, 4, 3, 2), normal(5, 4, seed=1), normal(5, 4, seed=2).exp(), *normal(2, 4)
    whole = bF.batch_norm(x, mean, scale, weight, bias)
    rows = [bF.batch_norm(x[i : i + 1], mean[i], scale[i], weight, bias) for i in range(5)]
    torch.testing.assert_close(whole, torch.cat(rows), rtol=0, atol=0)


def test_narrow_types_are_normalized_in_the_statistics_type():
    x = (normal(8, 4).float() + 100.0).bfloat16()
    mean, scale = torch.full((4,), 100.0), torch.full((4,), 0.1)
    out = bF.batch_norm(x, mean, scale)
    assert out.dtype == torch.bfloat16
    # the only rounding is that of the result; in bfloat16 x * 10 - 1000 would be off by up to 4
    torch.testing.assert_close(out.float(), (x.float() - 100.0) / 0.1, rtol=2**-8, atol=1e-3)


def test_a_feature_without_spread_has_the_scale_root_eps():
    mean, log_scale = bF.batch_statistics(torch.full((10, 2), 7.0, dtype=DOUBLE), 1e-5)
    assert mean.tolist() == [7.0, 7.0] and log_scale.exp().tolist() == pytest.approx([math.sqrt(1e-5)] * 2, rel=1e-12)


def test_the_variance_is_never_negative_far_from_zero():
    values = 1000.0 + 1e-2 * normal(200, 50).float()
    mean, variance = torch.zeros(50), torch.zeros(50)
    for number, value in enumerate(values, 1):
        bF.welford_update_(mean, variance, value, bF.moment_weights(number, None))
        assert (variance >= 0).all()
    # rounding of a value near 1,000 in float32 is 3e-5, well below the spread of 1e-2
    torch.testing.assert_close(variance.double(), values.double().var(dim=0), rtol=0.05, atol=0)


def test_one_image_has_as_many_values_as_positions():
    assert sbn.check_values(torch.ones(1, 3, 2, 2)) == 4
    assert sbn.check_values(torch.ones(5, 3)) == 5

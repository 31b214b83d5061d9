"""The noise that the published SGHMC adds, at its ends; tests/equations/test_aeb_samplers.py has the steps."""

from bnnlib.functional.sgmcmc import euler_noise_scale


def test_no_noise_is_added_beyond_the_friction_or_at_temperature_zero():
    assert euler_noise_scale(0.01, 0.9, 1.0, 1e9) == 0.0  # more noise in the gradient than friction
    assert euler_noise_scale(0.01, 0.9, 0.0, 4.0) == 0.0

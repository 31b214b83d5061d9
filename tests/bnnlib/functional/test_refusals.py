"""Bad input of every function is refused in words that name it: what breaks here would broadcast, or end in NaN."""

import math

import torch

from bnnlib import functional as bF
from bnnlib.functional.ssgl import slab_log_odds
from bnnlib.functional.theory import inclusion_probability_for, theoretical_inclusion_probability
from chapters.batch_statistics.formulas import matched_moments
from chapters.implicit_acceptance.formulas import implicit_bound_constant
from chapters.spike_slab.formulas import gumbel_softmax_gate
from chapters.unit_noise import formulas as unit_noise
from tests.refused import refusals
from tests.seeded import double as t

NAN, INF = math.nan, math.inf
ONE, TWO = torch.ones(2), torch.ones(3, 2)
STRICT, ABOVE = "strictly between 0 and 1", "finite and above 0"


def mixture(slab=1.0, spike=0.1, probability=0.5):
    """As numbers, and as tensors of which one value is bad."""
    good = (1.0, 0.1, 0.5)
    yield lambda: bF.mixture_prior(slab, spike, probability)
    tensors = (torch.tensor([g, v], dtype=torch.float64) for g, v in zip(good, (slab, spike, probability), strict=True))
    yield lambda tensors=tuple(tensors): bF.mixture_prior(*tensors)


def groups(**change):
    settings = {"spike": 1e-2, "slab": 2e-4, "num_data": 100} | change
    return lambda: bF.group_threshold(**settings), lambda: bF.group_slab_log_odds(torch.ones(1), **settings)


def theory(**change):
    given = {"num_parameters": 10, "num_hidden_layers": 1, "width": 3, "num_samples": 5, "num_inputs": 2} | change
    return lambda: theoretical_inclusion_probability(**given)


def ssgl(**change):
    given = {"inclusion": 0.5, "sigma": 1.0, "spike_scale": 1.0, "slab_variance": 1.0} | change
    return lambda: slab_log_odds(t(0.3), **given)


NOISE = {
    "kl": unit_noise.truncated_log_normal_kl,
    "mean": unit_noise.truncated_log_normal_mean,
    "second": unit_noise.truncated_log_normal_second_moment,
    "snr": unit_noise.truncated_log_normal_snr,
    "sample": lambda m, s, *e: unit_noise.truncated_log_normal_sample(m, s, torch.full_like(m, 0.5), *e),
    "density": lambda m, s, *e: unit_noise.truncated_log_normal_log_density(torch.full_like(m, 0.5), m, s, *e),
}
PRIOR = {
    "density": lambda *e: unit_noise.truncated_log_uniform_log_density(torch.ones(1), *e),
    "moment": lambda *e: unit_noise.truncated_log_uniform_moment(1, *e),
    "snr": unit_noise.truncated_log_uniform_snr,
}
ENDS = ((-0.5, 0.0), (0.0, -20.0), (-INF, 0.0), (-20.0, NAN), (-20.0, INF))

REFUSED = {
    "gaussian": [
        *[(lambda b=b: bF.gaussian_kl(ONE, ONE, b), r"prior_scale is .*above 0") for b in (0.0, -1.0, NAN, INF)],
        *[(lambda b=b: bF.softplus_inverse(b), "scale is") for b in (0.0, -1.0, NAN, INF)],
    ],
    "mixture": [
        *[(c, r"spike_scale is .* and slab_scale .*the spike must be narrower than the slab.*Exchange the two")
          for v in (0.1, 0.5)
          for c in (*mixture(slab=0.1, spike=v), lambda v=v: bF.mixture_prior(t(1, 0.1), t(0.5, v), 0.5))],
        *[(c, rf"{n}_scale is .*{ABOVE}") for n in ("slab", "spike") for b in (0.0, -1.0, NAN, INF)
          for c in mixture(**{n: b})],
        *[(c, rf"prior_inclusion_probability is .*{STRICT}") for b in (0.0, 1.0, -0.1, 1.1, NAN)
          for c in mixture(probability=b)],
        *[(c, r"spike_scale is .*leaves the range of float32.*SpikeSlabLinear") for b in (1e-20, 1e-160)
          for c in mixture(spike=b)],
    ],
    "groups": [
        *[(c, words) for change, words in (
            ({"spike": 1e-4}, "must be the stronger one"), ({"spike": 2e-4}, "must be the stronger one"),
            ({"slab": 0.0}, "slab is 0"), ({"spike": NAN}, "spike is nan"), ({"num_data": 0}, "num_data is 0"),
            ({"num_data": -3}, "num_data is -3"), ({"num_data": INF}, "num_data is inf"), ({"size": 0}, "size is 0"),
            ({"prior_slab_probability": 1.0}, "prior_slab_probability is 1")) for c in groups(**change)],
        (lambda: bF.group_mean_square(torch.ones(4, 4), "kernel"), "at least 3 dimensions"),
        (lambda: bF.group_mean_square(torch.ones(4, 4), "input", batch_dims=1), "at least 2 dimensions"),
        (lambda: bF.group_mean_square(torch.ones(4, 4), "row"), "kind is 'row'"),
    ],
    "horseshoe": [(lambda: bF.half_cauchy_kl(torch.zeros(1), torch.zeros(1), 0.0), "prior_scale is 0")],
    "importance": [
        (lambda: bF.path_importance([]), "inclusion is empty, but importance needs"),
        *[(lambda s=s: bF.path_importance([torch.ones(3, 2), torch.ones(s)]),
           r"inclusion\[1\] has shape .*units, inputs\), both at least 1") for s in ((0, 3), (3, 0), (3,))],
        (lambda: bF.path_importance([torch.ones(4, 2), torch.ones(1, 3)]),
         r"inclusion\[1\] reads 3 units, but the layer before has 4.*inputs to the out"),
        (lambda: bF.input_inclusion(torch.ones(3)), "a layer needs"),
    ],
    "acceptance": [
        *[(lambda s=s: implicit_bound_constant(*s), " is ") for s in ((0.0,), (1.5,), (0.5, 0.0), (0.5, 2.0))],
        *[(lambda b=b: bF.bounded_logit(t(0.0), b), "lower is") for b in (0.0, 0.5, 1.0, NAN)],
    ],
    "predictive": [
        (lambda: bF.mixture_quantile(TWO, TWO, 1.0), "probability is 1"),
        (lambda: bF.mixture_quantile(TWO, -TWO, 0.5), "scale is"),
        (lambda: bF.mixture_quantile(torch.ones(0, 2), torch.ones(1, 1), 0.5), "at least one"),
    ],
    "spike and slab": [
        *[(lambda b=b: bF.spike_slab_kl(ONE, ONE, ONE, b, 1.0), rf"prior_inclusion_probability is .*{STRICT}")
          for b in (0.0, 1.0, -0.1, 1.2, NAN)],
        (lambda: bF.log_odds(torch.tensor(1e-200)), "1e-200 is 0 in float32"),
        (lambda: gumbel_softmax_gate(ONE, ONE, -1.0), "temperature is -1"),
    ],
    "gaussian and laplace": [
        (ssgl(**{name: bad}), name) for name in ("inclusion", "sigma", "spike_scale", "slab_variance")
        for bad in (0.0, -1.0, NAN)
    ],
    "batch statistics": [
        *[(lambda b=b: bF.moment_weights(b), "count is") for b in (0, -1, 1.5, True)],
        *[(lambda b=b: bF.moment_weights(3, b), r"momentum is .* must lie in \(0, 1\]") for b in (0.0, -0.1, 1.5, NAN)],
        (lambda: bF.batch_statistics(TWO, -1.0), "eps is -1, but it must be finite and not negative"),
        (lambda: bF.batch_statistics(torch.ones(1, 4)), r"the batch has shape \(1, 4\): 1 value a feature"),
        *[(lambda s=s: matched_moments(torch.ones(s[0]), torch.ones(s[1])), "at least two batches")
          for s in (((1, 3), (1, 3)), ((4, 3), (4, 2)), ((), ()))],
    ],
    "theory": [
        *[(theory(**{name: 0}), f"{name} is 0") for name in ("num_parameters", "num_samples", "width")],
        (theory(delta=0.0), "delta"),
        (lambda: inclusion_probability_for((3, 1), 10), "hidden layer"),
    ],
    "unit noise": [
        *[(lambda f=f, b=b: f(0 * ONE, torch.tensor([1.0, b])), rf"scale is .*{ABOVE}")
          for f in NOISE.values() for b in (0.0, -1.0, NAN, INF)],
        *[(lambda f=f, b=b: f(torch.tensor([0.0, b]), ONE), words) for f in NOISE.values()
          for b, words in ((-20.5, r"mean goes down to -20\.5.*lower = -20"), (NAN, "NaN is refused"))],
        *[(lambda f=f, e=e: f(0 * ONE, ONE, *e), r"at least 1 apart.*lower=-20, upper=0")
          for f in NOISE.values() for e in ENDS],
        *[(lambda f=f, e=e: f(*e), "at least 1 apart") for f in PRIOR.values() for e in ENDS],
        (lambda: unit_noise.truncated_log_uniform_moment(0), "order is 0"),
    ],
}  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)

"""Split R-hat and effective sample size against ArviZ: frozen numbers, and live where it is installed."""

import numpy as np
import pytest
import torch

from bnnlib.sampling.diagnostics import effective_sample_size, split_r_hat


def chains() -> dict[str, np.ndarray]:
    """Chains of many kinds, shape (chains, draws); a congruential generator that no library version changes."""
    state, values = 1, []
    for _ in range(4 * 203):
        state = (1103515245 * state + 12345) % 2**31
        values.append((state + 0.5) / 2**31)
    noise = np.array(values).reshape(4, 203) * 2.0 - 1.0
    slow, fast = noise.copy(), noise.copy()
    for k in range(1, 203):
        slow[:, k] += 0.9 * slow[:, k - 1]
        fast[:, k] -= 0.7 * fast[:, k - 1]
    return {
        "independent": noise,
        "slow": slow,
        "antithetic": fast,
        "apart": slow + np.arange(4)[:, None],
        "spread": noise * np.array([1.0, 1.0, 1.0, 5.0])[:, None],
        "heavy": np.tan(1.57 * noise),
        "ties": np.round(4.0 * slow),
        "one chain": slow[:1],
        "short": noise[:2, :7],
        "four draws": noise[:2, :4],
        "drifting": noise + np.linspace(0.0, 3.0, 203),
    }


# (split R-hat, mean ESS) by ArviZ 0.23.4, which gives no R-hat of one chain
ARVIZ = {
    "independent": (1.00212266941, 664.719181341),
    "slow": (1.12576829959, 23.0213541305),
    "antithetic": (0.996352977115, 2349.18837951),
    "apart": (1.63362943337, 6.75644343493),
    "spread": (1.00087344817, 824.056090266),
    "heavy": (1.00385629642, 695.849933179),
    "ties": (1.12465729577, 23.2027157118),
    "one chain": (np.nan, 14.8287777299),
    "short": (0.924976632459, 12.9501749526),
    "four draws": (1.00920047956, 7.22471989594),
    "drifting": (1.53522352817, 7.22069730794),
}


def ours(draws: np.ndarray) -> tuple[float, ...]:
    values = torch.from_numpy(draws)
    return float(split_r_hat(values)), float(effective_sample_size(values))


@pytest.mark.parametrize("kind", ARVIZ)
def test_values_are_those_of_arviz(kind):
    # the same double-precision formulas, sums in another order
    for value, expected in zip(ours(chains()[kind]), ARVIZ[kind], strict=True):
        assert np.isnan(expected) or value == pytest.approx(expected, rel=1e-9)


def test_every_quantity_is_on_its_own():
    draws = chains()
    stack = torch.from_numpy(np.stack([draws["slow"], draws["heavy"], draws["apart"]], axis=-1)).reshape(4, 203, 3, 1)
    for function in (split_r_hat, effective_sample_size):
        values = function(stack)
        assert values.shape == (3, 1) and values.dtype == torch.float64
        for i in range(3):
            assert float(values[i, 0]) == pytest.approx(float(function(stack[..., i, 0])))


def test_what_is_not_finite_or_does_not_move():
    draws = torch.from_numpy(chains()["independent"]).clone()
    assert torch.isnan(split_r_hat(torch.zeros(2, 10)))
    assert torch.isinf(split_r_hat(torch.arange(2.0)[:, None].expand(2, 10)))
    draws[1, 3] = torch.inf
    assert torch.isnan(split_r_hat(draws)) and torch.isnan(effective_sample_size(draws))


RULES = ("geyer", "threshold", "batch_means")


def threshold_loop(draws: np.ndarray) -> float:
    """As A-NICE-MC's loop over lags, one quantity, with the chains' own moments; of all chains together."""
    chains, count = draws.shape
    centered = draws - draws.mean(axis=1, keepdims=True)
    variance, tau = (centered**2).mean(), 1.0
    for lag in range(1, count):
        rho = np.mean([np.mean(row[:-lag] * row[lag:]) for row in centered]) / variance * (1.0 - lag / count)
        if rho <= 0.05:
            break
        tau += 2.0 * rho
    return chains * count / tau


@pytest.mark.parametrize("kind", [kind for kind in chains() if kind != "four draws"])
def test_the_threshold_rule_is_the_plain_loop(kind):
    draws = chains()[kind]
    found = effective_sample_size(torch.from_numpy(draws), rule="threshold")
    assert float(found) == pytest.approx(threshold_loop(draws), rel=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in chains() if kind not in ("four draws", "short")])
def test_batch_means_are_the_plain_formula(kind):
    draws = chains()[kind]
    blocks = draws[:, : 14 * 14].reshape(len(draws), 14, 14).mean(axis=2)  # isqrt(203) = 14
    tau = 14 * blocks.var(axis=1, ddof=1).mean() / draws.var(axis=1, ddof=1).mean()
    found = effective_sample_size(torch.from_numpy(draws), rule="batch_means")
    assert float(found) == pytest.approx(draws.size / max(tau, 1 / np.log10(draws.size)), rel=1e-9)


def test_blocks_that_agree_do_not_make_an_infinite_size():
    draws = torch.tensor([1.0, -1.0]).repeat(3, 50)  # ten draws a block, all with mean 0
    assert float(effective_sample_size(draws, rule="batch_means")) == pytest.approx(300 * np.log10(300))


@pytest.mark.parametrize("rule", RULES)
def test_units_do_not_matter(rule):
    draws = torch.from_numpy(chains()["independent"])
    tiny = effective_sample_size(draws * 2.0**-60, rule=rule)  # 1e-18: the same numbers to the bit
    assert torch.equal(tiny, effective_sample_size(draws, rule=rule)) and tiny != draws.numel()
    still = torch.full((2, 10), 1e-20, dtype=torch.float64)
    still[:, 1] *= 1.0 + 2.0**-52  # rounding
    assert float(effective_sample_size(still, rule=rule)) == 20.0


@pytest.mark.parametrize("rule", RULES)
def test_rules_at_the_ends(rule):
    assert float(effective_sample_size(torch.zeros(2, 10), rule=rule)) == 20.0
    broken = torch.from_numpy(chains()["independent"]).clone()
    broken[0, 0] = torch.nan
    assert effective_sample_size(broken, rule=rule).isnan()
    assert effective_sample_size(broken.nan_to_num()[..., None].expand(4, 203, 3), rule=rule).shape == (3,)
    stuck = torch.arange(3.0)[:, None].expand(3, 20)
    found = float(effective_sample_size(stuck, rule=rule))
    assert found < 20 if rule == "geyer" else np.isnan(found)

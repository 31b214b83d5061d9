"""The store of draws: which it keeps, what is averaged; split R-hat and effective sample size against ArviZ."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from bnnlib._files import DamagedFileError
from bnnlib.models import mlp
from bnnlib.sampling.diagnostics import _RULES, effective_sample_size, split_r_hat
from bnnlib.sampling.samples import SampleStore
from bnnlib.train.checkpoint import Checkpoint


def offer(store: SampleStore, model: nn.Module, count: int) -> None:
    """States whose first bias is the number of the offer."""
    with torch.no_grad():
        for _ in range(count):
            model[0].bias.fill_(store.offered + 1)
            store.offer(model)


@pytest.mark.parametrize("capacity", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("offers", [1, 5, 100])
def test_it_keeps_evenly_spaced_draws_of_the_whole_chain(capacity, offers):
    store, model = SampleStore(capacity), mlp((2, 3, 2))
    offer(store, model, offers)
    thin = 1
    while offers // thin > capacity:
        thin *= 2
    expected = list(range(thin, offers + 1, thin))
    assert store.thin == thin and store.offers == expected
    assert [float(draw["0.bias"][0]) for draw in store] == expected
    assert torch.equal(store.stacked("0.bias")[:, 0], torch.tensor(expected, dtype=torch.float32))


def network_with_draws() -> tuple[nn.Module, SampleStore, torch.Tensor, list[torch.Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    store, x, logits = SampleStore(10), torch.randn(7, 4), []
    for _ in range(4):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_()
        model.train()(torch.randn(20, 4))  # moves the running statistics: they belong to the draw
        store.offer(model)
        with torch.no_grad():
            logits.append(model.eval()(x))
    return model.train(), store, x, logits


def test_tied_weights_are_averaged_over_too():
    model, store, x = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), SampleStore(5), torch.randn(4, 3)
    model[1].weight = model[0].weight
    offer(store, model, 2)
    expected = torch.stack([model[1](x @ model[0].weight.T + bias) for bias in (1.0, 2.0)])
    torch.testing.assert_close(torch.stack(list(store.outputs(model, x))), expected)
    assert model[1].weight is model[0].weight and float(model[0].bias[0].detach()) == 2.0


def test_predict_is_the_arithmetic_mean_of_probabilities():
    model, store, x, logits = network_with_draws()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    expected = torch.stack([z.softmax(-1) for z in logits]).mean(0)
    for batch_size in (3, 1024):
        # one matrix product in other pieces: float32 rounding
        torch.testing.assert_close(store.predict(model, x, batch_size), expected, rtol=1e-5, atol=1e-6)
    assert model.training and all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("capacity", [1, 2, 3, 7])
def test_a_folder_holds_the_same_draws(capacity, tmp_path):
    memory, folder = SampleStore(capacity), SampleStore(capacity, folder=tmp_path / "draws")
    model = mlp((2, 3, 2))
    for store in (memory, folder):
        offer(store, model, 23)
    assert folder.offers == memory.offers and folder.thin == memory.thin and len(folder) == len(memory)
    for one, other in zip(folder, memory, strict=True):
        assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(folder.predict(model, torch.ones(4, 2)), memory.predict(model, torch.ones(4, 2)))
    files = sorted((tmp_path / "draws").iterdir())
    assert len(files) == len(folder) and folder.nbytes == sum(path.stat().st_size for path in files)


def test_a_draw_in_a_folder_is_never_copied_in_memory(tmp_path):
    """Neither written nor read; to predict, the activations of two rows are all that is needed."""
    model, store = nn.Linear(1000, 50), SampleStore(50, folder=tmp_path)
    x = torch.randn(2, 1000)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(5):
            store.offer(model)
        store.predict(model, x)
    sizes = {event.nbytes() for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"}
    mapped = {path.stat().st_size for path in tmp_path.iterdir()}  # pages of the disk, which no draw has to itself
    assert max(sizes - mapped) < 50 * 1000 * 4 / 10


def test_of_a_view_its_part_alone_is_written(tmp_path):
    whole = torch.randn(1000, 100)
    model, store = nn.Linear(100, 2, bias=False), SampleStore(2, folder=tmp_path)
    model.weight = nn.Parameter(whole[:2])
    store.offer(model)
    assert store.nbytes < 5000 and torch.equal(store[0]["weight"], whole[:2])


@pytest.mark.slow
@pytest.mark.parametrize("in_folder", [False, True])
def test_a_store_goes_on_from_its_checkpoint(in_folder, tmp_path):
    """Also where the chain had thinned its draws, or written more, before it was killed."""

    def store(name):
        return SampleStore(4, folder=tmp_path / name if in_folder else None)

    model, whole = mlp((2, 3, 2)), store("whole")
    offer(whole, model, 30)
    for stop in range(1, 30):
        first, second, checkpoint = store(str(stop)), store(str(stop)), Checkpoint(tmp_path / f"{stop}.pt")
        offer(first, model, stop)
        checkpoint.save(first.state_dict())  # refuses anything but plain values
        offer(first, model, 29 - stop)  # lost: no checkpoint is saved any more
        second.load_state_dict(checkpoint.load())
        offer(second, model, 30 - second.offered)
        assert second.offers == whole.offers and torch.equal(second.stacked("0.bias"), whole.stacked("0.bias"))
        assert not in_folder or len(list((tmp_path / str(stop)).iterdir())) == len(second)


def test_a_store_that_saved_names_of_files_loads_them(tmp_path):
    model, first, second = mlp((2, 3, 2)), *(SampleStore(4, folder=tmp_path / "draws") for _ in range(2))
    offer(first, model, 3)
    second.load(first.save(tmp_path / "store"))
    assert [float(draw["0.bias"][0]) for draw in second] == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="in a folder: give this one that folder"):
        SampleStore(4).load(tmp_path / "store")
    with pytest.raises(ValueError, match="in memory: give this one no folder"):
        second.load_state_dict(SampleStore(4).state_dict())


def test_a_folder_is_refused_where_its_draws_are_of_another_chain_or_gone(tmp_path):
    model, store = mlp((2, 3, 2)), SampleStore(4, folder=tmp_path)
    offer(store, model, 2)
    with pytest.raises(ValueError, match="has 2 draws of an earlier chain"):
        SampleStore(4, folder=tmp_path).offer(model)
    state = store.state_dict()
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(DamagedFileError, match=r"draw-0000000.* is missing"):
        store.load_state_dict(state)
    with pytest.raises(DamagedFileError, match=r"'\.\./other' is no name of a draw"):
        store.load_state_dict(state | {"files": ["../other"]})
    with pytest.raises(ValueError, match="not to the device 'cpu': give one"):
        SampleStore(4, folder=tmp_path, device="cpu")


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


@pytest.mark.parametrize("rule", _RULES)
def test_units_do_not_matter(rule):
    draws = torch.from_numpy(chains()["independent"])
    tiny = effective_sample_size(draws * 2.0**-60, rule=rule)  # 1e-18: the same numbers to the bit
    assert torch.equal(tiny, effective_sample_size(draws, rule=rule)) and tiny != draws.numel()
    still = torch.full((2, 10), 1e-20, dtype=torch.float64)
    still[:, 1] *= 1.0 + 2.0**-52  # rounding
    assert float(effective_sample_size(still, rule=rule)) == 20.0


@pytest.mark.parametrize("rule", _RULES)
def test_rules_at_the_ends(rule):
    assert float(effective_sample_size(torch.zeros(2, 10), rule=rule)) == 20.0
    broken = torch.from_numpy(chains()["independent"]).clone()
    broken[0, 0] = torch.nan
    assert effective_sample_size(broken, rule=rule).isnan()
    assert effective_sample_size(broken.nan_to_num()[..., None].expand(4, 203, 3), rule=rule).shape == (3,)
    stuck = torch.arange(3.0)[:, None].expand(3, 20)
    found = float(effective_sample_size(stuck, rule=rule))
    assert found < 20 if rule == "geyer" else np.isnan(found)

"""The store of draws: which it keeps, what they take, and what is averaged."""

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from bnnlib._files import DamagedFileError
from bnnlib.models import mlp
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


def test_draws_are_copies():
    store, model = SampleStore(2), mlp((2, 3, 2))
    offer(store, model, 1)
    with torch.no_grad():
        model[0].bias.fill_(100.0)
    assert float(store[0]["0.bias"][0]) == 1.0


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

"""Which images a network trains on, is chosen by, and is judged by; and simulated data."""

import pytest
import torch
from torch import nn

from bnnlib import datasets
from bnnlib.train.fit import fit
from chapters.shared import images, simulated
from chapters.shared.images import BestEpoch
from tests.seeded import seeded as _generator


def _numbered() -> datasets.Dataset:
    """Twelve images, whose pixels say which they are: 0 to 7 for training, 8 to 11 for testing."""
    x = torch.arange(12.0).view(-1, 1, 1, 1) / 255.0
    y = torch.arange(12) % 10
    return datasets.Dataset("numbered", x[:8], y[:8], x[8:], y[8:], task="classification")


@pytest.mark.parametrize("held_out", [0, 3])
def test_no_image_has_two_parts(monkeypatch, held_out):
    monkeypatch.setattr(datasets, "load", lambda name: _numbered())
    params = {"data": "numbered", "held_out": held_out, "scaling": "unit"}
    parts = images.load_images(params, torch.device("cpu"))
    number = {name: x.mul(255).round().long().flatten().tolist() for name, (x, _) in parts.items()}
    assert number["test"] == [8, 9, 10, 11]
    assert len(number.get("validation", [])) == held_out
    assert sorted(number["train"] + number.get("validation", [])) == list(range(8))
    for name, (_, y) in parts.items():
        assert y.tolist() == [one % 10 for one in number[name]]


def test_pixels_are_scaled_by_what_the_set_is_known_for(monkeypatch):
    """Channels of CIFAR-10 have mean 0 and standard deviation 1; Blundell et al. divide bytes by 126."""
    mean, scale = torch.tensor([125.3, 123.0, 113.9]) / 255.0, torch.tensor([63.0, 62.1, 66.7]) / 255.0
    x = torch.stack([mean, mean + scale, mean - scale])[:, :, None, None]
    data = datasets.Dataset("one", x, torch.zeros(3).long(), x, torch.zeros(3).long(), task="classification")
    monkeypatch.setattr(datasets, "load", lambda name: data)
    params = {"data": "one", "held_out": 0, "scaling": "cifar10"}
    found = images.load_images(params, torch.device("cpu"))["train"][0][:, :, 0, 0]
    assert torch.allclose(found, torch.tensor([[0.0], [1.0], [-1.0]]).expand(3, 3), atol=2e-3)
    bytes_ = images.load_images(params | {"scaling": "blundell"}, torch.device("cpu"))["train"][0][:, :, 0, 0]
    assert torch.allclose(bytes_, x[:, :, 0, 0] * 255.0 / 126.0)


def test_errors_are_counted_on_the_part_that_is_asked():
    model = torch.nn.Flatten()  # the class is the largest pixel
    x = torch.eye(4).view(4, 4, 1, 1)
    data = {"train": (x, torch.arange(4)), "test": (x, torch.tensor([0, 1, 2, 0]))}
    assert images.error_percent(model, data, "train") == 0.0
    assert images.error_percent(model, data, "test") == 25.0


@pytest.mark.skipif(not datasets.available("digits"), reason="scikit-learn is absent")
def test_enlarged_digits_are_scaled_once():
    params = {"data": "digits", "held_out": 0, "scaling": "unit", "shape": (3, 32)}
    for x, _ in images.load_images(params, torch.device("cpu")).values():
        assert x.shape[1:] == (3, 32, 32) and x.min() == 0.0 and x.max() > 0.9


def trained(callbacks, epochs=4) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 3, generator=generator), torch.randint(2, (40,), generator=generator)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    random = torch.Generator().manual_seed(2)
    fit(model, (x, y), epochs=epochs, batch_size=10, optimizer=optimizer, generator=random, callbacks=callbacks)
    return model


def test_the_weights_of_the_best_epoch_are_kept_and_training_goes_on_as_without(monkeypatch):
    errors = iter([30.0, 10.0, 20.0, 10.0])
    monkeypatch.setattr(images, "error_percent", lambda model, data, part: model.eval() and next(errors))
    best = BestEpoch((torch.zeros(1, 3), torch.zeros(1).long()))
    after = trained([best]).state_dict()
    assert best.error == 10.0
    torch.testing.assert_close(best.weights, dict(trained([], epochs=2).state_dict()))  # the first of two equal ones
    torch.testing.assert_close(dict(after), dict(trained([]).state_dict()))
    again = BestEpoch(best.data["test"])
    again.load_state_dict(best.state_dict())
    assert (again.error, again.weights.keys()) == (best.error, best.weights.keys())


def test_it_measures_the_network_without_dropout():
    data = (torch.randn(50, 3), torch.randint(2, (50,)))
    best = BestEpoch(data)
    model = trained([best], epochs=1)
    assert best.error == images.error_percent(model, {"test": data}, "test") and 0.0 <= best.error <= 100.0


def test_two_inputs_are_mixed_by_alpha_over_common_inputs_and_noise():
    x, y, f = simulated.two_inputs(4_000, 0.25, _generator())
    assert torch.allclose(f[:, 0], 0.75 * x[:, 0] + 0.25 * x[:, 1])
    # inputs and noise N(0, 1): the standard error of a mean is 0.016, that of a variance 0.022; four of them
    for part in (x[:, 0], x[:, 1], (y - f)[:, 0]):
        assert part.mean().item() == pytest.approx(0.0, abs=0.064)
        assert part.var().item() == pytest.approx(1.0, abs=0.09)
    other, other_y, other_f = simulated.two_inputs(4_000, 1.0, _generator())
    assert torch.equal(x, other)
    assert torch.allclose(y - f, other_y - other_f, atol=1e-6)


def test_share_of_active_inputs_and_nested_sets():
    shares, before = [], torch.zeros(2_000, dtype=torch.bool)
    for activity in (0.0, 0.2, 0.5, 0.95, 1.0):
        *_, effects = simulated.graded_regression(3, 2_000, 1.0, _generator(), activity=activity)
        active = effects != 0
        assert bool((before <= active).all())
        before = active
        shares.append(active.double().mean().item())
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert simulated.graded_regression(10, 5, 2.0, _generator())[3].tolist() == [0.5, 1.0, 1.5, 2.0, 2.5]
    # the standard error of a share of 2,000 is at most 0.011; four of them
    assert shares[1:4] == pytest.approx([0.2, 0.5, 0.95], abs=0.045)

"""The best epoch on the test images is kept beside the last one, and changes nothing of the training."""

import torch
from torch import nn

from bnnlib.train.fit import fit
from chapters.shared import images
from chapters.shared.images import BestEpoch


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

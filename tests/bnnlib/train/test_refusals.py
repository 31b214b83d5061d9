"""Bad input of both loops is refused in words that name it, and so is the checkpoint of another run."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from bnnlib.models import mlp
from bnnlib.nn import GaussianLinear, insert_unit_noise
from bnnlib.sampling import SGLD, SampleStore
from bnnlib.train import EarlyStopping, fit, sample
from tests.bnnlib.train.runs import ROWS, SCHEDULERS, EveryStep, Stream, data
from tests.refused import refusals
from tests.seeded import seeded

(X, Y), DENSE = data(), mlp((6, 8, 3))


class Named(Dataset):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, row: int):
        return {"x": torch.zeros(6), "y": 0}


class Endless(Dataset):
    def __getitem__(self, row: int):
        return torch.zeros(6), torch.tensor(0)


def trained(given=(X, Y), model=None, **change):
    """One epoch by the loop."""
    return fit(model or mlp((6, 8, 3), layer=GaussianLinear), given, **{"epochs": 1, "batch_size": 16} | change)


def loaded(given, **settings):
    return trained(given, batch_size=settings.pop("batch_size", None), **settings)


def shuffled(generator=5):
    generator = None if generator is None else seeded(generator)
    return DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=True, generator=generator)


def sampled(**change):
    model = mlp((6, 8, 3))
    return sample(model, (X, Y), sampler=SGLD(model.parameters(), 1e-4), **{"epochs": 1, "batch_size": 16} | change)


def adam(model=DENSE):
    return torch.optim.Adam(model.parameters())


NO_PAIR, NO_BATCH = (
    r"data is {}, but it must be \(x, y\).*torch\.as_tensor",
    r"a batch is dict, but it must be \(x, y\)",
)
REFUSED = {
    "settings": [
        *[(lambda c=c: trained(**c), message) for c, message in (
            ({"epochs": 0}, "epochs"), ({"batch_size": 0}, "batch_size"), ({"kl_scale": -1.0}, "kl_scale"),
            ({"minibatch_scheme": "first"}, "scheme is 'first'"), ({"schedule": lambda epoch: -1.0}, "schedule"),
            ({"max_steps": 0}, "max_steps"), ({"max_seconds": 0}, "max_seconds"),
            ({"epochs": None}, "give epochs, max_steps or max_seconds"),
            ({"validation": X}, r"but it must be \(x, y\)"),
            ({"validation": (X, Y), "validation_draws": 0}, "validation_draws"),
            ({"callbacks": [EarlyStopping()]}, r"held-out rows.*validation=\(x, y\)"))],
        (lambda: EarlyStopping(patience=0), "patience"),
        (lambda: EarlyStopping(start_epoch=0), "start_epoch"),
        # the likely slip: made before `to_bayesian` or `insert_unit_noise`, which copy
        (lambda: trained(model=insert_unit_noise(DENSE, before=["0"]), optimizer=adam()),
         r"holds no parameter of the model, .* return copies"),
        (lambda: trained(model=mlp((6, 3)).requires_grad_(False)), r"is frozen.*requires_grad_\(\)"),
        (lambda: trained(model=DENSE, optimizer=torch.optim.LBFGS(DENSE.parameters())), "LBFGS computes"),
        *[(lambda loss=loss: trained(model=DENSE, loss=loss), message) for loss, message in (
            (nn.CrossEntropyLoss(reduction="none"), r"a tensor of shape \(16,\).*reduction='mean'"),
            (lambda o, y: 0.0, "returned a float.*a scalar tensor"))],
        (lambda: trained(model=DENSE, optimizer=adam(), schedule=SCHEDULERS["step"](adam(mlp((6, 3))))),
         "scheduler is of another optimizer"),
        (lambda: trained(model=DENSE, optimizer=(own := adam()), schedule=SCHEDULERS["plateau"](own)),
         r"validation loss, but there is none. Give validation=\(x, y\)"),
    ],
    "data": [
        (lambda: trained((torch.zeros(3, 6), torch.zeros(2).long())), "same number of rows"),
        (lambda: trained((torch.zeros(0, 6), torch.zeros(0).long())), "at least one"),
        (lambda: trained(X), NO_PAIR.format("Tensor")),
        (lambda: trained((X.numpy(), Y.numpy())), NO_PAIR.format("ndarray, ndarray")),
        (lambda: trained([*zip(X, Y, strict=True)]), NO_PAIR.format(f"tuple, tuple, tuple and {ROWS - 3} more")),
        (lambda: trained((X, X[:, :1]), nn.Linear(6, 1)), r"one output.*mse_loss"),
        (lambda: loaded(TensorDataset(X, Y)), "batch_size is missing"),
        (lambda: loaded((X, Y)), "batch_size is missing"),
        (lambda: loaded(shuffled(), batch_size=8), r"batch_size is 8, but the loader gives .*batch_size=16"),
        (lambda: loaded(shuffled(), shuffle_generator=seeded(0)), "draws its own order"),
        (lambda: loaded(Named(), batch_size=2), NO_BATCH + ".* collate_fn"),
        (lambda: loaded(DataLoader(Named(), batch_size=2)), NO_BATCH),
        (lambda: loaded(Endless(), batch_size=2), "Endless has no length"),
        (lambda: loaded(DataLoader(TensorDataset(X, Y), batch_size=64, drop_last=True)), "given no batch"),
        (lambda: trained(Stream()), r"no length.* Give num_data"),
        (lambda: loaded(DataLoader([(X, Y)], batch_size=None)), r"batch_size=None.* Give num_data"),
        (lambda: trained(Stream(), num_data=ROWS, minibatch_scheme="halving"),
         "minibatch_scheme='halving' needs the number of batches"),
    ],
    "chains": [
        *[(lambda c=c: sampled(**c), message) for c, message in (
            ({"epochs": 0}, "epochs"), ({"thin": 0}, "thin"), ({"burn_in": -1}, "burn_in"),
            ({"num_data": 0}, "num_data"), ({"temperature_schedule": lambda k: -1.0}, "temperature"))],
        (lambda: sampled(callbacks=[store := SampleStore(3)], store=store), "offered every state twice"),
        (lambda: SampleStore(3, burn_in=-1), "burn_in"),
        (lambda: SampleStore(3, every=0), "every"),
    ],
}  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)


def scheduled(epochs, with_schedule, **settings):
    sgd = torch.optim.SGD(DENSE.parameters(), lr=0.05, momentum=0.9)
    schedule = SCHEDULERS["step"](sgd) if with_schedule else None
    return trained(model=DENSE, optimizer=sgd, epochs=epochs, schedule=schedule, **settings)


OTHERS = {
    "other data": (trained, lambda **s: trained((X[1:], Y[1:]), epochs=2, **s), r"rows': 50.*rows': 49"),
    "another loader": (
        lambda **s: loaded(shuffled(), epochs=3, max_steps=2, **s), lambda **s: loaded(shuffled(None), epochs=3, **s),
        r"differ in their generators \(loader, sampler 0\)",
    ),
    "no scheduler": (
        lambda **s: scheduled(5, True, **s), lambda **s: scheduled(8, False, **s),
        "a run with a scheduler, but this one has none",
    ),
    "no store": (sampled, lambda **s: sampled(store=SampleStore(3), **s), "neither prior nor store"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_a_checkpoint_of_another_run_is_refused(case, tmp_path):
    first, other, message = OTHERS[case]
    first(checkpoint=EveryStep(tmp_path / "run.pt"))
    with pytest.raises(ValueError, match=message):
        other(checkpoint=EveryStep(tmp_path / "run.pt"))

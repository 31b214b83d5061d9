"""Bad input of both loops is refused in words that name it, and so is the checkpoint of another run."""

from copy import deepcopy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from bnnlib.models import mlp
from bnnlib.nn import GaussianLinear, SpikeSlabLinear, insert_unit_noise
from bnnlib.optim import IVON, AdaptiveVariational
from bnnlib.pruning import MagnitudePruner
from bnnlib.sampling import SGLD, SampleStore, SpikeSlabGaussianLaplacePrior
from bnnlib.train import Callback, EarlyStopping, fit, sample
from tests.bnnlib.train.runs import ROWS, SCHEDULERS, EveryStep, Stream, data
from tests.refused import refusals
from tests.seeded import seeded

(X, Y), DENSE = data(), mlp((6, 8, 3))
NO_LABELS = torch.full_like(Y, -100)


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


def sampled(model=None, **change):
    model = model or mlp((6, 8, 3))
    return sample(
        model, **{"data": (X, Y), "sampler": SGLD(model.parameters(), 1e-4), "epochs": 1, "batch_size": 16} | change
    )


def prior(model=DENSE, sparse="0.weight", **settings):
    return SpikeSlabGaussianLaplacePrior(model, sparse=[sparse], spike_scale=0.5, slab_variance=1.0, **settings)


def square(outputs, y):
    return (outputs - y).square().mean()


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
            ({"callbacks": [EarlyStopping()]}, r"held-out rows.*validation=\(x, y\)"),
            *[({"callbacks": given}, r"callbacks is .* a list of objects such as bnnlib\.train\.Callback")
              for given in ([print], Callback(), [EarlyStopping])],
            ({"callbacks": [MagnitudePruner(deepcopy(DENSE))]}, "MagnitudePruner holds no parameter of the model"),
            ({"generator": 0}, r"^generator is 0, .*manual_seed\(seed\)"),
            ({"shuffle_generator": 0}, "^shuffle_generator is 0"))],
        (lambda: EarlyStopping(patience=0), "patience"),
        (lambda: EarlyStopping(start_epoch=0), "start_epoch"),
        # the likely slip: made before `to_bayesian` or `insert_unit_noise`, which copy
        (lambda: trained(model=insert_unit_noise(DENSE, before=["0"]), optimizer=adam()),
         r"holds no parameter of the model, .* return copies"),
        (lambda: trained(model=mlp((6, 3)).requires_grad_(False)), r"is frozen.*requires_grad_\(\)"),
        (lambda: trained(model=DENSE, optimizer=torch.optim.LBFGS(DENSE.parameters())), "LBFGS computes"),
        (lambda: trained(model=DENSE, optimizer=SGLD(DENSE.parameters(), 1e-4)), r"at temperature 1.*train\.sample\("),
        *[(lambda kind=kind: trained(model=(own := mlp((6, 3), layer=GaussianLinear)), optimizer=kind(own.parameters(),
           lr=0.1, num_data=ROWS)), rf"0 is a GaussianLinear.*{kind.__name__} would draw.*KL term.*to_deterministic")
          for kind in (IVON, AdaptiveVariational)],
        *[(lambda loss=loss: trained(model=DENSE, loss=loss), message) for loss, message in (
            (nn.CrossEntropyLoss(reduction="none"), r"a tensor of shape \(16,\).*reduction='mean'"),
            (nn.CrossEntropyLoss(reduction="sum"), "reduction='sum'.*Use reduction='mean'"),
            (partial(partial(F.cross_entropy, reduction="sum"), label_smoothing=0.1), "reduction='sum'"),
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
        *[(lambda loss=loss: trained((X, X[:, :1]), nn.Linear(6, 1), loss=loss), r"one output.*mse_loss")
          for loss in (F.cross_entropy, nn.CrossEntropyLoss(), partial(F.cross_entropy, label_smoothing=0.1))],
        *[(lambda loss=loss, y=y: trained((X, y), nn.Linear(6, 1), loss=loss), r"\(16, 1\).*\(16,\).*y\[\.\.\., None\]")
          for loss in (square, F.mse_loss) for y in (X[:, 0], 1e4 + 1e-3 * X[:, 0], Y)],
        *[(lambda loss=loss: trained((X, 25.0 + Y), nn.Linear(6, 1), loss=loss), r"y\[\.\.\., None\] or, .*leave that")
          for loss in (F.poisson_nll_loss, lambda o, y: (o.exp() - y).square().mean())],
        (lambda: trained((X, X[:, :1]), nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)), loss=F.l1_loss), r"y\.squeeze"),
        *[(lambda loss=loss: trained((X[:48], X[:48, 0]), nn.Linear(6, 16), loss=loss),
           r"\(16, 16\).*\(16,\).*Give targets of the outputs' shape") for loss in (square, F.mse_loss)],
        (lambda: trained((X, X[:, :1]), nn.Linear(6, 1), loss=F.mse_loss, validation=(X, X[:, 0])), r"\(16,\).*None\]"),
        (lambda: trained((X.double(), Y)), r"torch\.float64 of x does not .*: give x\.float\(\), or"),
        (lambda: trained((X, Y.double())), r"float64 of y does not .*Long.*labels are integers: give y\.long\(\)"),
        (lambda: trained((X, X[:, :3].double()), loss=nn.HuberLoss()), r"of y does.*Double.*: give y\.float\(\)"),
        (lambda: trained(validation=(X * torch.nan, Y)), "is nan in the validation after epoch 0", ArithmeticError),
        (lambda: trained(validation=(X, NO_LABELS)), r"no label of the validation data counts: .*ignore_index"),
        (lambda: trained((X, NO_LABELS)), r"loss is nan in epoch 0.* No label of this batch counts", ArithmeticError),
        (lambda: trained((X * torch.nan, Y)), r"loss is nan in epoch 0((?!label).)*$", ArithmeticError),
        *[(lambda given=given: loaded(given), "batch_size is missing") for given in (TensorDataset(X, Y), (X, Y))],
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
        (lambda: sampled(store=SampleStore(3, burn_in=30, every=2)), r"burn_in=30 and thin=2 to sample"),
        (lambda: sampled(store=SampleStore(3), callbacks=Callback()), "callbacks is .* a list"),
        (lambda: sampled(mlp((6, 3), layer=GaussianLinear)), r"0 is a GaussianLinear.*KL term.*to_deterministic"),
        (lambda: sampled(DENSE, sampler=AdaptiveVariational(DENSE.parameters(), 0.1, ROWS)),
         "of type AdaptiveVariational.*train.fit", TypeError),
        (lambda: sampled(DENSE, sampler=adam()), r"sampler is of type Adam, .* bnnlib\.train\.fit", TypeError),
        (lambda: sampled(prior=prior()), "SpikeSlabGaussianLaplacePrior holds no parameter of the model"),
        (lambda: sampled(loss=nn.CrossEntropyLoss(reduction="sum")), "reduction='sum'"),
        (lambda: sampled(DENSE, prior=prior(likelihood="regression", num_data=ROWS)), r"\(16, 3\).*\(16,\).*`update`"),
        (lambda: SampleStore(3, burn_in=-1), "burn_in"),
        (lambda: SampleStore(3, every=0), "every"),
    ],
}  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)


def scheduled(epochs, with_schedule, **settings):
    sgd = torch.optim.SGD(DENSE.parameters(), lr=0.05, momentum=0.9)
    schedule = SCHEDULERS["step"](sgd) if with_schedule else None
    return trained(model=DENSE, optimizer=sgd, epochs=epochs, schedule=schedule, **settings)


def inclusion(probability, **settings):
    layer = partial(SpikeSlabLinear, prior_inclusion_probability=probability)
    return trained(model=nn.Sequential(layer(6, 3)), **settings)


def by(kind, rate=1e-3, model=None, **settings):
    model = model or mlp((6, 8, 3))
    return trained(model=model, optimizer=kind(model.parameters(), lr=rate), **settings)


OTHERS = {
    "another prior": (
        lambda **s: inclusion(0.5, **s), lambda **s: inclusion(1e-4, epochs=3, **s),
        r"0 \(SpikeSlabLinear\) has prior_inclusion_probability=0\.5, but this one has .*=0\.0001: it cannot",
    ),
    "another optimizer": (
        lambda **s: by(torch.optim.Adam, **s), lambda **s: by(torch.optim.SGD, epochs=3, **s),
        "holds the state of Adam, but this run has SGD, .*Use Adam, or another",
    ),
    # whose settings are among those of the first
    "a related optimizer": (
        lambda **s: by(torch.optim.Adam, **s), lambda **s: by(torch.optim.Adamax, epochs=3, **s),
        "holds the state of Adam, but this run has Adamax, .*Use Adam, or another",
    ),
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


@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        (lambda **s: by(torch.optim.Adam, **s), lambda **s: by(torch.optim.Adam, 0.5, epochs=3, **s),
         r"in which lr is 0\.001, but this one has 0\.5: the run goes on with the first"),
        (trained, lambda **s: trained(epochs=3, kl_scale=0.1, **s), r"kl_scale is 1\.0, but this one has 0\.1"),
    ],
)  # fmt: skip
def test_what_another_run_does_not_take_over_is_told(first, other, message, tmp_path):
    first(checkpoint=EveryStep(tmp_path / "run.pt"))
    with pytest.warns(UserWarning, match=message) as told:
        assert other(checkpoint=EveryStep(tmp_path / "run.pt")).epoch == 3
    assert [one.filename for one in told] == [__file__]


def test_what_a_callback_has_changed_is_the_same_run(tmp_path, recwarn):
    """Settings and rates as at the start, and as they have come to be."""
    model = nn.Sequential(SpikeSlabLinear(6, 3, prior_inclusion_probability=0.5))
    adam = torch.optim.Adam(model.parameters(), lr=0.1)

    class Anneal(Callback):
        def on_epoch(self, run):
            run.model[0].prior_inclusion_probability /= 2
            run.optimizer.param_groups[0]["lr"] /= 2

    for epochs, new in ((1, False), (2, False), (3, True)):
        if new:
            model = nn.Sequential(SpikeSlabLinear(6, 3, prior_inclusion_probability=0.5))
            adam = torch.optim.Adam(model.parameters(), lr=0.1)
        elif epochs == 2:  # as where the run went on past what was saved last
            model[0].prior_inclusion_probability /= 3
            adam.param_groups[0]["lr"] *= 0.9
        trained(model=model, optimizer=adam, epochs=epochs, callbacks=[Anneal()], checkpoint=tmp_path / "run.pt")
    assert model[0].prior_inclusion_probability == 0.5**4 and not recwarn.list


@pytest.mark.parametrize("run", [fit, sample])
def test_another_number_of_observations_is_told(run):
    model = mlp((6, 1))
    if run is fit:
        optimizers = [AdaptiveVariational(model.parameters(), 0.01, n) for n in (40, 60)]
        given = [{"optimizer": one} for one in (*optimizers, IVON(model.parameters(), 0.1, 60))]
    else:
        own = prior(model, likelihood="regression", num_data=60)
        given = [{"sampler": SGLD(model.parameters(), 1e-4), "prior": own}]
    for settings in given:
        with pytest.warns(UserWarning, match=r"has num_data=.0, but this run has 50 observations.* as num_data too"):
            run(model, (X, X[:, :1]), epochs=1, batch_size=16, loss=F.mse_loss, **settings)


def test_labels_beyond_the_outputs_are_named():
    with pytest.raises(IndexError, match=r"Labels run from 0 to 7, but they must be from 0 to below the number of the"):
        trained((X[:16], torch.arange(16) % 8))

    class Wrong(nn.Linear):
        def forward(self, x):
            return super().forward(x[:, [0, 99]])

    with pytest.raises(IndexError) as error:  # the model's own mistake
        fit(Wrong(2, 2), (X[:16], torch.arange(16) % 2), epochs=1, batch_size=8)
    assert "Labels" not in str(error.value)

"""No step waits for the device or mixes two: seen on the meta device, where nothing can be read, and on a GPU."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib import nn as bnn
from bnnlib import replicates
from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab
from bnnlib.pruning import AGPPruner, GroupLasso, MagnitudePruner
from bnnlib.sampling import SGHMC, SGLD, SampleStore, SpikeSlabGaussianLaplacePrior
from bnnlib.train import fit, sample
from bnnlib.train.fit import _Descent
from bnnlib.train.sample import _Chain
from tests.bnnlib.nn.conftest import CONV, LINEAR
from tests.bnnlib.replicates.conftest import POSTERIORS, REPLICATES, SIZES

META = {"device": "meta"}


def step(model, x, y):
    """Both ways to the objective, on the loss and its gradient."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for with_value in (False, True):
        loss = bnn.elbo_loss(F.mse_loss(model(x), y), model, 100, with_value=with_value)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    bnn.kl_gradient(model).backward()  # without a draw before it


def uses(model, x):
    """What a step may use beside its objective."""
    for context in (bnn.mean_weights, bnn.selected_weights, bnn.held_weights):
        with context(model), torch.no_grad():
            model(x)
    bnn.predict(model, x, 2)


def used(model, *shape, outputs=2):
    x, y = torch.empty(7, *shape, **META), torch.empty(7, outputs, **META)
    return lambda: (step(model, x, y), uses(model, x))


def linear(kind, by_default):
    with torch.device("meta" if by_default else "cpu"):  # what is made without a device lies there, or on the host
        return used(nn.Sequential(LINEAR[kind](5, 4, **META), nn.Tanh(), LINEAR[kind](4, 2, **META)), 5)


def convolution(kind):
    model = nn.Sequential(CONV[kind](3, 4, 3, **META), nn.Tanh(), CONV[kind](4, 2, 3, **META), nn.Flatten())
    return used(model, 3, 6, 6, outputs=8)


def unit_noise(together):
    noise = [bnn.StructuredBayesianPruning(n, -1, kl_weight=w, **META) for n, w in ((5, 1.0), (4, 2.0))]
    model = nn.Sequential(noise[0], nn.Linear(5, 4, **META), noise[1], nn.Linear(4, 2, **META))
    if not together:
        return used(model, 5)

    def run():
        with bnn.drawn_together(model):
            loss = model(torch.empty(7, 5, **META)).square().mean()
        (loss + bnn.kl_gradient(model) / 100).backward()

    return run


def batch_statistics(statistic, draws, momentum=0.1):
    settings = {"momentum": momentum, "statistic": statistic, "draws": draws} | META
    model = nn.Sequential(
        bnn.GaussianConv2d(3, 4, 3, **META), bnn.StochasticBatchNorm2d(4, **settings), nn.Flatten(),
        bnn.StochasticBatchNorm1d(64, **settings), nn.Linear(64, 2, **META),
    )  # fmt: skip
    x, y = torch.empty(7, 3, 6, 6, **META), torch.empty(7, 2, **META)
    return lambda: (step(model, x, y), uses(model.eval(), x), bnn.match_moments(model, x.split(4)))


def virtual_batch():
    model = nn.Sequential(nn.Linear(5, 4, **META), bnn.StochasticBatchNorm1d(4, **META))
    x = torch.empty(7, 5, **META)
    return lambda: (bnn.match_moments(model, x.split(4)), bnn.predict_virtual_batch(model, x, 3))


def small(device="meta"):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)).to(device)


def groups(model, **settings):
    return GroupSpikeSlab(model, 1e-2, 5e-4, 50, **{"hard_threshold": 1e-6, "names": ["0.weight"]} | settings)


SAMPLERS = {
    "sgld": lambda p, _: SGLD(p, 1e-3),
    "sghmc": lambda p, _: SGHMC(p, 1e-3),
    "sghmc, euler": lambda p, _: SGHMC(p, 1e-3, scheme="euler", gradient_variance=0.1),
    "adaptive": lambda p, prior: AdaptiveVariational(p, 1e-3, 50, prior=prior),
    "adaptive, 1": lambda p, prior: AdaptiveVariational(p, 1e-3, 50, alpha=1.0, weight_decay=1e-3, prior=prior),
    "natural": lambda p, prior: AdaptiveVariational(p, 1e-3, 50, form="natural", prior=prior),
    "stein": lambda p, prior: AdaptiveVariational(p, 1e-3, 50, form="natural", estimator="stein", prior=prior),
}


def sampler(name):
    model = small()
    chosen = SAMPLERS[name](small("cpu").parameters(), groups(model, names=["0.weight", "2.weight"]))
    # over the parameters of a model on the meta device, which has no generators
    chosen.param_groups[0]["params"], chosen.generator = list(model.parameters()), None

    def energy():
        loss = model(torch.empty(5, 3, 6, 6, **META)).square().mean()
        chosen.zero_grad()
        loss.backward()
        return loss

    return lambda: [chosen.step(energy) for _ in range(2)]


def group_prior(kind):
    model = small()
    prior = groups(model, kind=kind)

    def run():
        model(torch.empty(5, 3, 6, 6, **META)).square().mean().backward()
        prior.add_gradient_(), prior.hold_()
        prior.slab_probability(), prior.sparsity(), prior.kept()

    return run


def learned_prior(likelihood, stack):
    weight = nn.Parameter(torch.empty(*stack, 4, 5, **META))
    per = torch.linspace(0.5, 1.0, *stack) if stack else 0.5
    settings = {"spike_scale": per, "slab_variance": per, "sigma": per, "step_size": 0.5, "likelihood": likelihood}
    settings |= {"num_data": 50 if likelihood == "regression" else None, "batch_dims": len(stack)}
    prior = SpikeSlabGaussianLaplacePrior({"w": nn.Parameter(torch.empty(*stack, 4, 5))}, **settings)
    prior.weights = {"w": weight}
    for name in ("spike_scale", "slab_variance", "sigma"):
        setattr(prior, name, getattr(prior, name).to("meta"))
    for own in (prior.inclusion, prior.rho, prior.kappa0, prior.kappa1):
        own["w"] = own["w"].to("meta")

    def run():
        weight.square().sum().backward()
        prior.add_gradient_()
        prior.update(torch.empty(stack, **META) if likelihood == "regression" else None)
        prior.energy().sum().backward()

    return run


PRUNERS = {
    "magnitude": lambda m, s: MagnitudePruner(m, lambda k: 0.1 * k, scope=s),
    "magnitude anew": lambda m, s: MagnitudePruner(m, lambda k: 0.1 * k, scope=s, persistent=False),
    "agp": lambda m, s: AGPPruner(m, final_sparsity=0.9, begin_step=1, end_step=3, frequency=1, scope=s),
    "group lasso": lambda m, s: GroupLasso(m, 1e-3, last_step=2),
}


def pruner(name, scope):
    model = small()
    chosen = PRUNERS[name](model, scope)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def run():
        for k in (1, 2, 3):
            chosen.on_step(SimpleNamespace(model=model, step=k, epoch=k, optimizer=sgd))
        assert name == "group lasso" or 0.2 < chosen.sparsity < 1.0  # known without a look

    return run


LAYOUT = replicates.Layout(SIZES, REPLICATES)


def stack(kind, moved):
    weight = LAYOUT.kaiming_uniform(None, **({} if moved else META))
    model = replicates.StackedMLP(POSTERIORS[kind](LAYOUT, weight)).to("meta" if moved else weight.device)
    state = {name: t for name, t in model.state_dict().items() if not name.endswith("_extra_state")}  # which is bytes
    assert {t.device.type for t in state.values()} == {"meta"}
    loss, x, y = replicates.GaussianLikelihood(3).to("meta"), torch.empty(3, 7, 5, **META), torch.empty(3, 7, 2, **META)
    optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
    posterior = model.posterior
    posterior.kl_gradient()  # settings of each replicate travel once

    def run():
        for use in (loss, replicates.gaussian_nll):
            objective = use(model(x), y) + posterior.kl_gradient(0.1)
            optimizer.zero_grad()
            objective.backward()
            optimizer.step()
        posterior.kl_gradient().backward() if kind != "deterministic" else None
        assert posterior.kl_divergence().shape == posterior.percent_active().shape == (3,)
        assert model.predict(x, 2).shape == (2, 3, 7, 2) and model.mean_forward(x).shape == (3, 7, 2)
        assert posterior.active().shape == posterior.weight.shape

    return run


def every_layer(**place):
    return nn.Sequential(
        bnn.GaussianConv2d(3, 4, 3, **place), bnn.StochasticBatchNorm2d(4, **place),
        bnn.StructuredBayesianPruning(4, 1, **place), nn.Flatten(), bnn.HorseshoeLinear(64, 6, **place),
        bnn.SparseVDLinear(6, 6, **place), bnn.GaussianSpikeSlabLinear(6, 6, slab_scale=1.0, spike_scale=0.1, **place),
        bnn.SpikeSlabLinear(6, 2, prior_inclusion_probability=0.1, **place),
    )  # fmt: skip


def rows(**place):
    return torch.empty(10, 3, 6, 6, **place), torch.zeros(10, dtype=torch.int64, **place)


def prepared(kind, model, optimizer, **settings):
    """A loop just before its first step, on a device that has no generator of its own, and that step."""
    plain = dict.fromkeys(("augment", "autocast", "checkpoint")) | {"channels_last": False, "callbacks": ()} | settings
    loop = kind(model, optimizer, rows(**META), 4, loss=F.cross_entropy, generator=torch.Generator(), **plain)
    model.train()
    four = torch.empty(4, dtype=torch.int64, **META)
    return loop, lambda: loop.step(*loop._prepared(*loop.batches.take(four)))


def loop_of_fit(scheme, channels_last):
    model = every_layer(**META)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loop, first = prepared(_Descent, model, optimizer, channels_last=channels_last)
    loop.kl_scale, loop.schedule = 0.5, lambda epoch: 0.5
    loop.share_kl(scheme)
    return lambda: (loop.start_epoch(), first())


def loop_of_sample():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2))
    chain, store = SGHMC(model.parameters(), 1e-3), SampleStore(max_samples=3)
    model = model.to("meta")  # with parameters of its own
    chain.param_groups[0]["params"], chain.generator = list(model.parameters()), None
    loop, first = prepared(_Chain, model, chain)
    loop.prior, loop.num_data, loop.schedules = None, 10, {"lr": lambda k: 1e-3, "temperature": None}
    return lambda: (first(), store.offer(model))


STEPS = [
    *[(linear, kind, by_default) for kind in LINEAR for by_default in (True, False)],
    *[(convolution, kind) for kind in CONV],
    *[(unit_noise, together) for together in (False, True)],
    *[(batch_statistics, statistic, draws) for statistic in ("scale", "variance") for draws in ("batch", "object")],
    (batch_statistics, "scale", "batch", None),
    (virtual_batch,),
    *[(sampler, name) for name in SAMPLERS],
    *[(group_prior, kind) for kind in ("input", "output", "channel")],
    *[(learned_prior, likelihood, s) for likelihood in ("classification", "regression") for s in ((), (3,))],
    *[(pruner, name, scope) for name in PRUNERS for scope in ("layer", "global")],
    *[(stack, kind, moved) for kind in POSTERIORS for moved in (False, True)],
    *[(loop_of_fit, scheme, last) for scheme, last in (("uniform", False), ("halving", True))],
    (loop_of_sample,),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", STEPS, ids=lambda case: " ".join(getattr(c, "__name__", str(c)) for c in case))
def test_no_step_waits_or_mixes_devices(case, watch):
    """A read of a value on the device makes a GPU stand still once a step; tensors of two devices fail there."""
    make, *settings = case
    run = make(*settings)
    with watch():
        run()


def test_a_prior_on_groups_looks_once_an_update(watch):
    prior = groups(small("cpu"))  # where a read does not end it
    with watch("cpu", allowed=1) as seen:
        prior.update()
    assert len(seen.found) == 1


def test_initial_values_lie_where_their_generator_does():
    # no CPU has a second device for generators: what decides is tested, and on a GPU the whole
    assert LAYOUT.uniform(-1.0, 1.0, None, **META).is_meta
    assert LAYOUT.uniform(-1.0, 1.0, torch.Generator()).is_cpu
    for place in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        assert LAYOUT.kaiming_uniform(torch.Generator(place).manual_seed(0)).device.type == place


def test_the_watch_sees_what_it_should(watch):
    on, off = torch.zeros(3, **META), torch.zeros(3)
    for wrong in (
        lambda: on.sum().item(), lambda: on.nonzero(), lambda: on[on > 0], lambda: on.unique(),
        lambda: torch.tensor([1.0, 2.0]).to("meta"), lambda: torch.as_tensor(1.0, **META), lambda: on.new_tensor(1.0),
        lambda: on[off.long()], lambda: on + off, lambda: on.copy_(off),
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            with watch():
                wrong()
    with watch():  # numbers, and tensors of the host among themselves
        on.mul_(2.0).add_(1.0), bool((off == 0).all()), on * off[0]


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def strictly(run):
    for mode in ("default", "error"):  # the first step sets up what is used later
        torch.cuda.set_sync_debug_mode(mode)
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")


@needs_gpu
@pytest.mark.parametrize("kind", LINEAR)
def test_a_gpu_agrees_that_no_layer_waits(kind):
    make, noise = LINEAR[kind], bnn.StructuredBayesianPruning(4, -1)
    model = nn.Sequential(make(5, 4), noise, nn.Tanh(), make(4, 2)).to("cuda")
    x, y = torch.randn(7, 5, device="cuda"), torch.randn(7, 2, device="cuda")
    strictly(lambda: (step(model, x, y), uses(model, x)))

    def by_key():
        with bnn.redraw(model, seed=1, step=2):
            (model(x).sum() + 0.1 * bnn.kl_gradient(model)).backward()

    strictly(by_key)


@needs_gpu
@pytest.mark.parametrize("kind", POSTERIORS)
def test_a_gpu_agrees_that_no_stack_waits(kind):
    generator = torch.Generator("cuda").manual_seed(0)
    model = replicates.StackedMLP(POSTERIORS[kind](LAYOUT, LAYOUT.kaiming_uniform(generator)))
    x, y = torch.randn(3, 7, 5, device="cuda"), torch.randn(3, 7, 2, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def run():
        objective = replicates.gaussian_nll(model(x, generator), y) + model.posterior.kl_gradient(0.1)
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()

    strictly(run)


class Strict(torch.optim.Adam):
    """Errors between two calls of zero_grad mark a wait within a step."""

    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        torch.cuda.set_sync_debug_mode("error")

    def step(self, closure=None):
        out = super().step(closure)
        torch.cuda.set_sync_debug_mode("default")
        return out


@needs_gpu
def test_a_gpu_agrees_that_the_loops_do_not_wait():
    torch.manual_seed(0)
    model, settings = every_layer().to("cuda"), {"epochs": 2, "batch_size": 4}
    x, y = torch.randn(10, 3, 6, 6), torch.zeros(10, dtype=torch.int64)
    fit(model, (x, y), optimizer=torch.optim.Adam(model.parameters(), fused=True), **settings)
    try:
        fit(model, (x, y), optimizer=Strict(model.parameters(), fused=True), **settings)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    plain = nn.Sequential(nn.Flatten(), nn.Linear(108, 2)).to("cuda")
    prior = SpikeSlabGaussianLaplacePrior(plain, sparse=["1.weight"], spike_scale=1.0, slab_variance=0.1, step_size=0.5)
    run = sample(plain, (x, y), sampler=SGHMC(plain.parameters(), 1e-4), prior=prior, **settings)
    assert len(run.history) == 2

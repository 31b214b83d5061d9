"""What every optimizer and sampler promises: states that go on bit for bit, and noise of its own."""

import copy
import pickle

import pytest
import torch

from bnnlib.optim import IVON, AdaptiveVariational, GroupSpikeSlab
from bnnlib.sampling import SGHMC, SGLD
from tests.bnnlib.optim.problem import network, train, values
from tests.saved import saved
from tests.seeded import seeded


def groups(model):
    return GroupSpikeSlab(model, 1e-1, 1e-4, 50, hard_threshold=1e-2, when_empty="allow")


def adaptive(model, prior=False, **settings):
    settings |= {"prior": groups(model)} if prior else {}
    return AdaptiveVariational(model.parameters(), 0.05, 50, **settings)


NATURAL = {"form": "natural", "estimator": "stein"}
MAKE = {
    "adaptive": lambda m, **o: adaptive(m, **o),
    "adaptive, natural": lambda m, **o: adaptive(m, **NATURAL, **o),
    "adaptive, with a prior": lambda m, **o: adaptive(m, True, **o),
    "adaptive, natural, with a prior": lambda m, **o: adaptive(m, True, **NATURAL, **o),
    "ivon": lambda m, **o: IVON(m.parameters(), lr=0.05, num_data=50, weight_decay=0.01, hess_init=0.5, **o),
    "sgld": lambda m, **o: SGLD(m.parameters(), 0.01, 0.7, **o),
    "baoab": lambda m, **o: SGHMC(m.parameters(), 0.01, 0.8, 0.7, **o),
    "euler": lambda m, **o: SGHMC(m.parameters(), 0.01, 0.8, 0.7, scheme="euler", gradient_variance=0.5, **o),
}
KEYED = ("sgld", "baoab", "euler")


def parts(model, optimizer):
    return [one for one in (model, optimizer, getattr(optimizer, "prior", None)) if one is not None]


@pytest.mark.parametrize(("name", "by_key"), [*((n, False) for n in MAKE), *((n, True) for n in KEYED)])
def test_a_saved_state_goes_on_bit_for_bit(name, by_key):
    whole, second = network(), network()
    torch.manual_seed(5)
    optimizer = MAKE[name](whole, **{"keyed": True} if by_key else {})
    train(whole, optimizer, 10)
    for prior in parts(whole, optimizer)[2:]:
        prior.update()
    states = saved([part.state_dict() for part in parts(whole, optimizer)])
    train(whole, optimizer, 10)
    torch.manual_seed(99)
    resumed = MAKE[name](second)  # the state says where the noise comes from
    for part, state in zip(parts(second, resumed), states, strict=True):
        part.load_state_dict(state)
    train(second, resumed, 10)
    assert all(map(torch.equal, whole.parameters(), second.parameters()))
    assert getattr(resumed, "steps", 20) == 20


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
@pytest.mark.parametrize(("name", "by_key"), [*((n, False) for n in MAKE), *((n, True) for n in KEYED)])
def test_a_copy_goes_on_bit_for_bit(name, by_key, copied):
    model = network()
    optimizer = MAKE[name](model, **{"keyed": True} if by_key else {})
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # wraps a method of the optimizer
    train(model, optimizer, 5)
    scheduler.step()
    for prior in parts(model, optimizer)[2:]:
        prior.update()
    other, resumed = copied((model, optimizer))
    assert resumed.generator is not optimizer.generator
    for both in ((model, optimizer), (other, resumed)):
        train(*both, 5)
        for prior in parts(*both)[2:]:
            prior.update()
        train(*both, 5)
    assert all(map(torch.equal, model.parameters(), other.parameters()))
    assert resumed.steps == 15


@pytest.mark.parametrize("name", MAKE)
def test_equal_seeds_give_equal_steps_and_without_one_the_noise_is_its_own(name):
    ends = []
    for seed in (1, 1, 2, None, None):
        model = network()
        train(model, MAKE[name](model, generator=None if seed is None else seeded(seed)), 5)
        ends.append(values(model))
    assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])
    assert (ends[3] != ends[4]).all()


@pytest.mark.parametrize("name", MAKE)
def test_a_parameter_without_a_gradient_stays_and_the_state_has_the_dtype_of_its_own(name):
    model = network()
    model[2].bias.requires_grad_(False)
    before = model[2].bias.clone()
    optimizer = MAKE[name](model)
    train(model, optimizer, 3)
    assert torch.equal(model[2].bias, before)
    kept = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
    assert (kept or name == "sgld") and all(value.dtype == torch.float64 for value in kept)

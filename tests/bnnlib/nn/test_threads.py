"""Threads and asyncio tasks that use one model at once neither see each other nor leave anything behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib import replicates
from bnnlib._overrides import evaluating
from bnnlib.train import fit
from tests.seeded import seeded as generator


def model():
    torch.manual_seed(0)
    gated = {"prior_inclusion_probability": 0.3, "initial_inclusion_probability": 0.6}
    first, noise = bnn.GaussianLinear(5, 8, initial_scale=0.3), bnn.StructuredBayesianPruning(8, -1, initial_scale=0.5)
    others = nn.BatchNorm1d(8), nn.Dropout(0.5), noise, nn.Tanh(), bnn.SpikeSlabLinear(8, 2, **gated)
    return nn.Sequential(first, *others)


def state(network):
    return [(m.training, getattr(m, "weight_mode", None), getattr(m, "_held", None)) for m in network.modules()]


@pytest.mark.slow
def test_64_threads_that_predict_at_once_equal_one():
    network, x = model().train(), torch.randn(11, 5, generator=generator(1))
    network[2].eval()
    before = state(network)

    def predict(seed):
        gate.wait()
        if seed % 4 == 3:  # some of them without noise
            with bnn.mean_weights(network):
                return bnn.predict(network, x, 5, chunk_size=4, generator=generator(seed))
        return bnn.predict(network, x, 5, chunk_size=4, generator=generator(seed))

    gate = threading.Barrier(1)
    alone = [predict(seed) for seed in range(64)]
    gate = threading.Barrier(64)
    with ThreadPoolExecutor(64) as pool:
        together = list(pool.map(predict, range(64)))
    assert all(map(torch.equal, alone, together))
    assert not torch.equal(alone[0], alone[1]) and torch.equal(alone[3], alone[7])
    assert state(network) == before


def test_overlapping_predictions_do_not_freeze_a_model():
    network, x = model().train(), torch.randn(4, 5)
    entered, leave = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def forward(self, x):
            entered.set()
            leave.wait(60.0)
            return x

    slow = nn.Sequential(network, Slow())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(bnn.predict, slow, x, 1)
        entered.wait(60.0)
        bnn.predict(network, x, 1)  # begins after the first and ends before it
        assert not network[2].training
        leave.set()
        first.result()
    assert all(m.training for m in slow.modules()) and network[0].weight_mode == "sample"
    assert not torch.equal(network(x), network(x))


def test_overlapping_tasks_have_modes_of_their_own():
    network, x = model().eval(), torch.randn(4, 5)
    with bnn.mean_weights(network), torch.no_grad():
        mean = network(x)
    with bnn.held_weights(network, generator(1)), torch.no_grad():
        held = network(x)

    async def use(context, turns):
        found = []
        with context, torch.no_grad():
            for _ in range(turns):
                await asyncio.sleep(0)
                found.append(network(x))
        await asyncio.sleep(0)
        return found

    async def main():
        contexts = (bnn.mean_weights(network), 5), (bnn.held_weights(network, generator(1)), 3)
        return await asyncio.gather(*(use(*one) for one in (*contexts, (bnn.use_generator(None), 4))))

    with ThreadPoolExecutor(1) as fresh:  # a browser's test before this one may have left a loop in this thread
        means, helds, draws = fresh.submit(asyncio.run, main()).result()
    assert all(torch.equal(one, mean) for one in means) and all(torch.equal(one, held) for one in helds)
    assert not torch.equal(draws[0], draws[1]) and network[0].weight_mode == "sample"


def test_a_pass_of_another_thread_leaves_the_gradient_alone():
    layer, x = bnn.GaussianLinear(5, 3), torch.randn(4, 5)
    loss = layer(x).square().mean()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: layer(x).square().mean()).result()
    (loss + bnn.kl_gradient(layer)).backward()
    other.backward()  # would find its graph gone, if its token had been taken
    layer.zero_grad()
    bnn.kl_divergence(layer).backward()


def test_the_newest_mode_holds_and_the_last_block_restores():
    module = nn.Dropout().train()
    first, second = evaluating(module), evaluating(module, training=[module])
    first.__enter__()
    second.__enter__()
    assert module.training
    second.__exit__(None, None, None)
    assert not module.training
    second = evaluating(module, training=[module])
    second.__enter__()
    first.__exit__(None, None, None)
    assert module.training
    second.__exit__(None, None, None)
    assert module.training


def test_stacks_and_ensembles_are_shared_as_well():
    layout = replicates.Layout((5, 4, 2), 2)
    posterior = replicates.StackedGaussian(layout, layout.kaiming_uniform(generator()))
    stack, x = replicates.StackedMLP(posterior).train(), torch.randn(7, 5)
    network = model().train()

    def use(seed):
        return (stack.predict(x, 3, generator(seed)), bnn.predict_ensemble([network], x, 3, generator=generator(seed)))

    alone = [use(seed) for seed in range(16)]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(use, range(16)))
    torch.testing.assert_close(together, alone, rtol=0, atol=0)
    assert stack.training and all(m.training for m in network.modules())


@pytest.mark.parametrize("context", [bnn.mean_weights, bnn.selected_weights])
def test_predict_honors_the_mode_around_it(context):
    network, x = model(), torch.randn(4, 5)
    network.eval()
    with context(network), torch.no_grad():
        expected = network(x)
        draws = bnn.predict(network, x, 3)
    assert draws.shape == (3, 4, 2) and all(torch.equal(draw, expected) for draw in draws)
    network[0].weight_mode = "mean"  # one layer alone: the others go on sampling
    assert not torch.equal(*bnn.predict(network, x, 2)) and network[0].weight_mode == "mean"


@pytest.mark.slow
def test_a_training_is_the_same_while_another_thread_predicts():
    x = torch.randn(200, 5, generator=generator(1))
    y = (x[:, 0] > 0).long()

    def trained(predictions):
        torch.manual_seed(0)
        network, ended = model().train(), threading.Event()

        def use():
            while not ended.is_set():
                bnn.predict(network, x[:20], 2, generator=generator(2))

        users = [threading.Thread(target=use) for _ in range(predictions)]
        for user in users:
            user.start()
        try:
            fit(network, (x, y), epochs=10, batch_size=50, generator=generator(3))
        finally:
            ended.set()
        for user in users:
            user.join()
        assert network.training
        return network.state_dict()

    alone, beside = trained(0), trained(2)
    assert all(torch.equal(alone[name], beside[name]) for name in alone)

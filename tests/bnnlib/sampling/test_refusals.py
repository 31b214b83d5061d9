"""Bad input of every part of the room is refused in words that name it."""

import math

import torch
from torch import nn

from bnnlib import sampling as mcmc
from bnnlib._checks import DivergedError
from bnnlib.models import mlp
from bnnlib.sampling.diagnostics import effective_sample_size, split_r_hat
from bnnlib.sampling.learn import OBJECTIVES
from bnnlib.sampling.samples import SampleStore
from chapters.acceptance.formulas import acceptance_rate_of, mean_of
from chapters.implicit_acceptance.discriminating import train_discriminator
from chapters.learned_priors.formulas import annealed, constant
from tests.refused import refusals

NAN, INF, INT = math.nan, math.inf, "must be an integer of at least"
PLAIN, RIGHT = nn.Linear(2, 2), math.pi / 2  # an angle at which latents are drawn anew


def log_prob(points):
    return -0.5 * points.square().sum(-1)


def each(points):
    return -points.square()


def zeros(*shape):
    return torch.zeros(shape)


def noise(count, generator=None):
    return torch.randn(count, 1, generator=generator)


class Implicit:
    def rsample(self, count, generator=None):
        return torch.randn(count, 2)


def sghmc(**settings):
    return mcmc.SGHMC([nn.Parameter(torch.ones(1))], **({"lr": 0.1} | settings))


def sparse_step(kind):
    table = nn.Embedding(5, 3, sparse=True)
    table(torch.tensor([1])).sum().backward()
    kind(table.parameters(), 0.1, weight_decay=1.0).step()


def double_gradient(model, learned):
    model.double()(torch.ones(1, 4).double()).sum().backward()
    learned.add_gradient_()


def prior(**change):
    settings = {"parameters": mlp((4, 6, 3)), "sparse": ["0.weight"], "spike_scale": 0.3, "slab_variance": 2.0} | change
    return mcmc.SpikeSlabGaussianLaplacePrior(settings.pop("parameters"), **settings)


def hmc(step_size=0.1, density=log_prob, **settings):
    return mcmc.HamiltonianMonteCarlo(density, step_size, **settings)


def walk(start=None, num_draws=3, density=log_prob, **counts):
    start = zeros(2, 2) if start is None else start
    return mcmc.sample(mcmc.metropolis_hastings(density, mcmc.RandomWalk(1.0)), start, num_draws, **counts)


def moved(proposal):
    state = mcmc.metropolis_hastings(log_prob, mcmc.RandomWalk(1.0)).start(zeros(2, 2))
    return mcmc.metropolis_hastings(log_prob, proposal).step(state)


def learn(density=None, target=log_prob, **settings):
    return mcmc.learn_proposal(target, density or mcmc.FullGaussian(2), **{"num_steps": 1, "batch_size": 2, **settings})


def critic(inputs=1, kind=mcmc.IndependentDiscriminator, lower=0.1):
    return kind(nn.Sequential(nn.Linear(inputs, 1), nn.Flatten(0)), lower)


def train(kind=mcmc.IndependentDiscriminator, data=None, proposal=None, **settings):
    options = {"steps": 1} | settings
    data = zeros(10, 1) if data is None else data
    return train_discriminator(critic(kind=kind), data, proposal or mcmc.PointProposal(draw=noise), **options)


def chains(proposal, start, discriminator=None, **settings):
    return mcmc.implicit_metropolis_hastings(discriminator or critic(2), proposal, start, 3, **settings)


def normal(dim):
    return mcmc.Independent(mcmc.FullGaussian(dim))


def decoder(out, angle=0.5, inputs=4):
    return mcmc.LatentProposal(nn.Linear(inputs, out), inputs, angle)


REFUSED = {
    "schedules": [
        *[(build, r"is -?[\d.a-z]+.*(must|needs)") for build in (
            lambda: constant(-1.0), lambda: mcmc.polynomial(0.0, 1.0, 0.5), lambda: mcmc.polynomial(1.0, -1.0, 0.5),
            lambda: mcmc.polynomial(1.0, 1.0, -0.5), lambda: annealed(0.0, 1.1), lambda: annealed(1.0, 0.9),
            lambda: annealed(1.0, NAN),
        )],
    ],
    "samplers": [
        (lambda: sghmc(temperature=-1.0), "temperature is -1"),
        (lambda: sghmc(temperature=NAN), "temperature is nan"),
        (lambda: sghmc(lr=0.0), "lr is 0"),
        (lambda: sghmc(lr=INF), "lr is inf"),
        (lambda: sghmc(momentum=1.0), "momentum is 1.*friction"),
        (lambda: sghmc(momentum=-0.1), "momentum is -0.1"),
        (lambda: sghmc(scheme="leapfrog"), "'baoab', 'euler'"),
        (lambda: sghmc(generator=3), "generator is 3, but it must be a torch.Generator"),
        (lambda: sghmc(gradient_variance=1.0), "scheme 'baoab' has no correction"),
        (lambda: mcmc.SGLD([p := nn.Parameter(torch.ones(1))], 1.0).load_state_dict(torch.optim.SGD([p]).state_dict()),
         "no random state"),
        (lambda: sghmc().load_state_dict(sghmc(scheme="euler").state_dict()), "scheme='euler', not .*scheme='baoab'"),
        (lambda: sghmc().load_state_dict(mcmc.SGLD([nn.Parameter(torch.ones(1))], 0.1).state_dict()), "is of SGLD"),
        *[(lambda k=k: sparse_step(k), "gradient is sparse.*sparse=False") for k in (mcmc.SGLD, mcmc.SGHMC)],
    ],
    "the learned prior": [
        (lambda: prior(sparse=["fc9.weight"]), "sparse has 'fc9.weight', which no parameter fits.*0.weight, 0.bias"),
        (lambda: prior(sparse=[]), r"sparse weights is empty.*sparse=\['fc1.weight'\]"),
        (lambda: prior(sparse=None), "sparse weights is empty"),
        (lambda: prior(parameters={}, sparse=None), "sparse weights is empty"),
        (lambda: prior(parameters={"w": zeros(2)}), "a mapping already names"),
        (lambda: prior(spike_scale=0.0), "spike_scale"),
        (lambda: prior(slab_variance=-1.0), "slab_variance"),
        (lambda: prior(sigma=NAN), "sigma"),
        (lambda: prior(inclusion=1.0), "inclusion"),
        (lambda: prior(rho=1.2), "rho"),
        (lambda: prior(nu=0.0), "nu"),
        (lambda: prior(step_size=1.5), "step_size"),
        (lambda: prior(weight_decay=-1.0), "weight_decay"),
        (lambda: prior(update=["rho", "delta"]), r"\['delta'\].*rho, kappa, sigma, inclusion"),
        (lambda: prior(likelihood="regression"), "num_data = None"),
        (lambda: prior(likelihood="poisson"), "'poisson'"),
        (lambda: prior().add_gradient_(), r"'0.weight' has no gradient.*backward"),
        (lambda: double_gradient(model := mlp((4, 6, 3)), prior(parameters=model)), "float64 now.*model.double"),
        (lambda: prior(step_size=0.1, likelihood="regression", num_data=5).update(), "needs squared_error"),
    ],
    "estimates": [
        (lambda: mean_of(zeros(0)), "number of values is 0"),
        (lambda: mean_of(torch.tensor([1.0, NAN])), "1 of 2 values"),
        (lambda: acceptance_rate_of(each, normal(5), torch.randn(5, 5)), "one log density a point"),
        (lambda: acceptance_rate_of(lambda x: torch.full((len(x),), -INF), normal(5), zeros(5, 5)),
         "NaN"),
        (lambda: acceptance_rate_of(log_prob, normal(3), zeros(5, 5)), "same space"),
        (lambda: effective_sample_size(zeros(2, 10), rule="ar"), "'geyer', 'threshold', 'batch_means'"),
        *[(lambda f=f: f(zeros(100)), r"chains, draws.*draws\[None\]") for f in (split_r_hat, effective_sample_size)],
        *[(lambda f=f: f(zeros(2, 3)), "draws in a chain is 3") for f in (split_r_hat, effective_sample_size)],
    ],
    "kernels": [
        (lambda: walk(zeros(0, 2)), "chains >= 1"),
        (lambda: walk(torch.tensor(1.0)), r"chains >= 1|\(chains, "),
        (lambda: walk(torch.full((3, 2), NAN)), "not finite at the start of 3 of 3 chains"),
        (lambda: walk(torch.tensor([[0.0, 0.0], [INF, 0.0]])), "not finite at the start of 1 of 2 chains"),
        (lambda: mcmc.sample(hmc(), torch.full((3, 2), NAN), 3), "not finite at the start of 3 of 3 chains"),
        (lambda: walk(num_draws=0), INT),
        (lambda: walk(burn_in=-1), INT),
        (lambda: walk(thin=0), INT),
        *[(lambda f=f: walk(density=f), r"must be \(2,\): one log density a point")
          for f in (each, lambda x: -x.square().sum(), lambda x: x[:, :1])],
        (lambda: walk(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]),
                      density=lambda x: torch.where(x[:, 0] > 0, log_prob(x), -INF)),
         r"not finite at the start of 2 of 3 chains. Start inside of the support"),
    ],
    "HMC": [
        (lambda: hmc(0.0), "step_size is 0"),
        (lambda: hmc(num_leapfrog=0), "num_leapfrog is 0"),
        (lambda: hmc(jitter=1.0), "jitter is 1"),
        (lambda: hmc(jitter=-0.1), "jitter is -0.1"),
        (lambda: hmc(covariance=torch.tensor([1.0, 0.0])), "covariance is"),
        (lambda: hmc(covariance=torch.tensor([[1.0, 2.0], [2.0, 1.0]])), "positive definite"),
        (lambda: hmc(covariance=torch.tensor([[1.0, 0.5], [0.0, 1.0]])), "symmetric"),
        (lambda: hmc(covariance=torch.ones(2, 3)), r"\(dim, dim\)"),
        (lambda: hmc(covariance=torch.ones(3)).start(zeros(5, 2)), r"\(chains, 3\)"),
        (lambda: hmc().start(zeros(5, 2, 2)), r"\(chains, dim\)"),
        (lambda: hmc(density=each).start(zeros(2, 2)), "one log density a point"),
        *[(lambda f=f: hmc(density=f).start(zeros(2, 2)), "no gradient in the points.*metropolis_hastings")
          for f in (lambda x: log_prob(x).detach(), lambda x: nn.Parameter(zeros(2)) + 0.0)],
        (lambda: mcmc.warm_up(log_prob, zeros(1, 2)), "number of chains is 1"),
        (lambda: mcmc.warm_up(log_prob, zeros(2, 2), 19), "num_steps is 19"),
        (lambda: mcmc.warm_up(lambda x: x.sum(-1) * NAN, zeros(2, 2)), "not finite at the start"),
    ],
    "proposals": [
        *[(lambda s=s: mcmc.RandomWalk(s), "scale is") for s in (0.0, -1.0, NAN, torch.tensor([1.0, 0.0]))],
        *[(lambda k=k: k(0), "dim is 0") for k in (mcmc.DiagonalGaussian, mcmc.FullGaussian)],
        *[(lambda k=k: k(2, scale=-1.0), "scale is -1") for k in (mcmc.DiagonalGaussian, mcmc.FullGaussian)],
        *[(lambda s=s: mcmc.RealNVP(**{"dim": 2, **s}), " is ")
          for s in ({"dim": 1}, {"num_layers": 0}, {"hidden": 0}, {"bound": 0.0})],
        *[(lambda k=k, s=s: k(3).log_prob(zeros(*s)), r"\(count, 3\)")
          for k in (mcmc.DiagonalGaussian, mcmc.FullGaussian, mcmc.RealNVP) for s in ((5,), (5, 1), (2, 5, 3))],
        (lambda: mcmc.FullGaussian(2).match(zeros(1), torch.eye(2)), "shapes"),
        (lambda: mcmc.FullGaussian(2).match(zeros(2), torch.eye(3)), "shapes"),
        *[(lambda b=b: mcmc.FullGaussian(2).match(zeros(2), torch.tensor(b)), "positive definite")
          for b in ([[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, NAN]])],
        (lambda: mcmc.Independent(Implicit()), r"without log_prob.*implicit_metropolis_hastings", TypeError),
        (lambda: mcmc.Independent(torch.distributions.Normal(0.0, 1.0)),
         r"torch\.distributions.*FullGaussian.*rsample\(count, generator\)", TypeError),
        # shapes that would broadcast: as many chains as coordinates, so that nothing else would notice
        (lambda: moved(mcmc.RandomWalk(torch.ones(3, 1, 1))), "draws points"),
        (lambda: moved(normal(3)), "same space"),
        (lambda: moved(mcmc.Markov(lambda x, g: x[:1], lambda x, y: zeros(len(x)))), "draws points"),
        *[(lambda f=f: moved(mcmc.Markov(lambda x, g: x, f)), "proposal's log density")
          for f in (lambda x, y: torch.zeros_like(x), lambda x, y: zeros(len(x), 1))],
        (lambda: mcmc.Markov(lambda given, generator: given, None), "log_density is None", TypeError),
        (lambda: mcmc.metropolis_hastings(log_prob, PLAIN),
         r"must be a Proposal.*implicit_metropolis_hastings", TypeError),
    ],
    "learning": [
        (lambda: learn(objective="elbo"), "'acceptance', 'symmetric_kl', 'vi'"),
        (lambda: learn(num_steps=0), "num_steps is 0"),
        (lambda: learn(batch_size=0), "batch_size is 0"),
        (lambda: learn(learning_rate=-1.0), "learning_rate is -1"),
        (lambda: learn(clip=0.0), "clip is 0"),
        *[(lambda s=s: learn(samples=zeros(*s)), r"\(count, 2\)") for s in ((0, 2), (4, 3), (4,))],
        (lambda: learn(batch_size=9, state=learn(batch_size=8).state), r"must be \(9, 2\)"),
        (lambda: learn(torch.distributions.Normal(0.0, 1.0)), "must be a Density", TypeError),
        *[(lambda o=o: learn(target=each, objective=o), "one log density a point") for o in OBJECTIVES],
        (lambda: learn(target=lambda x: x.sum(-1) * NAN), "not finite at the start"),
    ],
    "discriminators": [
        *[(lambda b=b: critic(lower=b), "lower") for b in (0.0, 0.5, -1.0, NAN)],
        (lambda: train(data=zeros(0, 1), loss="cce"), "at least one row"),
        (lambda: train(loss="hinge"), "'ub', 'mce', 'cce'"),
        (lambda: train(mcmc.MarkovDiscriminator, loss="cce"), "IndependentDiscriminator"),
        (lambda: train(loss="mce"), "MarkovDiscriminator"),
        *[(lambda a=a: train(loss="cce", average=a), "average") for a in (-0.1, 1.0, NAN)],
        (lambda: train(mcmc.MarkovDiscriminator, proposal=decoder(1, inputs=2)), "came without them"),
        (lambda: train(mcmc.MarkovDiscriminator, proposal=decoder(3, RIGHT, 2)), r"\(64, 3\).*\(64, 1\)"),
        (lambda: mcmc.IndependentDiscriminator(nn.Linear(1, 1), 0.1).score(zeros(10, 1)), "one number a point"),
        (lambda: train(data=zeros(10, 1) * NAN, loss="cce"), "step 0", DivergedError),
    ],
    "implicit chains": [
        (lambda: chains(decoder(3, RIGHT), zeros(5, 2)), r"proposal gives shape \(5, 3\).*\(5, 2\)"),
        (lambda: chains(decoder(3, RIGHT), zeros(0, 2)), "at least one row"),
        (lambda: chains(decoder(2), zeros(5, 2)), "came without them"),
        (lambda: chains(decoder(2), zeros(5, 2), start_latents=zeros(4, 4)), r"\(4, 4\).*5 rows"),
        (lambda: mcmc.LatentProposal(lambda z: z[:2], 4).decode(zeros(5, 4)), "one point for each"),
        (lambda: chains(mcmc.PointProposal(lambda x, generator=None: x), zeros(5), lambda x, y: torch.ones(len(x), 1)),
         r"shape \(5, 1\) for 5 pairs, but it must be \(5,\)"),
        *[(lambda a=a: decoder(2, a), "angle") for a in (0.0, -1.0, 2.0, NAN)],
        (mcmc.PointProposal, "both None"),
        *[(lambda v=v: chains(mcmc.PointProposal(draw=lambda n, generator=None: torch.randn(n)), zeros(5),
                              lambda x, y: torch.full((len(x),), v), lower=0.1), words)
          for v, words in ((1.5, r"gave 1.5 .*\[0.1, 1\]"), (0.02, r"gave 0.02 .*\[0.1, 1\]"), (-3.0, "gave -3"))],
    ],
    "the store of draws": [
        (lambda: SampleStore(0), "max_samples"),
        (lambda: SampleStore(3).predict(mlp((2, 3, 2)), torch.randn(1, 2)), "empty: 0 states were offered"),
        (lambda: (store := SampleStore(3)).offer(one := mlp((2, 1))) and store.predict(one, torch.randn(4, 2)),
         "one output.*sigmoid"),
    ],
}  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)

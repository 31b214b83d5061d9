"""Bad input of the studies' functions is refused in words that name it."""

import math

import numpy as np
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib._checks import DivergedError
from bnnlib.models import Dropout, mlp
from bnnlib.sampling import IndependentDiscriminator
from chapters.acceptance.adversarial import learn_adversarial_proposal
from chapters.acceptance.formulas import acceptance_lower_bound
from chapters.adaptive_optimizer import formulas as adaptive
from chapters.batch_statistics.figures import method as sbn
from chapters.batch_statistics.lenet import lenet5_batch_norm
from chapters.batch_statistics.naive import predict_naive_batches, predict_stored_batches
from chapters.batch_statistics.networks import preact_resnet18
from chapters.batch_statistics.statistics import collect_statistics
from chapters.batch_statistics.vgg import vgg11
from chapters.closed_form.importance import feature_importance
from chapters.closed_form.pbp import StackedPBP
from chapters.foundations import mean_field
from chapters.foundations import regression as R
from chapters.foundations.enumeration import all_models, spike_slab_regression
from chapters.foundations.gibbs import gibbs
from chapters.implicit_acceptance import quality
from chapters.implicit_acceptance.inversion import invert
from chapters.implicit_acceptance.networks import dcgan_critic, dcgan_generator
from chapters.implicit_acceptance.pool import pooled_metropolis_hastings
from chapters.learned_priors import figures as aeb
from chapters.learned_priors.augmentation import RandomErasing, RandomRotation
from chapters.learned_priors.distributed import Team, launch
from chapters.learned_priors.networks import cnn_batch_norm, cnn_two_conv
from chapters.shared import simulated
from chapters.shared.attacks import fgsm, pgd
from chapters.shared.augmentation import Compose, Normalize, RandomCrop, RandomHorizontalFlip
from chapters.shared.finite import acceptance_kernel, acceptance_rate, check_kernel, implicit_kernel
from chapters.shared.finite import metropolis_hastings_kernel as mh_kernel
from chapters.shared.networks import resnet, resnet18, vgg_like
from chapters.spike_slab.figures import forest, results
from chapters.spike_slab.gibbs import GateChains
from chapters.spike_slab.linear import LinearModel
from tests.book.rows import row
from tests.chapters.closed_form.test_dropout import posterior_of
from tests.chapters.closed_form.test_importance import conv, linear
from tests.chapters.implicit_acceptance.test_training import gan, images, vae
from tests.chapters.spike_slab.test_simulations import _posterior, prune_stacked
from tests.refused import refusals
from tests.seeded import double as t
from tests.seeded import normal, seeded

NAN, INF = math.nan, math.inf


def zeros(*shape):
    return torch.zeros(shape)


def ones(*shape):
    return torch.ones(shape)


def adversarial(data=None, score=None, **settings):
    data = torch.randn(20, 1) if data is None else data
    settings = {"latent_dim": 2, "num_steps": 2} | settings
    return learn_adversarial_proposal(data, nn.Linear(2, 1), score or nn.Linear(1, 1), **settings)


def naive(model=None, x=None, train=None, **settings):
    model = model or nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    x, train = normal(2, 3) if x is None else x, normal(60, 3) if train is None else train
    return predict_naive_batches(model, x, train, **({"num_samples": 2, "batch_size": 10} | settings))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = linear(3, 3)

    def forward(self, x):
        return x + self.inner(x)


class Conv1D(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(ones(3, 3))


def importance(*layers, **settings):
    return feature_importance(nn.Sequential(*layers), **settings)


def pbp(x=None, y=None, epochs=1, predict=False):
    model = StackedPBP((2, 4, 1), 3, seeded())
    x, y = zeros(10, 3, 2) if x is None else x, zeros(10, 3, 1) if y is None else y
    return model.predict(x) if predict else model.fit(x, y, epochs=epochs)


def spiked(**prior):
    return spike_slab_regression(normal(9, 2), normal(9, seed=1), **prior)


def pooled(pool=None, start=None, steps=5):
    pool, start = zeros(3) if pool is None else pool, zeros(2) if start is None else start
    return pooled_metropolis_hastings(IndependentDiscriminator(nn.Identity()), pool, start, steps)


def inverted(rows, width, **settings):
    return invert(nn.Linear(3, 8), zeros(rows, width), 3, **settings)


def attacked(x=None, y=None, model=None, attack=fgsm, **settings):
    x = 0.3 + 0.4 * torch.rand(8, 6, dtype=torch.float64) if x is None else x
    model = mlp((6, 16, 4), "tanh").double() if model is None else model
    return attack(model, x, y, **({"size": 0.1} | settings))


def batch(*shape):
    return torch.rand(shape or (12, 3, 10, 8)) + 0.1


GOOD, HOLED = normal(20, 6), normal(20, 6).index_put((torch.tensor(3), torch.tensor(3)), t(NAN))
LAWS = torch.softmax(normal(4, 3), -1)
TARGET, PROPOSAL = LAWS[0], LAWS[1:]
CHANGES = [RandomCrop(4), RandomHorizontalFlip(), RandomRotation(15.0), RandomErasing(0.5, value=0.4)]
PLAIN = Normalize(0.0, 1.0)
LABELS, RUNS, METRICS = torch.arange(8) % 4, (1.0, 1.1, 1.2, 1.3), ["rmse_test", "rmse_train", "sparsity", "coverage"]

REFUSED = {
    "adversarial proposals": [
        (lambda: adversarial(objective="gan"), "acceptance, symmetric_kl"),
        *[(lambda n=n: adversarial(**{n: 0}), f"{n} is 0")
          for n in ("latent_dim", "num_steps", "batch_size", "score_steps", "learning_rate")],
        (lambda: adversarial(zeros(0, 1)), "count >= 1"),
        (lambda: adversarial(zeros(20)), "count >= 1"),
        (lambda: adversarial(torch.randn(20, 3)), r"generator returns points \(1,\), but the samples are \(3,\)"),
        (lambda: adversarial(score=nn.Linear(1, 3), num_steps=1, batch_size=4), "one number each"),
        (lambda: adversarial(torch.full((20, 1), NAN)), "is nan at step", DivergedError),
        *[(lambda b=b: acceptance_lower_bound(b), "divergence is") for b in (-0.1, INF, NAN, t(1.0, -1.0))],
    ],
    "the adaptive optimizer": [
        (lambda: adaptive.expected_curvature(ones(2, 3), estimator="stein"), "noise and scale"),
        (lambda: adaptive.expected_curvature(ones(2, 3), estimator="hutchinson"), "estimator is 'hutchinson'"),
        *[(lambda a=a: adaptive.mean_step(*ones(3, 1), 0.1, a), "alpha is") for a in (0.0, 0.75, 2.0, NAN)],
    ],
    "batch statistics": [
        (lambda: naive(batch_size=1), "batch_size is 1, but it must be an integer of at least 2"),
        (lambda: naive(train=normal(48, 3), batch_size=50), "at least batch_size - 1 = 49 rows"),
        (lambda: naive(train=normal(60, 4)), "of the same shape"),
        (lambda: naive(x=normal(0, 3)), "at least one row"),
        (lambda: naive(nn.Linear(3, 2).double()), "Linear has no batch norm"),
        (lambda: collect_statistics(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), []), "batches is empty"),
        (lambda: predict_stored_batches(nn.Linear(3, 2), zeros(2, 3), {}, 3, "unit"), "together is 'unit'"),
        (lambda: sbn.bound(zeros(3, 4)), "belong together"),
        (lambda: sbn.bound(zeros(3, 4), zeros(3)), r"must be \(K, n\) and \(n,\)"),
        *[(lambda m=m: m(0.0), "width is 0") for m in (preact_resnet18, vgg11)],
        *[(lambda m=m: m(1.0, 0), "classes is 0") for m in (preact_resnet18, vgg11)],
        *[(lambda m=m, s=s: m(*s), "probability is 1")
          for m, s in ((preact_resnet18, (0.1, 10, 1.0)), (vgg11, (0.1, 10, (0.5, 1.0))), (lenet5_batch_norm, (1.0,)))],
        (lambda: vgg11(0.1, 10, 0.5), "dropout is 0.5"),
        (lambda: vgg11(0.1, 10, (0.5,)), "two probabilities"),
    ],
    "dropout and probabilistic backpropagation": [
        *[(lambda b=b: posterior_of(probability=b), "probability is .*must lie between 0 and 1")
          for b in (-0.1, 1.1, NAN)],
        *[(lambda b=b: posterior_of(probability=b), "probability is 1, which drops everything")
          for b in (1.0, torch.tensor([0.1, 1.0, 0.2]))],
        *[(lambda s=s: StackedPBP(s, 2), "one output") for s in ((4,), (4, 5, 2))],
        (lambda: StackedPBP((4, 1), 0), "replicates is 0"),
        (lambda: StackedPBP((4, 0, 1), 2), "a layer width is 0"),
        *[(lambda x=x, y=y: pbp(zeros(*x), zeros(*y)), "stack your data sets along the second") for x, y in (
            ((10, 2, 2), (10, 3, 1)), ((3, 10, 2), (3, 10, 1)), ((10, 3, 2), (10, 3)), ((0, 3, 2), (0, 3, 1)))],
        (lambda: pbp(epochs=0), "epochs is 0"),
        (lambda: pbp(predict=True), "rows of replicate r are x"),
    ],
    "what paths cannot pass": [
        (lambda: importance(linear(3, 2), nn.ReLU(), nn.Linear(2, 1)), "2 is a Linear, which has no", TypeError),
        (lambda: importance(bnn.GaussianLinear(3, 2)), "0 is a GaussianLinear, which has no", TypeError),
        (lambda: importance(nn.Sequential(linear(3, 3), Residual())), r"0\.1 is a Residual.*Sequential", TypeError),
        (lambda: importance(linear(3, 2), nn.GLU()), "1 is a GLU", TypeError),
        (lambda: importance(linear(3, 4), nn.Unflatten(1, (1, 2, 2)), conv(1, 1, 1)), "1 is a Unflatten", TypeError),
        (lambda: importance(linear(3, 2), Dropout(0.1)), r"1 is a Dropout.*passes=\(Dropout,\)", TypeError),
        (lambda: importance(nn.ReLU()), "no layer with inclusion probabilities"),
        (lambda: importance(linear(3, 4), linear(5, 1)), "1 reads 5 units, but the layer before it has 4"),
        (lambda: importance(linear(3, 2), nn.Flatten(), linear(4, 1)), "2 reads 4 units"),
        (lambda: importance(conv(1, 4, 3), linear(4, 2)), r"1 reads 4.*positions.*nn\.Flatten"),
        (lambda: importance(conv(1, 4, 3), nn.Flatten(), linear(10, 2)), "2 reads 10 units"),
        # where parameters join inputs nothing is offered to be let through
        *[(lambda p=p: importance(linear(3, 3), Conv1D(), passes=p),
           r"(?s)^(?!.*passes=).*1 is a Conv1D, whose parameters join inputs", TypeError) for p in ((), (Conv1D,))],
    ],
    "foundations": [
        (lambda: all_models(13), r"2\^13"),
        (lambda: spiked(spike_scale=1.0), "spike_scale"),
        (lambda: spiked(inclusion=1.0), "inclusion"),
        (lambda: gibbs(spiked(), chains=1, sweeps=10, burn_in=0), "chains"),
        (lambda: mean_field.single_input(0.01, 100, 0.5), "already above"),
        (lambda: mean_field.coordinate_ascent(spiked(spike_scale=0.1)), "Dirac"),
        (lambda: mean_field.independent_fixed_point(spiked()), "positive width"),
        (lambda: mean_field.relaxed_fixed_point(spiked(), 0.0), "temperature"),
        (lambda: R.linear_posterior(normal(9, 2), normal(9), 0.0), "noise_scale"),
        (lambda: R.linear_posterior(normal(9, 2), normal(8)), "shape"),
        (lambda: R.correlated_inputs((5, 2), 1.0), "correlation"),
        (lambda: R.correlated_inputs((5, 2), 0.5, orthogonal=True), "orthogonal"),
    ],
    "generators": [
        (lambda: inverted(0, 8), "at least one"),
        (lambda: inverted(5, 7), r"\(8,\).*\(7,\)"),
        (lambda: inverted(5, 8, start=zeros(4, 3)), r"\(4, 3\).*\(5, 3\)"),
        (lambda: inverted(5, 8, steps=0), "steps"),
        *[(lambda b=b: b((1, 30)), r"side is 30.*28 or 32") for b in (lambda *a: dcgan_generator(5, *a), dcgan_critic)],
        *[(lambda b=b: b((1, 28), 0), "width") for b in (lambda *a: dcgan_generator(5, *a), dcgan_critic)],
        (lambda: dcgan_generator(0), "latent_dim"),
        (lambda: gan(1, data=torch.rand(5, 3, 32, 32)), r"\(1, 28, 28\).*\(3, 32, 32\)"),
        (lambda: gan(1, critic_steps=0), "critic_steps"),
        (lambda: gan(1, penalty=-1.0), "penalty"),
        (lambda: vae(1, likelihood="laplace"), "bernoulli, gaussian"),
        (lambda: vae(1, data=images() * 255), r"\[0, 1\]"),
        *[(lambda f=f: f(1, data=images()[:0]), "n > 0") for f in (gan, vae)],
        *[(lambda f=f: f(2, data=images() * NAN), "nan", (DivergedError, ValueError)) for f in (gan, vae)],
    ],
    "chains over a pool, and their quality": [
        (lambda: pooled(steps=0), "num_steps"),
        (lambda: pooled(zeros(0)), "pool"),
        (lambda: pooled(start=zeros(0)), "start"),
        (lambda: pooled(start=zeros(4, 2)), r"pool have shape \(\) and those of the start \(2,\).*shape of the data"),
        (lambda: pooled(torch.full((3,), NAN)), "gave NaN", DivergedError),
        *[(lambda m=m, g=g: m(*g), words)
          for m in (quality.frechet_distance, quality.precision_recall, quality.density_coverage)
          for g, words in (((GOOD, GOOD[:, :5]), r"\(20, 6\) and generated \(20, 5\)"),
                           ((GOOD[0], GOOD[0]), r"\(n, d\)"), ((GOOD, GOOD[:1]), "Generate more"),
                           ((GOOD, HOLED), "generated has 1 NaN"))],
        (lambda: quality.classifier_score(ones(3, 4)), "sum to 1"),
        (lambda: quality.precision_recall(GOOD, GOOD + 1, 0), "neighbors"),
        (lambda: quality.bootstrap_error(lambda rows: 0.0, ones(3), repeats=1), "repeats"),
    ],
    "learned priors": [
        (lambda: cnn_two_conv(1.0), "which drops everything"),
        (lambda: cnn_two_conv(-0.1), "between 0 and 1"),
        (lambda: cnn_batch_norm((0.1,)), "two probabilities"),
        (lambda: aeb.gaussian_variance("HMC", 0.1), "use one of SGLD"),
        (lambda: aeb.discretization_bias({"HMC": ([0.1], [1.0])}), r"measured names \['HMC'\]"),
        (lambda: Team(torch.device("cpu"), 0, 5).share(zeros(12)), "batch of 12 cannot be divided among 5 devices"),
        (lambda: launch(print, devices=0), "devices is 0"),
        (lambda: launch(print, devices=torch.cuda.device_count() + 2, device="cuda"), r"there are \d+ GPUs here"),
    ],
    "attacks": [
        (lambda: attacked(size=-0.1), "size is -0.1"),
        (lambda: attacked(model=[]), "empty sequence"),
        (lambda: attacked(3.0 * ones(8, 6).double()), "normalization inside the model"),
        (lambda: attacked(clip=(1.0, 0.0)), "clip is"),
        (lambda: attacked(y=LABELS + 9), "classes 0 to 3"),
        (lambda: attacked(y=LABELS.double()), "class numbers"),
        (lambda: attacked(zeros(8, 6).long()), "real numbers"),
        (lambda: attacked(model=nn.Linear(6, 1).double()), "at least two classes"),
        (lambda: attacked(model=lambda z: z[:, :4] * NAN), "not finite"),
        (lambda: attacked(attack=pgd, steps=0), "steps is 0"),
        (lambda: attacked(attack=pgd, step_size=0.0), "step_size is 0"),
    ],
    "augmentation": [
        *[(lambda a=a: a(batch()[0]), r"x\[None\]") for a in (*CHANGES, PLAIN)],
        *[(lambda a=a: a(batch().to(torch.uint8)), "255") for a in (*CHANGES[2:], PLAIN)],
        *[(lambda a=a: a(batch().to("meta"), generator=seeded()), "generator lives on cpu")
          for a in (*CHANGES, Compose(CHANGES))],
        (lambda: RandomCrop(0), "padding is 0"),
        (lambda: RandomHorizontalFlip(1.5), "p is 1.5"),
        (lambda: RandomRotation(-1.0), "degrees is -1"),
        (lambda: RandomRotation(5.0, "cubic"), "nearest, bilinear"),
        (lambda: RandomErasing(scale=(0.4, 0.02)), "scale is"),
        (lambda: RandomErasing(scale=(0.4, 2.0)), "scale"),
        (lambda: RandomErasing(ratio=(0.0, 1.0)), "ratio"),
        (lambda: Normalize(0.0, 0.0), "std"),
        (lambda: Normalize((0.0, 0.0), 1.0)(batch()), "mean has 2 values.*3 channels"),
        (lambda: RandomErasing(value=(0.0, 0.0))(batch()), "value has 2 values"),
    ],
    "networks": [
        (lambda: mlp((3,)), "at least an input"),
        (lambda: mlp((3, 0, 1)), "sizes is 0"),
        (lambda: mlp((3, 1), "swish"), "'swish'.*'relu', 'tanh'"),
        (lambda: resnet(21), "multiple of 6"),
        (lambda: resnet(2), "at least 8"),
        (lambda: resnet(20, 0), "width is 0"),
        (lambda: resnet(20, 16, 0), "classes is 0"),
        (lambda: resnet18(0), "width is 0"),
        *[(lambda w=w: vgg_like(w), f"width is {w:g}") for w in (0.0, -1.0, NAN)],
        (lambda: vgg_like(0.1, classes=0), "classes is 0"),
    ],
    "simulated data": [
        (lambda: simulated.two_inputs(10, 1.5), "alpha is 1.5"),
        (lambda: simulated.two_inputs(0, 0.5), "at least 1"),
        (lambda: simulated.dense_teacher(0), "at least 1"),
        (lambda: simulated.graded_regression(10, 0, 1.0), "num_inputs"),
        (lambda: simulated.graded_regression(10, 5, 0.0), "alpha is 0"),
        (lambda: simulated.graded_regression(10, 5, 1.0, activity=-0.1), "activity is -0.1"),
        (lambda: simulated.graded_regression(10, 5, 1.0, function="cubic"), "linear, nonlinear"),
        (lambda: simulated.simulation_two(10, seeded(), "gaussian"), "uniform, normal"),
    ],
    "finite chains": [
        (lambda: check_kernel(PROPOSAL[0]), r"\.\.\., n, n"),
        *[(lambda b=b: mh_kernel(TARGET, PROPOSAL * b), "no distributions") for b in (1.1, -1.0, NAN)],
        *[(lambda f=f, b=b: f(b, PROPOSAL), "positive entries") for f in (mh_kernel, acceptance_rate)
          for b in (TARGET * 2.0, t(0.5, 0.5, 0.0), TARGET * NAN)],
        *[(lambda b=b: implicit_kernel(PROPOSAL, b), "discriminator")
          for b in (zeros(3, 3), torch.full((3, 3), NAN), -ones(3, 3))],
        (lambda: acceptance_kernel(PROPOSAL, 2.0 * ones(3, 3)), "acceptance is"),
    ],
    "spike and slab": [
        (lambda: LinearModel(torch.eye(13), ones(13)).posterior(), "13 coefficients make 2"),
        (lambda: LinearModel(torch.eye(2), ones(2)).fit("score"),
         "use one of 'exact', 'straight-through', 'inverse CDF'"),
        (lambda: GateChains(zeros(2, 1), zeros(2), zeros(1, 4), (1, 1, 1), 0.5, 1.0, seeded()), "two hidden layers"),
        (lambda: prune_stacked(_posterior(), 0.99), "one for each of the 3 layers"),
        (lambda: results.unpack(np.zeros(5), (4, 3, 2, 1)), r"has 5 entries, but sizes \(4, 3, 2, 1\) need 26"),
        (lambda: forest([row(values=RUNS)], "rmse_test", settings=["b"]), "the rows have: "),
        (lambda: forest([row(values=RUNS)], "accuracy"), "the rows have: "),
        (lambda: forest([row(metric=m, values=RUNS) for m in METRICS], METRICS), "at most 3"),
    ],
}  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)

"""Inversion of a generator, and calibration of a discriminator."""

import pytest
import torch
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from torch import nn

from bnnlib.mcmc import IndependentDiscriminator, MarkovDiscriminator, calibrate, invert, isotonic_regression


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_inversion_of_a_linear_generator_is_least_squares():
    torch.manual_seed(0)
    decoder = nn.Linear(3, 8)
    images = torch.randn(50, 8, generator=generator(1))
    with torch.no_grad():
        exact = torch.linalg.lstsq(decoder.weight, (images - decoder.bias).T).solution.T
    before = [p.clone() for p in decoder.parameters()]
    found = invert(decoder, images, 3, steps=800, learning_rate=0.3, batch_size=20, generator=generator(2))
    assert torch.allclose(found.latents, exact, atol=1e-3)
    with torch.no_grad():
        assert torch.allclose(found.errors, (decoder(found.latents) - images).square().mean(dim=1), atol=1e-6)
    assert all(p.grad is None and torch.equal(p, old) for p, old in zip(decoder.parameters(), before, strict=True))
    ridge = invert(decoder, images, 3, steps=300, penalty=1.0, generator=generator(2))
    assert ridge.latents.norm() < found.latents.norm()


def test_inversion_begins_where_it_is_told():
    decoder, images, start = nn.Linear(3, 8), torch.zeros(5, 8), torch.ones(5, 3)
    found = invert(decoder, images, 3, steps=1, learning_rate=1e-6, start=start)
    assert torch.allclose(found.latents, start, atol=1e-5) and torch.equal(start, torch.ones(5, 3))


def test_bad_input_of_inversion_is_named():
    decoder, images = nn.Linear(3, 8), torch.zeros(5, 8)
    with pytest.raises(ValueError, match="at least one"):
        invert(decoder, images[:0], 3)
    with pytest.raises(ValueError, match=r"\(8,\).*\(7,\)"):
        invert(decoder, torch.zeros(5, 7), 3)
    with pytest.raises(ValueError, match=r"\(4, 3\).*\(5, 3\)"):
        invert(decoder, images, 3, start=torch.zeros(4, 3))
    with pytest.raises(ValueError, match="steps"):
        invert(decoder, images, 3, steps=0)


def test_pooling_is_that_of_scikit_learn():
    for seed in range(20):
        values = torch.randn(60, generator=generator(seed), dtype=torch.float64)
        weights = torch.rand(60, generator=generator(seed + 100), dtype=torch.float64) + 0.1
        theirs = IsotonicRegression().fit(range(60), values, weights).predict(range(60))
        assert torch.allclose(isotonic_regression(values, weights), torch.as_tensor(theirs), atol=1e-12)


def scores(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Data and proposals whose true logit is 2 x, while the network says 6 x - 1: overconfident and shifted."""
    x = torch.randn(count, generator=generator(seed))
    labels = torch.rand(count, generator=generator(seed + 1)) < torch.sigmoid(2 * x)
    return x[labels], x[~labels]


class Overconfident(nn.Module):
    def forward(self, points):
        return 6 * points - 1


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibration_gives_the_true_probability(method):
    discriminator = IndependentDiscriminator(Overconfident(), 1e-6)
    data, proposed = scores(100_000, 1)
    better = calibrate(discriminator, data, proposed, method)
    grid = torch.linspace(-1.0, 1.0, 9)
    # classes have equal masses: the shift is the logarithm of their ratio
    truth = torch.sigmoid(2 * grid - torch.log(torch.tensor(len(data) / len(proposed))))
    assert (better(grid) - truth).abs().max() < 0.06  # isotonic steps of some hundreds of points
    assert (discriminator(grid) - truth).abs().max() > 0.25
    kept = {name: part for name, part in better.state_dict().items() if name in ("knots", "logits")}
    assert len(kept) == 2 and torch.isfinite(better.score(torch.tensor([-50.0, 50.0]))).all()
    assert (better.score(torch.linspace(-3, 3, 200)).diff() >= 0).all()


def test_platt_is_a_logistic_regression():
    discriminator = IndependentDiscriminator(Overconfident(), 1e-6)
    data, proposed = scores(2000, 3)
    x = torch.cat([discriminator.score(data), discriminator.score(proposed)])
    labels = torch.cat([torch.ones(len(data)), torch.zeros(len(proposed))])
    theirs = LogisticRegression(C=1e8, class_weight="balanced", tol=1e-10).fit(x[:, None].numpy(), labels.numpy())
    better = calibrate(discriminator, data, proposed, "platt")
    grid = torch.linspace(-1, 1, 5)
    line = discriminator.score(grid) * float(theirs.coef_[0, 0]) + float(theirs.intercept_[0])
    assert torch.allclose(better.score(grid), line, atol=5e-3)  # their solver stops earlier


def test_bad_input_of_calibration_is_named():
    discriminator, x = IndependentDiscriminator(nn.Flatten(0), 0.1), torch.zeros(5)
    with pytest.raises(ValueError, match="isotonic, platt"):
        calibrate(discriminator, x, x, "beta")
    with pytest.raises(ValueError, match="at least one row"):
        calibrate(discriminator, x[:0], x)
    with pytest.raises(ValueError, match="5 of 10 scores are NaN"):
        calibrate(discriminator, x, x * float("nan"))
    constant = calibrate(discriminator, x, x)
    assert torch.allclose(constant(torch.tensor([-1.0, 0.0, 1.0])), torch.full((3,), 0.5))
    assert isinstance(MarkovDiscriminator(nn.Flatten(0), 0.1)(x, x), torch.Tensor)

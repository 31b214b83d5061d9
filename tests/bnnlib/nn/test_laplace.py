"""Laplace's method beside what is known exactly: linear regression, the whole Gauss-Newton matrix, identities."""

import json
import math

import pytest
import torch
from torch import nn

from bnnlib.nn import LaplaceNetwork, kl_divergence, mean_weights, predict, to_laplace
from tests.seeded import normal
from tests.seeded import seeded as generator

PRECISION, NOISE = 1.7, 0.3


def ridge(rows=40, inputs=3, outputs=2):
    """Data, and the linear model that is the mean of its exact posterior."""
    x, y = normal(rows, inputs), normal(rows, outputs, seed=1)
    y = y + x @ normal(inputs, outputs, seed=2)
    phi = torch.cat([x, torch.ones(rows, 1).double()], dim=1)
    precision = phi.T @ phi / NOISE**2 + PRECISION * torch.eye(inputs + 1).double()
    mean = torch.linalg.solve(precision, phi.T @ y) / NOISE**2
    model = nn.Linear(inputs, outputs).double()
    with torch.no_grad():
        model.weight.copy_(mean[:-1].T)
        model.bias.copy_(mean[-1])
    return x, y, phi, precision, model


def network(activation=nn.Tanh, outputs=3):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), activation(), nn.Linear(5, outputs)).double()


def jacobians(model, x, names):
    """(rows, K, weights), by PyTorch's own differentiation, layer by layer: each weight's rows, then its biases."""
    parameters = {name: p.detach() for name, p in model.named_parameters() if name in names}

    def outputs(chosen, row):
        return torch.func.functional_call(model, chosen, (row[None],))[0]

    found = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(parameters, x)
    return found, parameters


def exact_ggn(model, x, name, classes):
    """The Gauss-Newton matrix of one layer, in the order (outputs, inputs and bias)."""
    found, _ = jacobians(model, x, {f"{name}.weight", f"{name}.bias"})
    j = torch.cat([found[f"{name}.weight"].flatten(3), found[f"{name}.bias"][..., None]], dim=3).flatten(2)
    p = model(x).detach().softmax(dim=1)
    middle = torch.diag_embed(p) - p[:, :, None] * p[:, None] if classes else torch.eye(j.shape[1]).double()
    return (j.mT @ middle @ j).sum(dim=0)


def covariance(posterior):
    turned = posterior.eigenvectors * posterior._scale()
    return turned @ turned.T


def test_a_linear_model_has_its_exact_posterior_predictive_and_evidence():
    x, y, phi, precision, model = ridge()
    settings = {"prior_precision": PRECISION, "noise_scale": NOISE, "batch_size": 7}
    posterior = to_laplace(model, (x, y), "regression", **settings)
    expected = torch.linalg.inv(precision)
    exact = torch.block_diag(expected, expected)
    torch.testing.assert_close(covariance(posterior), exact, rtol=1e-10, atol=1e-14)
    new = normal(6, 3, seed=5)
    mean, std = posterior.predictive(new)
    features = torch.cat([new, torch.ones(6, 1).double()], dim=1)
    variance = torch.einsum("ni,ij,nj->n", features, expected, features) + NOISE**2
    torch.testing.assert_close(std, variance.sqrt()[:, None].expand(-1, 2), rtol=1e-10, atol=0)
    torch.testing.assert_close(mean, model(new).detach(), rtol=0, atol=0)
    # log N(y; 0, phi phi' / precision + noise^2), output by output
    marginal = torch.distributions.MultivariateNormal(
        torch.zeros(40).double(), phi @ phi.T / PRECISION + NOISE**2 * torch.eye(40).double()
    )
    assert posterior.log_evidence() == pytest.approx(float(marginal.log_prob(y.T).sum()), rel=1e-10)
    # what training would minimize, at its optimum: -evidence = -E[log likelihood] + KL
    expected_error = posterior._fit + 40 * float((torch.einsum("ni,ij,nj->n", phi, expected, phi) * 2).mean())
    elbo = -0.5 * (expected_error / NOISE**2 + 80 * math.log(2 * math.pi * NOISE**2)) - float(kl_divergence(posterior))
    assert elbo == pytest.approx(posterior.log_evidence(), rel=1e-10)


@pytest.mark.parametrize("likelihood", ["classification", "regression"])
def test_the_last_layer_has_the_whole_gauss_newton_matrix(likelihood):
    model, x = network(), normal(30, 4)
    y = torch.arange(30) % 3 if likelihood == "classification" else normal(30, 3, seed=1)
    noise = {} if likelihood == "classification" else {"noise_scale": NOISE}
    posterior = to_laplace(model, (x, y), likelihood, prior_precision=PRECISION, batch_size=8, **noise)
    ggn = exact_ggn(model, x, "2", likelihood == "classification") / posterior.noise_scale**2
    exact = torch.linalg.inv(ggn + PRECISION * torch.eye(18).double())
    torch.testing.assert_close(covariance(posterior), exact, rtol=1e-9, atol=1e-13)
    found, _ = jacobians(model, x, {"2.weight", "2.bias"})
    j = torch.cat([found["2.weight"], found["2.bias"][..., None]], dim=3).flatten(2)
    spread = posterior.linearized(x)[1]
    torch.testing.assert_close(spread, j @ exact @ j.mT, rtol=1e-9, atol=1e-13)


def test_the_closed_form_of_two_classes_is_the_probit_s_and_of_more_near_what_it_approximates():
    model, x = network(outputs=2), normal(30, 4)
    posterior = to_laplace(model, (x, (x[:, 0] > 0).long()), prior_precision=PRECISION)
    mean, spread = posterior.linearized(x)
    gap, v = mean[:, 1] - mean[:, 0], spread[:, 0, 0] + spread[:, 1, 1] - 2 * spread[:, 0, 1]
    expected = torch.sigmoid(gap / (1 + math.pi / 8 * v).sqrt())
    torch.testing.assert_close(posterior.predictive(x)[:, 1], expected)
    more = to_laplace(network(), (x, torch.arange(30) % 3), prior_precision=PRECISION)
    mean, spread = more.linearized(x)
    values, vectors = torch.linalg.eigh(spread)
    noise = torch.randn(20_000, *mean.shape, dtype=mean.dtype, generator=generator(2))
    root = vectors * values.clamp_min(0.0).sqrt()[:, None]
    sampled = (mean + (root @ noise[..., None])[..., 0]).softmax(dim=-1).mean(dim=0)
    assert (more.predictive(x) - sampled).abs().max() < 0.03  # the approximation; draws add 0.004 at most
    torch.testing.assert_close(sampled.sum(dim=1), torch.ones(30).double())
    # logits that are far apart do not overflow
    with torch.no_grad():
        more.network[2].bias.copy_(torch.tensor([1e4, 0.0, -1e4]))
    assert more.predictive(x).isfinite().all()


@pytest.mark.slow
def test_draws_have_the_mean_and_covariance_of_the_posterior():
    x, y, _, _, model = ridge()
    posterior = to_laplace(model, (x, y), "regression", prior_precision=PRECISION, noise_scale=NOISE)
    draws = predict(posterior, x[:3], 5_000, generator=generator(1))
    mean, spread = posterior.linearized(x[:3])
    scale = spread.diagonal(dim1=1, dim2=2).sqrt()
    # five standard errors of a mean, and of a variance, of 5,000 draws
    assert ((draws.mean(dim=0) - mean).abs() < 5 * scale / 5_000**0.5).all()
    assert ((draws.var(dim=0) / scale**2 - 1).abs() < 5 * (2 / 5_000) ** 0.5).all()
    # the same weights; a product of more rows may round in another way
    torch.testing.assert_close(
        predict(posterior, x, 2, generator=generator(1))[:, :3], draws[:2], rtol=1e-12, atol=1e-12
    )
    with mean_weights(posterior):
        assert torch.equal(posterior(x), model(x))


@pytest.mark.parametrize("likelihood", ["classification", "regression"])
def test_the_evidence_is_largest_at_what_it_chooses(likelihood):
    model, x = network(), normal(60, 4)
    y = (x[:, 0] > 0).long() if likelihood == "classification" else model(x).detach() + 0.2 * normal(60, 3, seed=4)
    posterior = to_laplace(model, (x, y), likelihood)
    best, precision, noise = posterior.log_evidence(), posterior.prior_precision, posterior.noise_scale
    assert 1e-6 < precision < 1e6
    for factor in (0.99, 1.01):
        posterior.prior_precision = factor * precision
        assert posterior.log_evidence() < best
        posterior.prior_precision = precision
        if likelihood == "regression":
            assert 0.15 < noise < 0.25  # the noise that was put in
            posterior.noise_scale = factor * noise
            assert posterior.log_evidence() < best
            posterior.noise_scale = noise


def test_batches_are_the_same_data_and_one_without_rows_changes_nothing():
    model, x = network(), normal(20, 4)
    y = torch.arange(20) % 3
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=6)
    one, other = (to_laplace(model, data) for data in ((x, y), [(x[:0], y[:0]), *loader]))
    torch.testing.assert_close(one.predictive(x), other.predictive(x), rtol=1e-9, atol=0)
    assert one.log_evidence() == pytest.approx(other.log_evidence(), rel=1e-12)


def test_the_network_is_left_as_it_is_and_state_travels():
    model, x = network().train(), normal(20, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    posterior = to_laplace(model, (x, torch.arange(20) % 3))
    assert model.training and all(p.requires_grad for p in model.parameters()) and not model[0]._forward_hooks
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    other = to_laplace(network(), (2 * x, torch.zeros(20).long()))
    other.load_state_dict(posterior.state_dict())
    assert other.prior_precision == posterior.prior_precision and other.log_evidence() == posterior.log_evidence()
    assert torch.equal(*(predict(one, x, 3, generator=generator(2)) for one in (posterior, other)))
    assert isinstance(posterior.float(), LaplaceNetwork) and predict(posterior, x.float(), 2).dtype == torch.float32


def test_a_state_from_before_it_held_the_loss_has_no_evidence():
    x, y, _, _, model = ridge()
    posterior = to_laplace(model, (x, y), "regression", noise_scale=NOISE)
    state = posterior.state_dict()
    settings = {"prior_precision": 2.0, "noise_scale": NOISE}
    state["_extra_state"] = torch.tensor(list(json.dumps(settings).encode()), dtype=torch.uint8)
    posterior.load_state_dict(state)
    assert posterior.prior_precision == 2.0 and posterior.predictive(x)[0].isfinite().all()
    with pytest.raises(ValueError, match=r"does not hold the loss.*to_laplace"):
        posterior.log_evidence()


def test_the_network_stays_in_eval_in_training():
    model = nn.Sequential(nn.Linear(4, 5), nn.Dropout(), nn.Linear(5, 3)).double()
    posterior = to_laplace(model, (normal(20, 4), torch.arange(20) % 3)).train()
    assert posterior.training and not any(module.training for module in posterior.network.modules())


def test_labels_of_any_whole_type_and_probabilities_are_read():
    model, x = nn.Sequential(nn.Linear(4, 2)), torch.randn(12, 4)
    labels = torch.arange(12) % 2
    evidence = [
        to_laplace(model, (x, y)).log_evidence()
        for y in (labels, labels.bool(), labels.int(), nn.functional.one_hot(labels).float())
    ]
    assert evidence == pytest.approx([evidence[0]] * 4)

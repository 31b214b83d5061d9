"""Experiments 1-4 of Saha et al.: the cells' rows, metrics, and problems with a known answer."""

import dataclasses
import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch

from book import lab
from chapters.closed_form.experiments import selection
from chapters.closed_form.experiments import simulation_nets as nets
from chapters.closed_form.experiments import simulations as sims

CPU = torch.device("cpu")
EXPERIMENTS = {experiment.name: experiment for experiment in [*sims.EXPERIMENTS, *selection.EXPERIMENTS]}
SMOKE = [(name, cell) for name, one in EXPERIMENTS.items() for cell in one.profiles["smoke"]()]
RAN: dict = {}


def _run(name: str, cell):
    """What a cell gives, once for all tests that look at it."""
    key = name, cell.setting, cell.method, repr(cell.params)
    if key not in RAN:
        RAN[key] = EXPERIMENTS[name].function(cell)(cell, CPU, None)
    return RAN[key]


def _values(rows, method: str, metric: str) -> dict[tuple[str, int], float]:
    return {(r["setting"], r["replicate"]): r["value"] for r in rows if r["method"] == method and r["metric"] == metric}


@pytest.mark.parametrize(("name", "cell"), SMOKE, ids=[f"{name}: {cell.label}" for name, cell in SMOKE])
def test_a_cell_has_one_finite_row_for_every_setting_method_replicate_and_metric(name, cell):
    rows = _run(name, cell).rows
    assert rows
    assert all(math.isfinite(row["value"]) for row in rows)
    assert {row["replicate"] for row in rows} == set(cell.replicates)
    keys = Counter((row["setting"], row["method"], row["replicate"], row["metric"]) for row in rows)
    assert set(keys.values()) == {1}


def test_rows_have_the_names_that_the_figures_read():
    first = _run("sbnn-influence", EXPERIMENTS["sbnn-influence"].profiles["smoke"]()[0]).rows
    assert {r["setting"] for r in first} == {f"alpha={a:g}" for a in sims.ALPHAS_1} | {"all alpha"}
    both = {"psi_1", "psi_2", "share_2", "influence", "spearman_1", "spearman_2", "pearson_2"}
    assert {r["metric"] for r in first} == both
    other = _run("sbnn-influence", EXPERIMENTS["sbnn-influence"].profiles["smoke"]()[1]).rows
    assert {r["setting"] for r in other} == {f"{r['setting']}, log tau1=-1, log tau0=-1.5" for r in first}
    third = [r for cell in EXPERIMENTS["sbnn-selection"].profiles["smoke"]() for r in _run("sbnn-selection", cell).rows]
    rules = {"BNN-VS-CV", "BNN-VS, true share", "BNN, inputs of LM", "keep all", "keep none"}
    assert {r["method"] for r in third} == {"NN", "NN-Dr", "LM", "BNN", "BNN-VS"} | rules
    assert {"D=10, alpha=2, pi=0.2", "D=10, alpha=2, pi=0.9", "D=20, alpha=2, pi=0.2"} < {r["setting"] for r in third}
    assert _values(third, "BNN-VS-CV", "detected_share").keys() == {("cv, pi=0.2", 0), ("cv, pi=0.2", 1)}


def test_book_has_the_papers_sizes():
    for experiment in EXPERIMENTS.values():
        for cell in experiment.profiles["book"]():
            assert cell.params["num_samples"] == 2_000
    cells = EXPERIMENTS["sbnn-selection"].profiles["book"]()
    series = next(cell for cell in cells if cell.setting == "D=100" and cell.method == "BNN-VS").params["cases"]
    assert {pi for alpha, pi in series if alpha == 2} == {round(0.05 * k, 2) for k in range(20)}
    assert {alpha for alpha, pi in series if pi == 0.2} == set(range(1, 11))
    paper = EXPERIMENTS["sbnn-selection"].profiles["paper"]()
    assert {cell.params["folds"] for cell in paper if cell.method == "BNN-VS-CV"} == {10}


def test_data_of_a_replicate_do_not_depend_on_the_others_or_on_the_setting():
    cell = next(c for c in EXPERIMENTS["sbnn-selection"].profiles["smoke"]() if c.method == "BNN-VS")
    data = selection._data(cell, CPU)
    alone = selection._data(dataclasses.replace(cell, replicates=(1,)), CPU)
    # cases vary slowest: networks 0, 1 are case 0, networks 2, 3 are case 1
    assert torch.equal(data.x[:, 1], alone.x[:, 0])
    # the mean of the targets is summed in another order in a wider stack: a few roundings of float32
    assert torch.allclose(data.y[:, 3], alone.y[:, 1], atol=1e-5)
    assert torch.equal(data.x[:, 1], data.x[:, 3])
    assert not torch.equal(data.x[:, 0], data.x[:, 1])
    active = data.effects != 0
    assert bool((active[0] <= active[2]).all())  # more active inputs with pi, never others


def test_targets_are_standardized_by_the_training_rows_alone():
    x, y, effects = nets.graded_set(0, 100, 5, 2.0)
    y[80:] += 1e6
    data = nets.stack([(x, y, effects)], 80)
    assert data.y.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert data.y.std().item() == pytest.approx(1.0, abs=1e-5)
    assert data.test_y.mean().item() > 1e3
    assert (len(data.x), data.test_x.shape) == (80, (1, 20, 5))


def test_selection_accuracy_kept_inputs_and_columns_by_hand():
    score = torch.tensor([[0.1, 0.9, 0.3, 0.8, 0.0]])
    kept = nets.keep_top(score, 0.4)
    assert kept.tolist() == [[1, 3]]
    assert nets.keep_top(score, 0.01).tolist() == [[1]]  # at least one
    # kept 1 and 3, active 1 and 2: inputs 0, 1 and 4 agree
    effects = torch.tensor([[0.0, 2.0, 3.0, 0.0, 0.0]])
    assert nets.selection_accuracy(kept, effects).tolist() == [pytest.approx(60.0)]
    x = torch.arange(15.0).view(3, 1, 5)
    data = nets.columns(nets.Data(x, x[..., :1], x.transpose(0, 1), x[..., :1].transpose(0, 1), effects), kept)
    assert torch.equal(data.x, x[..., [1, 3]])
    assert torch.equal(data.test_x, x.transpose(0, 1)[..., [1, 3]])


def test_correlation_and_trends_by_hand():
    a, b = torch.randn(2, 30, generator=torch.Generator().manual_seed(0)), torch.linspace(0, 1, 30)
    assert nets.correlation(a, b).numpy() == pytest.approx([np.corrcoef(row, b)[0, 1] for row in a.numpy()], abs=1e-6)
    rising = torch.tensor([[0.0, 5.0], [1.0, 4.0], [2.0, 6.0]]).flatten()  # (alphas, replicates), replicates fastest
    metrics = {"psi_1": -rising, "psi_2": rising, "influence": torch.tensor([0.1, 0.2, 0.3]).repeat_interleave(2)}
    found = sims.trends(metrics, 2)
    assert found["spearman_2"].tolist() == pytest.approx([1.0, 0.5])  # ranks 1, 0, 2 against 0, 1, 2
    assert found["spearman_1"].tolist() == pytest.approx([-1.0, -0.5])


def test_the_shape_of_the_importances_by_hand():
    kept = {
        ("nonlinear, D=3", "sBNN", 0, "phi/nonlinear, D=3, alpha=1"): np.float16([[0, 0, 1], [0, 1, 1], [0, 0.5, 1]])
    }
    rows = sims.shapes(kept)
    found = _values(rows, "sBNN", "importance_skewness")
    where = "nonlinear, D=3, alpha=1"
    assert found == pytest.approx({(where, 0): 0.5**0.5, (where, 1): -(0.5**0.5), (where, 2): 0.0})
    assert EXPERIMENTS["sbnn-importance"].derived is sims.shapes


def test_folds_hold_out_every_row_once_and_refuse_unequal_ones():
    x = torch.arange(12.0).view(12, 1, 1)
    data = nets.Data(x, x, x.transpose(0, 1), x.transpose(0, 1), torch.ones(1, 1))
    split = selection.folds(data, 3)
    assert (split.x.shape, split.test_x.shape) == ((8, 3, 1), (3, 4, 1))
    assert sorted(split.test_x.flatten().tolist()) == x.flatten().tolist()
    for k in range(3):
        assert not set(split.x[:, k].flatten().tolist()) & set(split.test_x[k].flatten().tolist())
    with pytest.raises(ValueError, match="12 rows do not divide into 5"):
        selection.folds(data, 5)


def test_the_kept_share_is_chosen_without_the_test_rows():
    cell = next(c for c in EXPERIMENTS["sbnn-selection"].profiles["smoke"]() if c.method == "BNN-VS-CV")
    data = selection._data(cell, CPU)
    spoiled = data._replace(test_x=data.test_x * math.nan, test_y=data.test_y * math.nan)
    build = partial(nets.sbnn, prior=cell.params["prior"])
    curves = [
        selection.validation_errors(
            d, nets.Trainings(None, CPU, 54), build, cell.params, torch.Generator().manual_seed(1)
        )
        for d in (data, spoiled)
    ]
    assert torch.equal(*curves)
    assert curves[0].shape == (len(selection.SHARES), 2, 2)


def test_a_second_network_has_the_inputs_of_the_linear_model():
    (cell,) = [one for one in EXPERIMENTS["sbnn-selection"].profiles["smoke"]() if one.method == "BNN, inputs of LM"]
    found = _values(_run("sbnn-selection", cell).rows, cell.method, "mse_train")
    assert found.keys() == {(f"D=10, alpha=2, pi={pi}", k) for pi in (0.1, 0.2) for k in (0, 1)}
    data = selection._data(cell, CPU)
    size = np.stack([np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0][:-1, 0] for x, y in _sets(data)])
    kept = torch.tensor(np.argsort(-abs(size))[:, :2].copy())
    part = nets.columns(data, kept)
    build = partial(nets.sbnn, prior=cell.params["prior"])
    model, _ = nets.Trainings(None, CPU, 53).fit(build, part.x, part.y, cell.params)
    x, y = part.x.transpose(0, 1), part.y.transpose(0, 1)
    by_hand = nets.mse(model, x, y, torch.Generator().manual_seed(53)).tolist()
    assert [*found.values()] == pytest.approx(by_hand)


def _sets(data):
    return zip(data.x.transpose(0, 1).numpy(), data.y.transpose(0, 1).numpy(), strict=True)


def test_pruning_curve_equals_one_computed_by_hand():
    """The same networks, trained again, with the lowest p* of all layers and biases set to 0 by NumPy."""
    cell = EXPERIMENTS["sbnn-pruning"].profiles["smoke"]()[0]
    cell = dataclasses.replace(cell, params=cell.params | {"epochs": 40, "num_samples": 200})
    rows = _run("sbnn-pruning", cell).rows
    metrics = [row["metric"] for row in rows if row["method"] == "sBNN"]
    assert len({*metrics} - {"mse_test"}) == 20
    for order in ("signal-to-noise", "magnitude"):
        assert _values(rows, "sBNN", "mse_test_at_0") == _values(rows, order, "mse_test_at_0")
    data = selection._data(cell, CPU)
    build = partial(nets.sbnn, prior=cell.params["prior"])
    model, _ = nets.Trainings(None, CPU, 55).fit(build, data.x, data.y, cell.params)
    draws = nets.mse(model, data.test_x, data.test_y, torch.Generator().manual_seed(55)).tolist()
    assert [*_values(rows, "sBNN", "mse_test").values()] == pytest.approx(draws)
    mean, inclusion = model.posterior.mean().numpy(), model.posterior.inclusion_log_odds().numpy()
    for percent in (0, 50, 95):
        found = _values(rows, "sBNN", f"mse_test_at_{percent}")
        for k, (x, y) in enumerate(zip(data.test_x.numpy(), data.test_y.numpy(), strict=True)):
            flat = mean[k].copy()
            flat[np.argsort(inclusion[k])[: round(percent / 100 * len(flat))]] = 0.0
            h, at = x, 0
            for fan_in, fan_out in ((10, 20), (20, 10), (10, 1)):
                weight = flat[at : at + fan_in * fan_out].reshape(fan_out, fan_in)
                bias = flat[at + fan_in * fan_out : at + (fan_in + 1) * fan_out]
                at += (fan_in + 1) * fan_out
                h = h @ weight.T + bias
                h = np.maximum(h, 0.0) if fan_out > 1 else h
            assert found[cell.setting, k] == pytest.approx(np.mean((h - y) ** 2), rel=1e-4)


@pytest.mark.slow
def test_importance_finds_the_planted_inputs():
    """Six inputs of which two matter: phi ranks them first, and Algorithm 2 then predicts to the noise."""
    generator = torch.Generator().manual_seed(3)
    sets = []
    for _ in range(3):
        x = torch.randn(500, 6, generator=generator)
        y = 2.0 * x[:, 1:2].abs() - 3.0 * x[:, 4:5] + 0.1 * torch.randn(500, 1, generator=generator)
        sets.append((x, y, torch.tensor([0.0, 2.0, 0.0, 0.0, 3.0, 0.0])))
    data = nets.stack(sets, 400)
    params, training = nets.TRAINING | {"epochs": 200, "batch_size": 100}, nets.Trainings(None, CPU, 1)
    build = partial(nets.sbnn, prior=nets.PREDICT_PRIOR)
    model, _ = training.fit(build, data.x, data.y, params)
    kept = nets.keep_top(nets.importance(model), 1 / 3)
    assert nets.selection_accuracy(kept, data.effects).tolist() == [100.0] * 3
    part = nets.columns(data, kept)
    small, likelihood = training.fit(build, part.x, part.y, params)
    error = nets.mse(small, part.test_x, part.test_y, torch.Generator().manual_seed(4))
    # the noise is 0.01 / (9 + 4 (1 - 2 / pi)) = 0.001 of the variance; the kink of |x| costs a little more
    assert error.max().item() < 0.01
    assert likelihood.scale().max().item() < 0.1


def test_held_out_scores_of_a_network_without_uncertainty():
    """With posterior scales near 0 the scores are the Gaussian density of one prediction, computed by hand."""
    data = nets.stack([nets.graded_set(0, 50, 3, 1.0)], 40)
    model = nets.sbnn(3, 1, torch.Generator().manual_seed(0), nets.PREDICT_PRIOR)
    with torch.no_grad():
        model.posterior.weight_rho.fill_(-30.0)
    likelihood = nets.GaussianLikelihood(1, initial_scale=0.7)
    scores = nets.held_out(model, likelihood, data, torch.Generator().manual_seed(0))
    residual = (data.test_y - model.mean_forward(data.test_x)).detach()
    expected = (0.5 * (residual / 0.7).square() + math.log(0.7 * math.sqrt(2.0 * math.pi))).mean()
    assert scores["nll_validation"].item() == pytest.approx(expected.item(), abs=1e-5)
    assert scores["mse_validation"].item() == pytest.approx(residual.square().mean().item(), abs=1e-5)
    fit = data.y.transpose(0, 1) - model.mean_forward(data.x.transpose(0, 1)).detach()
    total = (0.5 * (fit / 0.7).square() + math.log(0.7 * math.sqrt(2.0 * math.pi))).sum()
    kl = model.posterior.kl_divergence().item()
    assert scores["elbo"].item() == pytest.approx(-(total.item() + kl) / 40, rel=1e-5)


def test_a_blind_choice_stores_the_bound_alone():
    """On data sets that no other cell of the experiment draws."""
    cells = EXPERIMENTS["sbnn-priors"].profiles["book"]()
    blind = [cell for cell in cells if cell.method == "published pairs"]
    others = {replicate for cell in cells if cell not in blind for replicate in cell.replicates}
    assert blind and not others & {replicate for cell in blind for replicate in cell.replicates}
    small = next(c for c in EXPERIMENTS["sbnn-priors"].profiles["smoke"]() if c.method == "published pairs")
    rows = _run("sbnn-priors", small).rows
    assert {row["metric"] for row in rows} == {"elbo"} and len(rows) == len(nets.PUBLISHED_PRIORS) * 2


def test_rules_that_look_at_nothing_by_hand():
    cells = EXPERIMENTS["sbnn-selection"].profiles["smoke"]()
    kept = {cell.method: _run("sbnn-selection", cell).rows for cell in cells if cell.setting == "cv, pi=0.2"}
    active = _values(kept["BNN-VS-CV"], "BNN-VS-CV", "active_share")
    for name, expected in (("keep all", lambda a: a), ("keep none", lambda a: 100 - a)):
        found = _values(kept[name], name, "selection_accuracy")
        assert found == {where: pytest.approx(expected(share)) for where, share in active.items()}
    # with the true share every input that is missed stands beside one that is taken in its place
    true = _values(kept["BNN-VS, true share"], "BNN-VS, true share", "selection_accuracy")
    assert all((100.0 - value) / 20.0 == pytest.approx(round((100.0 - value) / 20.0)) for value in true.values())


def test_the_constants_are_what_the_stored_criteria_choose():
    """READ_PRIOR has the highest ELBO of the published pairs; the other two have the lowest held-out error."""
    result = lab.load_result("sbnn-priors", "book")
    cells, rows = result["provenance"]["cells"], result["rows"]
    assert cells["done"] == cells["total"], "run `python -m book run sbnn-priors --profile book` to the end"

    def mean(setting: str, method: str, metric: str) -> float:
        return float(np.mean([v for (s, _), v in _values(rows, method, metric).items() if s == setting]))

    problems = ["influence", *(f"importance, {function}, D=100" for function in sims.FUNCTIONS)]
    for problem in problems:
        bound = {
            p: mean(f"choice, {problem}, {sims.prior_name(p)}", "published pairs", "elbo")
            for p in nets.PUBLISHED_PRIORS
        }
        assert max(bound, key=bound.get) == nets.READ_PRIOR
    error = {p: mean(f"selection, {sims.prior_name(p)}", "sBNN", "mse_validation") for p in sims.GRID}
    assert min(error, key=error.get) == nets.PREDICT_PRIOR
    dropped = {
        (rate, inputs): mean(f"selection, rate={rate:g}" + ", inputs too" * inputs, "NN-Dr", "mse_validation")
        for rate, inputs in sims.DROPOUTS
    }
    assert min(dropped, key=dropped.get) == nets.DROPOUT


def test_no_two_trainings_begin_alike(monkeypatch):
    begun, noise = [], []
    monkeypatch.setattr(nets, "fit_stacked", lambda *_, generator, **more: noise.append(generator.initial_seed()))
    params = dict.fromkeys(nets.TRAINING, 1)
    for seed in (1, 2):
        trainings = nets.Trainings(None, CPU, seed)
        for _ in range(2):
            model, _ = trainings.fit(
                partial(nets.plain, dropout=None), torch.zeros(4, 1, 3), torch.zeros(4, 1, 1), params
            )
            begun.append(next(model.parameters()).detach().clone())
    assert len(set(noise)) == 4
    assert not any(torch.equal(one, other) for k, one in enumerate(begun) for other in begun[:k])

"""The table of MNIST on the digits of scikit-learn: resuming, who uses its networks, what its numbers mean."""

import copy
from functools import cache

import pytest
import torch

from bnnlib import datasets, metrics
from bnnlib._files import StoreError
from book import lab
from book.lab import Cell, load_result
from chapters.learned_priors.experiments import fgsm as aeb_fgsm
from chapters.learned_priors.experiments import mnist as aeb_mnist
from chapters.learned_priors.experiments import mnist_train as train
from tests.chapters import cells
from tests.chapters.cells import CPU, needs_digits, values

POINT = {"Dropout", "Vanilla"}
pytestmark = needs_digits


def smoke(method: str, setting: str = "MNIST", experiment: str = "aeb-mnist") -> Cell:
    return cells.smoke(experiment, method, setting)


def compute(cell: Cell):
    return aeb_mnist.run_cell(cell, CPU, None)


@cache
def computed(method: str):
    """The cell of MNIST, which several tests look at, computed once."""
    return compute(smoke(method))


def attacked(method: str):
    """The cell of an attack and the computed one that it needs."""
    return smoke(method, "MNIST", "aeb-fgsm"), computed(method)


@pytest.fixture
def few_images(monkeypatch):
    """An attack on fifty images, where their number is not the matter."""
    victims = aeb_fgsm.victims

    def fewer(*given):
        model, networks, (x, y) = victims(*given)
        return model, networks, (x[:50], y[:50])

    monkeypatch.setattr(aeb_fgsm, "victims", fewer)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["aeb-mnist", "aeb-fmnist"])
def test_the_table_has_every_row(experiment):
    cells = {profile: lab.get(experiment).profiles[profile]() for profile in ("smoke", "book", "paper")}
    name = {"aeb-mnist": "MNIST", "aeb-fmnist": "Fashion-MNIST"}[experiment]
    for found in cells.values():
        pairs = {(cell.setting, cell.method) for cell in found}
        assert pairs == {(s, m) for s in (name, f"DA-{name}") for m in ("Vanilla", "Dropout", "SGHMC", "SGHMC-SA")}
        for setting in (name, f"DA-{name}"):
            params = [cell.params for cell in found if cell.setting == setting]
            assert all(one == params[0] for one in params), "one budget and one setting for all methods"
    expected = {"accuracy", "nll", "ece", "brier", "epochs"}
    sampled = {"accuracy_single", "nll_single", "ece_single", "brier_single", "accuracy_mean_draw"}
    method = {"aeb-mnist": "Vanilla", "aeb-fmnist": "SGHMC-SA"}[experiment]  # both have one function
    result = compute(smoke(method, f"DA-{name}", experiment))
    more = set() if method in POINT else sampled | {"rho", "sigma", "delta", "num_draws"}
    assert set(values(result)) == expected | more
    assert result.arrays["curve"].shape == ((2 if method in POINT else 3), 3)
    assert len(result.product["states"]) == (1 if method in POINT else 3), "a point method leaves one network"


@pytest.mark.parametrize("name", ["aeb-fmnist", "aeb-resnet20"])
def test_the_paper_profile_that_was_not_run_says_how_long_it_is(name):
    experiment, epochs = lab.get(name), {}
    for profile in ("book", "paper"):
        params = [cell.params for cell in experiment.profiles[profile]()]
        stages = [one.get("sparse") or one.get("pretraining") or one for one in params]
        epochs[profile] = sum(stage["epochs"] for stage in stages)
    said = f"{epochs['paper']:,} epochs in all, where the book profile has {epochs['book']:,}"
    assert experiment.unavailable["paper"] == f"not run: {said}"


def test_the_paper_profile_that_has_begun_says_what_is_left():
    cells = lab.get("aeb-mnist").profiles["paper"]()
    planned = {(cell.setting, cell.method): 3 * cell.params["epochs"] for cell in cells}
    stored = {(row["setting"], row["method"]) for row in lab.load_result("aeb-mnist", "paper")["rows"]}
    left = sum(epochs for pair, epochs in planned.items() if pair not in stored)
    assert {pair[1] for pair in planned if pair not in stored and "DA" not in pair[0]} == {"Dropout"}
    said = f"Dropout and augmented images, {left:,} epochs of the profile's {sum(planned.values()):,}"
    assert lab.get("aeb-mnist").unavailable["paper"] == f"not run: {said}"


def test_published_settings():
    for data, tau in (("mnist", 1000.0), ("fashion_mnist", 2500.0)):
        params = aeb_mnist.settings(data, False, "paper")
        assert (params["batch_size"], params["thin"], params["inverse_temperature"]) == (1000, 500, tau)
        assert params["learning_rate"] / 60_000 == pytest.approx(5e-7)
        assert params["burn_in_rate"] == params["learning_rate"] and params["precision"] == "float32"
    assert aeb_mnist.settings("mnist", True, "paper")["epochs"] == 200
    assert aeb_mnist.settings("fashion_mnist", True, "paper")["epochs"] == 1000
    cells = aeb_mnist.EXPERIMENTS[0].profiles["book"]()
    assert len({cell.replicates for cell in cells if cell.setting == "MNIST"}) == 3


def test_final_runs_train_on_all_images_and_a_choice_never_sees_a_test_image():
    params = aeb_mnist.settings("mnist", False, "smoke") | {"rows": None}
    whole = datasets.load("digits")
    (x, _), (tested, _) = train.load_images(params, CPU)
    assert len(x) == len(whole.train_x) and len(tested) == len(whole.test_x)
    (x, _), (scored, labels) = train.load_images(params | {"held_out": 300}, CPU)
    assert len(x) == len(whole.train_x) - 300 and len(scored) == len(labels) == 300
    rows, test_rows = ({tuple(one.flatten().tolist()) for one in part} for part in (x, tested))
    held = [tuple(one.flatten().tolist()) for one in scored]
    # the set itself could hold an image twice
    assert sum(one in rows for one in held) <= 1 and sum(one in test_rows for one in held) <= 1


@pytest.mark.slow
def test_test_labels_change_scores_and_no_network(scramble):
    """Training is blind to the test images: with wrong labels there, the very same networks are scored."""
    honest = computed("SGHMC-SA")
    scramble(aeb_mnist, "load_images", lambda data: (data[0], (data[1][0], (data[1][1] + 1) % 10)))
    blind = compute(smoke("SGHMC-SA"))
    assert values(honest)["accuracy"] != values(blind)["accuracy"]
    assert all(honest.product[part] == blind.product[part] for part in ("steps", "latent"))
    for one, other in zip(honest.product["states"], blind.product["states"], strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_the_average_is_the_mean_of_the_draws_probabilities():
    cell, result = smoke("SGHMC-SA"), computed("SGHMC-SA")
    model = aeb_mnist.network(cell.params, cell.method, 0, CPU)
    _, (x, y) = train.load_images(cell.params, CPU)
    each = []
    for state in result.product["states"]:
        model.load_state_dict(state)
        with torch.no_grad():
            each.append(model.eval()(x).softmax(dim=1))
    found = values(result)
    # another batch size may add in another order
    assert found["nll"] == pytest.approx(metrics.nll(torch.stack(each).mean(dim=0), y), rel=1e-5)
    assert found["nll_single"] == pytest.approx(metrics.nll(each[-1], y), rel=1e-5)
    assert found["num_draws"] == 3 and result.product["steps"] == [4, 6, 8]
    assert result.arrays["curve"][-1, 2] == pytest.approx(found["accuracy"], rel=1e-6)


@pytest.mark.slow
def test_only_the_learning_prior_learns_and_weights_start_equal():
    latent = {method: values(computed(method)) for method in ("SGHMC", "SGHMC-SA")}
    assert {name: latent["SGHMC"][name] for name in ("rho", "sigma", "delta")} == {"rho": 0.5, "sigma": 1, "delta": 0.5}
    assert latent["SGHMC-SA"]["rho"] > 0.5 and latent["SGHMC-SA"]["sigma"] != 1.0
    params = smoke("SGHMC").params
    nets = [train.build(params, method, 0, CPU) for method in ("Vanilla", "Dropout", "SGHMC", "SGHMC-SA")]
    other = train.build(params, "Vanilla", 1, CPU)
    for name, value in nets[0].state_dict().items():
        assert all(torch.equal(value, net.state_dict()[name]) for net in nets[1:])
        assert not torch.equal(value, other.state_dict()[name])
    assert sum(parameter.numel() for parameter in other.parameters()) == 681_506


def test_augmentation_acts_in_training_only():
    params = smoke("SGHMC", "DA-MNIST").params
    from chapters.learned_priors.experiments.mnist_augmented import build_augmented

    for augment in ("rotate", "erase"):
        model = build_augmented(params | {"augment": augment}, "Vanilla", 0, CPU)
        assert sum(parameter.numel() for parameter in model.parameters()) == 493_772
        x = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
        seen = []
        model.net.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0].clone()))
        model.eval()(x)
        torch.testing.assert_close(seen[0], (x - 0.1307) / 0.3081)
        model.train()(x)
        model(x)
        assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[1], seen[2])


def test_half_precision_keeps_weights_and_probabilities_in_float32():
    params = smoke("SGHMC").params
    full = train.build(params, "SGHMC", 0, CPU).eval()
    half = train.build(params | {"precision": "bfloat16"}, "SGHMC", 0, CPU).eval()
    x = torch.rand(8, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    state = copy.deepcopy(half.state_dict())
    p, q = (train.probabilities(model, state, x) for model in (full, half))
    assert q.dtype == torch.float32 and all(value.dtype == torch.float32 for value in half.state_dict().values())
    assert not torch.equal(p, q)
    # bfloat16 has 8 bits: logits of size 0.1 err by about 0.1 / 256 a layer
    torch.testing.assert_close(p, q, atol=2e-3, rtol=0.0)


def test_the_sampler_slows_down_after_the_burn_in():
    rate = train.two_rates(0.1, 0.03, 4, 6)
    assert [rate(step) for step in (1, 2, 4, 6, 7, 100)] == pytest.approx([0.025, 0.05, 0.1, 0.1, 0.03, 0.03])
    published = train.two_rates(0.03, 0.03, 1, 6000)
    assert {published(step) for step in (1, 2, 6000, 6001)} == {0.03}


@pytest.mark.slow
def test_an_attack_moves_every_pixel_of_the_trained_networks_by_its_size():
    attack, trained = attacked("SGHMC-SA")
    result = aeb_fgsm.run_cell(attack, CPU, None, [trained.product])
    found = {(row["setting"], row["metric"]): row["value"] for row in result.rows}
    metric_names = {"accuracy", "nll", "accuracy_max_log", "accuracy_log_average", "accuracy_averaged_attack"}
    assert set(found) == {(f"MNIST zeta={z:g}", m) for z in aeb_fgsm.SIZES for m in metric_names}
    # without an attack: the number of Table 2, and a larger attack does more harm to the networks' own likelihood
    assert result.arrays["curve"][0, 1] == pytest.approx(values(trained)["accuracy"], rel=1e-6)
    losses = [found[f"MNIST zeta={z:g}", "nll"] for z in aeb_fgsm.SIZES]
    assert losses == sorted(losses) and losses[-1] > values(trained)["nll"]


@pytest.mark.parametrize("profile", ["smoke", "book", "paper"])
def test_attacks_need_cells_of_the_tables(profile):
    for cell in lab.get("aeb-fgsm").profiles[profile]():
        (need,) = cell.needs
        assert need.cell in lab.get(need.experiment).profiles[profile]()
        assert need.cell.as_json() == cell.as_json() | {"params": cell.params["network"]}


@pytest.mark.slow
@pytest.mark.usefixtures("few_images")
def test_the_network_that_an_attack_has_trained_is_in_the_table(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    trained, train_one = [], aeb_mnist.train_sampled

    def counted(model, data, params, *others):
        trained.append(params["augment"])
        return train_one(model, data, params, *others)

    monkeypatch.setattr(aeb_mnist, "train_sampled", counted)
    attacked = lab.run("aeb-fgsm", "smoke", device="cpu", only="Fashion-MNIST SGHMC [0]")
    assert trained == [""] and attacked["rows"] and attacked["provenance"]["cells"]["failed"] == 0
    result = lab.run("aeb-fmnist", "smoke", device="cpu", only="SGHMC [0]")  # with augmentation and without
    assert trained == ["", "erase"]  # only that with augmentation is new
    assert {row["setting"] for row in result["rows"]} == {"Fashion-MNIST", "DA-Fashion-MNIST"}


def test_averages_are_the_arithmetic_and_the_geometric_mean():
    logits = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    models = [lambda part, k=k: logits[k] for k in range(3)]
    mean, geometric = aeb_fgsm.averages(models, torch.zeros(5, 1))
    p = logits.softmax(dim=-1)
    torch.testing.assert_close(mean, p.mean(dim=0))
    expected = p.prod(dim=0) ** (1 / 3)
    torch.testing.assert_close(geometric, expected / expected.sum(dim=-1, keepdim=True))


@pytest.mark.parametrize(("draws", "kept"), [(12, [1, 3, 5, 7, 9, 11]), (6, [0, 1, 2, 3, 4, 5]), (3, [0, 1, 2])])
def test_the_attacked_draws_are_evenly_spaced_and_end_with_the_last(draws, kept):
    assert aeb_fgsm.spread(list(range(draws)), 6) == kept


@pytest.mark.slow
@pytest.mark.usefixtures("few_images")
def test_dropout_is_attacked_without_and_scored_with_and_without_its_noise():
    attack, trained = attacked("Dropout")
    first, again = (aeb_fgsm.run_cell(attack, CPU, None, [trained.product]).rows for _ in range(2))
    assert first == again  # the masks are seeded
    assert {row["metric"] for row in first} == {"accuracy", "nll", "accuracy_max_log", "accuracy_mc_dropout"}


@pytest.mark.parametrize("name", ["aeb-mnist", "aeb-fmnist"])
def test_the_stored_table_is_complete_and_says_how_it_was_made(name):
    try:
        rows = load_result(name, "book")["rows"]
    except StoreError:
        pytest.skip("the book profile has not been run")
    assert not [row for row in rows if row["metric"] == "error"]
    for row in rows:
        if row["metric"] == "accuracy":
            assert (75.0 if "Fashion" in row["setting"] else 95.0) < row["value"] <= 100.0
            assert "epochs" in row["note"] and "bfloat16" in row["note"]


@pytest.mark.slow
def test_attacked_images_stay_images_and_dropout_is_averaged_over_the_draws(monkeypatch):
    cell, trained = attacked("Dropout")
    model, _, (x, y) = aeb_fgsm.victims(cell, CPU, [trained.product])
    seen, counts, averages = [], set(), aeb_fgsm.averages

    def spied(models, images):
        seen.append(images)
        counts.add(len(models))
        return averages(models, images)

    monkeypatch.setattr(aeb_fgsm, "victims", lambda *_: (model, [model], (x[:50], y[:50])))
    monkeypatch.setattr(aeb_fgsm, "averages", spied)
    aeb_fgsm.run_cell(cell, CPU, None, [trained.product])
    assert counts == {1, cell.params["draws"]} and cell.params["draws"] > 1
    assert all(0.0 <= images.min() and images.max() <= 1.0 for images in seen)
    assert max((images - x[:50]).abs().max().item() for images in seen) == pytest.approx(max(aeb_fgsm.SIZES))


def test_replicates_share_neither_weights_nor_batches():
    seeds = [[one.initial_seed() for one in train.generators(replicate, CPU)] for replicate in range(3)]
    assert len({seed for pair in seeds for seed in pair}) == 6

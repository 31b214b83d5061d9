"""Experiments on filtered generators, on enlarged digits: resuming, what is judged, what decides nothing."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from book import lab
from book.lab.wording import PM
from chapters.implicit_acceptance import numbers
from chapters.implicit_acceptance.experiments import filtered
from chapters.implicit_acceptance.experiments.filtered import CCE, CURVES, LOSSES, MCE, PICKED, RANDOM, RAW, UB
from chapters.implicit_acceptance.experiments.images import CANDIDATES, CLASSIFIER, INVERSION
from chapters.implicit_acceptance.experiments.judge import MEASURES
from tests.chapters import cells
from tests.chapters.cells import CPU, needs_digits, smoke

NAMES = ("imh-mnist", "imh-fmnist", "imh-cifar10")
pytestmark = needs_digits


def computed(method: str, setting: str = "WGAN-GP", name: str = "imh-mnist"):
    """The smoke cell, which several tests look at, computed once."""
    return _computed(method, setting, name)


@cache
def _computed(method: str, setting: str, name: str):
    return compute(name, smoke(name, method, setting))


def compute(name: str, cell):
    needs = [computed(need.cell.method, need.cell.setting, name).product for need in cell.needs]
    return lab.get(name).function(cell)(cell, CPU, None, **({"products": needs} if needs else {}))


def values(result, setting: str, method: str) -> dict[str, float]:
    return cells.values(result, setting=setting, method=method)


@pytest.mark.slow
@pytest.mark.parametrize("method", [RANDOM, CCE, PICKED, UB, MCE])
def test_no_image_that_is_judged_is_a_real_one(method, monkeypatch):
    """Whatever the chains start from, what is judged was generated: also of chains that refuse every proposal."""
    seen = []
    judged = filtered.Judge.values
    cell = smoke("imh-mnist", method, "WGAN-GP")
    for need in cell.needs:  # they are judged as well
        computed(need.cell.method, need.cell.setting)
    monkeypatch.setattr(filtered.Judge, "values", lambda self, made: seen.append(made) or judged(self, made))
    compute("imh-mnist", cell)
    real = filtered.load_images(cell.params, CPU)["validation"][0][: cell.params["samples"]]
    count = {RANDOM: 1}.get(method, len(cell.params["discriminator"]["iterations"]))
    assert len(seen) == count + (len(CANDIDATES) if method == PICKED else 0)  # the others, and the generator as it is
    for made in seen:
        assert made.shape == real.shape
        assert torch.cdist(made.flatten(1), real.flatten(1)).min() > 1e-3


@pytest.mark.slow
def test_test_images_decide_nothing(scramble):
    """Other test images change what is measured, but no chain and no network."""
    cells = {method: smoke("imh-mnist", method, "WGAN-GP") for method in (RAW, CCE, PICKED)}
    honest = {method: computed(method) for method in cells}
    scramble(filtered, "load_images", lambda data: data | {"test": (data["test"][0].flip(-1), data["test"][1])})
    blind = {method: compute("imh-mnist", cell) for method, cell in cells.items()}
    pairs = zip(honest[RAW].product["decoder"].values(), blind[RAW].product["decoder"].values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert np.array_equal(honest[CCE].arrays["sheet"], blind[CCE].arrays["sheet"])
    for method in (CCE, PICKED):
        first, second = (values(one[method], "WGAN-GP", method) for one in (honest, blind))
        assert first["acceptance_rate"] == second["acceptance_rate"] and first["feature_fid"] != second["feature_fid"]
    first, second = (values(one[PICKED], "WGAN-GP, averaged", PICKED) for one in (honest, blind))
    assert all(first[name] == second[name] for name in ("held_out_loss", "picked"))


@pytest.mark.slow
def test_rows_and_curves_agree():
    result = computed(CCE)
    iterations = smoke("imh-mnist", CCE, "WGAN-GP").params["discriminator"]["iterations"]
    curves = result.arrays["curves"]
    assert curves.shape == (len(iterations), 1 + len(CURVES)) and curves[:, 0].tolist() == iterations
    for step, row in zip(iterations, curves, strict=True):
        found = values(result, f"WGAN-GP, {step} iterations", CCE)
        assert [found[name] for name in CURVES] == pytest.approx(row[1:].tolist(), rel=1e-6)
    last = values(result, "WGAN-GP", CCE)
    assert all(last[name] == found[name] for name in found)
    assert {f"{name}_se" for name in MEASURES} < set(last)


def test_a_random_discriminator_refuses_as_much_as_it_is_told():
    cell = smoke("imh-mnist", RANDOM, "WGAN-GP")
    rates = []
    for spread in (0.1, 3.0):
        options = cell.params["discriminator"] | {"spread": spread}
        result = compute("imh-mnist", replace(cell, params=cell.params | {"discriminator": options}))
        rates.append(values(result, "WGAN-GP", RANDOM)["acceptance_rate"])
    assert rates[1] < 0.7 * rates[0]


def test_the_pick_is_the_least_held_out_loss_and_every_candidate_is_reported():
    """The candidate without options is what the method without a choice trains."""
    result = computed(PICKED)
    found = {name: values(result, f"WGAN-GP, {name}", PICKED) for name in CANDIDATES}
    assert len({one["held_out_loss"] for one in found.values()}) == len(CANDIDATES)
    (pick,) = [name for name, one in found.items() if one["picked"]]
    assert found[pick]["held_out_loss"] == min(one["held_out_loss"] for one in found.values())
    steps = smoke("imh-mnist", PICKED, "WGAN-GP").params["discriminator"]["iterations"][-1]
    for setting in ("WGAN-GP", f"WGAN-GP, {steps} iterations"):
        chosen = values(result, setting, PICKED)
        assert all(found[pick][name] == value for name, value in chosen.items())
    plain = values(computed(CCE), "WGAN-GP", CCE)
    assert all(found["last weights"][name] == value for name, value in plain.items())
    raw = values(computed(RAW), "WGAN-GP", RAW)
    assert all(raw[name] == value for name, value in values(result, "WGAN-GP, raw", PICKED).items())


def test_the_pick_follows_the_held_out_loss_alone(monkeypatch):
    cell = smoke("imh-mnist", PICKED, "WGAN-GP")
    for wanted in (*CANDIDATES,)[1::2]:
        looks = len(cell.params["discriminator"]["iterations"])
        losses = iter([float(name != wanted) for name in sorted(CANDIDATES) for _ in range(looks)])
        monkeypatch.setattr(filtered, "_held_out", lambda *args, losses=losses: next(losses))
        result = compute("imh-mnist", cell)
        assert [name for name in CANDIDATES if values(result, f"WGAN-GP, {name}", PICKED)["picked"]] == [wanted]


def test_the_held_out_loss_sees_held_out_images_and_fresh_ones():
    """It is the cross-entropy of a discriminator that answers 1/2 everywhere: 2 log 2; a sharper one says otherwise."""
    cell = smoke("imh-mnist", PICKED, "WGAN-GP")
    data = filtered.load_images(cell.params, CPU)
    decoder = filtered.load_decoder(cell.params, computed(RAW).product, CPU)
    proposal = filtered.latent_proposal(decoder, cell.params, CPU)
    discriminator = filtered._discriminator(cell, CPU)
    state = {name: value.clone() for name, value in discriminator.state_dict().items()}
    real = data["validation"][0]
    start = filtered._held_out(cell, discriminator, state, proposal, real)
    blind = {name: torch.zeros_like(value) for name, value in state.items()}
    assert filtered._held_out(cell, discriminator, blind, proposal, real) == pytest.approx(2 * np.log(2), rel=1e-6)
    assert start != filtered._held_out(cell, discriminator, state, proposal, data["test"][0][: len(real)])


@pytest.mark.parametrize("name", NAMES)
def test_every_method_starts_from_the_generator_of_its_replicate(name):
    for profile in ("book", "paper"):
        cells = lab.get(name).profiles[profile]()
        for cell in cells:
            methods = [need.cell.method for need in cell.needs]
            expected = {CLASSIFIER: [], RAW: [CLASSIFIER], INVERSION: [RAW]}
            markov = [INVERSION] if cell.method in (UB, MCE) else []
            assert methods == expected.get(cell.method, [CLASSIFIER, RAW, *markov])
            assert all(need.cell in cells for need in cell.needs)
            own = [need.cell for need in cell.needs if need.cell.method != CLASSIFIER]
            assert all((one.setting, one.replicates) == (cell.setting, cell.replicates) for one in own)
            if cell.method in LOSSES:
                assert cell.params["discriminator"]["iterations"][0] == 0
        counts = {(cell.setting, cell.method): 0 for cell in cells}
        for cell in cells:
            counts[cell.setting, cell.method] += 1
        assert all(counts[setting, method] == 5 for setting in ("WGAN-GP", "VAE") for method in (RAW, RANDOM, CCE))


@pytest.mark.slow
def test_color_images_take_the_same_path():
    for method in (RAW, CCE):
        assert computed(method, name="imh-cifar10").arrays["sheet"].shape[1:] == (3, 32, 32)


def test_other_weights_are_compared_on_the_same_generators(monkeypatch):
    """By hand: the last weights add 20 to raw values, averaging nothing on average, and one pick goes wrong."""
    raw = np.array([50.0, 60.0, 55.0, 52.0, 58.0])
    gains = {
        "last weights": [19.0, 21.0, 20.0, 18.0, 22.0],
        "averaged": [-2.0, 2.0, 1.0, -1.0, 0.0],
        "falling rate": [14.0, -9.0, 21.0, -11.0, 20.0],
    }
    found = {"WGAN-GP, raw": raw, "WGAN-GP": raw + np.array([1.0, -1.0, 0.5, -0.5, 36.9])}
    found |= {f"WGAN-GP, {name}": raw + gain for name, gain in gains.items()}
    kept = {setting: 70.0 + 0.1 * np.arange(5) for setting in found}  # recall; the chain takes five points
    kept |= {setting: kept[setting] - np.array([5.0, 5.5, 4.5, 5.2, 4.8]) for setting in kept if "raw" not in setting}
    accepted = {setting: 21.0 + 0.1 * np.arange(5) for setting in found}
    kept["WGAN-GP, falling rate"] += np.array([2.5, 3.0, 2.9, 2.7, 2.9])
    accepted["WGAN-GP, falling rate"] += np.array([12.0, 13.0, 14.0, 13.0, 13.0])
    covered = {setting: accepted[setting] + 4.0 * ("raw" not in setting) + 0.1 * kept[setting] for setting in found}
    stored = {"feature_fid": found, "recall": kept, "acceptance_rate": accepted, "coverage_real": covered}
    monkeypatch.setattr(numbers.lab, "stored_values", lambda name, setting, method, metric: stored[metric][setting])
    said = numbers._failed()
    assert said["failed-last-recall"] == f"−5.0{PM}0.2" and said["failed-averaged-recall"].ordered
    assert said["failed-picked-largest"] == "36.9" and said["failed-averaged-gap"].startswith(f"+0.0{PM}")
    assert said["failed-averaged-last"].startswith(f"−20.0{PM}") and said["failed-averaged-last"].ordered
    assert said["failed-falling-last-recall"] == f"+2.8{PM}0.1"
    found["WGAN-GP"] = raw + 10.0 + np.array([1.0, -1.0, 0.5, -0.5, 0.0])
    with pytest.raises(AssertionError, match="other weights take the harm away"):
        numbers._failed()
    kept["WGAN-GP, averaged"] = kept["WGAN-GP, raw"] + np.array([1.0, -1.0, 0.5, -0.5, 0.0])
    with pytest.raises(AssertionError, match="averaged weights leave the loss of recall"):
        numbers._failed()
    covered["WGAN-GP, last weights"] = covered["WGAN-GP, raw"]
    with pytest.raises(AssertionError, match="coverage rises"):
        numbers._failed()

"""Ten projected steps beside one: what is attacked, within which distance, and which rows a method has."""

from functools import cache

import pytest
import torch
from torch import nn

from chapters.learned_priors.experiments import mnist, pgd
from chapters.shared.attacks import fgsm
from tests.chapters.cells import CPU, smoke

PARAMS = {"batch": 20, "steps": 10}


def _models() -> tuple[list, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return [model], torch.rand(50, 1, 8, 8, generator=generator)


@cache
def _rows(method: str) -> list[dict]:
    cell = smoke("aeb-pgd", method, images=20)
    (need,) = cell.needs
    return pgd.run_cell(cell, CPU, None, [mnist.run_cell(need.cell, CPU, None).product]).rows


def test_both_attacks_stay_within_the_distance_and_the_steps_find_more_than_one_does():
    models, x = _models()
    once, often = (pgd.attacked(kind, models, x, 0.1, PARAMS, seed=1) for kind in ("FGSM", "PGD"))
    assert torch.equal(once, fgsm(models, x, size=0.1))
    for moved in (once, often):
        assert (moved - x).abs().max() <= 0.1 + 1e-6 and moved.min() >= 0 and moved.max() <= 1
    (model,) = models
    with torch.no_grad():
        of_class = model(x).argmax(1, keepdim=True)
        kept = [model(moved).softmax(1).gather(1, of_class).mean() for moved in (once, often)]
    assert kept[1] < kept[0]
    assert torch.equal(often, pgd.attacked("PGD", models, x, 0.1, PARAMS, seed=1))


@pytest.mark.slow
def test_samplers_are_attacked_through_their_average_too():
    for method in ("SGHMC-SA", "Vanilla"):
        rows = _rows(method)
        settings = ["MNIST"] + [f"MNIST, {kind} zeta={size:g}" for size in pgd.SIZES for kind in ("FGSM", "PGD")]
        assert list(dict.fromkeys(row["setting"] for row in rows)) == settings
        assert ("accuracy_averaged_attack" in {row["metric"] for row in rows}) == (method == "SGHMC-SA")
        assert all(0.0 <= row["value"] <= 100.0 for row in rows)

"""Measures of generated samples: known values, second implementations, blocks, standard errors, draws with repeats."""

import math

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from chapters.implicit_acceptance import quality as generation
from chapters.implicit_acceptance.experiments import repeats
from chapters.implicit_acceptance.quality import (
    bootstrap_error,
    classifier_score,
    density_coverage,
    frechet_distance,
    precision_recall,
)
from tests.chapters.cells import CPU, needs_digits, smoke, values
from tests.seeded import seeded as generator


def samples(count: int, seed: int, dims: int = 6) -> torch.Tensor:
    mixing = torch.randn(dims, dims, generator=generator(seed + 50), dtype=torch.float64)
    return torch.randn(count, dims, generator=generator(seed), dtype=torch.float64) @ mixing + seed


def test_frechet_of_known_laws():
    real = samples(50, 0)
    assert frechet_distance(real, real, repeats=0).value == pytest.approx(0.0, abs=1e-8)
    assert frechet_distance(real, real + 3.0, repeats=0).value == pytest.approx(6 * 9.0)
    line = torch.tensor([[-1.0], [1.0]]) / math.sqrt(2)  # variance 1
    assert frechet_distance(line, 3 * line, repeats=0).value == pytest.approx(4.0)  # (3 - 1)^2
    flat = torch.cat([real, torch.zeros(50, 2)], dim=1)  # singular covariances
    assert frechet_distance(flat, 2 * flat, repeats=0).value == pytest.approx(
        frechet_distance(real, 2 * real, repeats=0).value
    )


def reference(real: np.ndarray, made: np.ndarray, neighbors: int) -> dict[str, float]:
    """With scikit-learn's neighbors and whole tables of distances."""
    table = np.linalg.norm(made[:, None] - real[None], axis=2)  # [made, real]

    def radius(points):
        return NearestNeighbors(n_neighbors=neighbors + 1).fit(points).kneighbors(points)[0][:, -1]

    inside = table <= radius(real)[None]
    return {
        "precision": 100 * inside.any(axis=1).mean(),
        "recall": 100 * (table <= radius(made)[:, None]).any(axis=0).mean(),
        "density": inside.sum(axis=1).mean() / neighbors,
        "coverage": 100 * (table.min(axis=0) <= radius(real)).mean(),
    }


@pytest.mark.parametrize(("neighbors", "rows"), [(1, 1000), (3, 64), (5, 7)])
def test_shares_are_those_of_scikit_learn_in_blocks_of_any_size(neighbors, rows, monkeypatch):
    monkeypatch.setattr(generation, "_ROWS", rows)
    real, made = samples(150, 0), samples(130, 0)[:, [0, 1, 2, 3, 5, 4]] * 0.8
    theirs = reference(real.numpy(), made.numpy(), neighbors)
    precision, recall = precision_recall(real, made, neighbors, repeats=0)
    density, coverage = density_coverage(real, made, neighbors, repeats=0)
    found = {"precision": precision, "recall": recall, "density": density, "coverage": coverage}
    assert {name: one.value for name, one in found.items()} == pytest.approx(theirs, abs=1e-9)
    assert 0 < theirs["recall"] < 100 and 0 < theirs["coverage"] < 100


def test_far_from_the_origin_distances_stay_exact():
    real, made = samples(150, 0), samples(130, 0)[:, [0, 1, 2, 3, 5, 4]]
    for measure in (precision_recall, density_coverage):
        near, far = measure(real, made, repeats=0), measure(real + 1e5, made + 1e5, repeats=0)
        assert near == far


def test_bootstrap_error_of_a_mean_is_the_textbook_one():
    values = torch.randn(400, generator=generator(1), dtype=torch.float64)
    found = bootstrap_error(lambda rows: float(rows.mean()), values, repeats=2000, generator=generator(2))
    assert found == pytest.approx(float(values.std(correction=0)) / 20, rel=0.06)  # 4 / sqrt(2 * 2000)
    assert bootstrap_error(lambda rows: 0.0, values, repeats=0) is None


def test_every_measure_has_an_error_that_a_generator_fixes():
    real, made = samples(200, 0), samples(200, 1)
    table = made[:, :4].softmax(dim=1)
    for measure in (
        lambda draws: [frechet_distance(real, made, **draws)],
        lambda draws: [classifier_score(table, **draws)],
        lambda draws: precision_recall(real, real.roll(1, 1), 3, **draws),
        lambda draws: density_coverage(real, real.roll(1, 1), 3, **draws),
    ):
        first, again = (measure({"repeats": 20, "generator": generator(3)}) for _ in range(2))
        assert list(first) == list(again)
        assert all(0 < one.standard_error < abs(one.value) for one in first)


@needs_digits
def test_repeats_lower_recall_and_all_different_images_are(monkeypatch):
    made = []
    judge = smoke(repeats.NAME, repeats.CLASSIFIER)
    product = repeats.classifier_cell(judge, CPU, None).product
    judged = repeats.Judge.values
    monkeypatch.setattr(repeats.Judge, "values", lambda self, images: made.append(images) or judged(self, images))
    result = repeats.repeats_cell(smoke(repeats.NAME, repeats.DRAWS), CPU, None, [product])
    found = [values(result, setting=f"digits, {name}") for name in ("all different", "repeats, spread 1.7")]
    assert [100 * len(images.unique(dim=0)) / len(images) for images in made[::2]] == [one["distinct"] for one in found]
    assert found[0]["distinct"] == 100 > found[1]["distinct"]
    assert found[1]["recall"] < found[0]["recall"] and all(len(images) == len(made[0]) for images in made)

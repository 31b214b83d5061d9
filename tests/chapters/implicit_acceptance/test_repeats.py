"""Draws with repeats that mean nothing: what the experiment draws, and what the measures make of it."""

from chapters.implicit_acceptance.experiments import repeats
from tests.chapters.cells import CPU, needs_digits, smoke, values

pytestmark = needs_digits


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

"""The classifier whose features judge generated images, and all that is measured of a set of them.

It is trained on real training images alone, never sees a generated one, and takes part in nothing else. Its features
are the inputs of its last layer. Every generator of a data set is judged by one classifier, on the test images.
"""

from typing import Any

import torch
from torch import Tensor, nn

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.implicit_acceptance.quality import classifier_score, density_coverage, frechet_distance, precision_recall
from chapters.shared.images import Split, error_percent, load_images
from chapters.shared.networks.layers import draw_initial
from chapters.shared.training import fit

MEASURES = ("feature_fid", "classifier_score", "precision", "recall", "density", "coverage_real")
FEATURES = 64


def network(params: dict[str, Any], seed: int) -> nn.Sequential:
    """Three convolutions of stride 2 and two linear layers; the input of the last one are the features."""
    channels, side = params["shape"]
    width = params["classifier"]["width"]
    layers: list[nn.Module] = []
    for ins, outs in ((channels, width), (width, 2 * width), (2 * width, 4 * width)):
        layers += [nn.Conv2d(ins, outs, 3, stride=2, padding=1), nn.ReLU()]
    layers += [nn.Flatten(), nn.Linear(4 * width * (-(-side // 8)) ** 2, FEATURES), nn.ReLU(), nn.Linear(FEATURES, 10)]
    model = nn.Sequential(*layers)
    draw_initial(model, torch.Generator().manual_seed(seed))
    return model


class Judge:
    """Measures of generated images against the test images.

    Args:
        params: of a cell.
        state: of the classifier.
        data: whose test images are the real ones.
        device: of the classifier.
    """

    def __init__(self, params: dict[str, Any], state: dict[str, Tensor], data: Split, device: torch.device) -> None:
        self.network = network(params, 0).to(device)
        self.network.load_state_dict(state)
        self.network.eval()
        self.repeats = params["bootstrap"]
        self.real, _ = self._seen(data["test"][0])

    @torch.no_grad()
    def _seen(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.cat([self.network[:-1](part) for part in images.split(1000)])
        return features, self.network[-1](features).softmax(dim=1)

    def values(self, images: Tensor) -> dict[str, float]:
        """Every measure with its bootstrap standard error, named NAME_se: that of the samples alone.

        The distance is to all test images; what counts neighbors compares equal numbers.
        """
        features, probabilities = self._seen(images)
        count = min(len(features), len(self.real))
        real, part = self.real[:count], features[:count]
        draws = {"repeats": self.repeats, "generator": torch.Generator().manual_seed(0)}
        found = [frechet_distance(self.real, features, **draws), classifier_score(probabilities, **draws)]
        found += [*precision_recall(real, part, **draws), *density_coverage(real, part, **draws)]
        values = {name: one.value for name, one in zip(MEASURES, found, strict=True)}
        return values | {f"{name}_se": one.standard_error for name, one in zip(MEASURES, found, strict=True)}


def classifier_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Train the classifier, which is the product; judge the held-out training images, as good as a sampler can be."""
    params, data = cell.params, load_images(cell.params, device)
    options = params["classifier"]
    model = network(params, 80_000).to(device)
    fit(
        model,
        data["train"],
        epochs=options["epochs"],
        batch_size=128,
        generator=torch.Generator(device).manual_seed(81_000),
        checkpoint=checkpoint,
    )
    rows = rows_of(cell, {f"error_{part}": error_percent(model, data, part) for part in ("test", "validation")})
    judge = Judge(params, model.state_dict(), data, device)
    held_out = data["validation"][0][: params["samples"]]
    rows += rows_of(cell, judge.values(held_out), method="Held-out images", note="real images, not generated ones")
    return CellResult(rows, product={"model": model.state_dict()})

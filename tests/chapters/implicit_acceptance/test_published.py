"""The published numbers of paper 004, section 1.4: complete, consistent with each other, and without a verdict."""

from __future__ import annotations

from book import lab
from book.lab import paper_values
from book.lab.published import metrics

DATA = ("", "CelebA, ")


def test_every_published_number_is_complete_and_unique():
    values, also = paper_values("imh-cifar10")
    assert len({(value.setting, value.method, value.metric) for value in values}) == len(values) == 16 + 12 and not also
    for value in values:
        assert value.paper == "004" and value.table and value.cell and value.reading > 0
        assert value.metric in metrics() and "our own classifier" in value.not_comparable
    assert not paper_values("imh-mnist")[0] and not paper_values("imh-fmnist")[0]


def test_filtering_improved_every_published_curve():
    found = {(value.setting, value.method, value.metric): value.mean for value in paper_values("imh-cifar10")[0]}
    for data in DATA:
        for model in ("WGAN-GP", "VAE"):
            raw, filtered = (
                [found[data + model, method, metric] for metric in ("feature_fid", "classifier_score")]
                for method in ("Raw", "Independent, CCE")
            )
            assert filtered[0] < 0.95 * raw[0] and filtered[1] > raw[1]
        best = data + "WGAN-GP, best rejection rate"
        markov, independent = (found[best, method, "feature_fid"] for method in ("Markov, UB", "Independent, CCE"))
        assert markov < independent < found[data + "WGAN-GP", "Raw", "feature_fid"]


def test_published_numbers_of_cifar_lie_beside_cells_that_would_be_run():
    settings = {(cell.setting, cell.method) for cell in lab.get("imh-cifar10").profiles["paper"]()}
    near = [value for value in paper_values("imh-cifar10")[0] if value.setting in ("WGAN-GP", "VAE")]
    assert len(near) == 8 and all((value.setting, value.method) in settings for value in near)

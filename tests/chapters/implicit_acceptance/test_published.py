"""The published numbers of paper 004, section 1.4: consistent with each other, and without a verdict."""

from book.lab import paper_values

DATA = ("", "CelebA, ")


def test_no_published_number_is_compared_because_its_classifier_is_another_one():
    values, _ = paper_values("imh-cifar10")
    assert all(value.reading > 0 and "our own classifier" in value.not_comparable for value in values)
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

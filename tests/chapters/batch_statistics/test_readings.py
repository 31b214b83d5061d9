"""Readings of the distribution functions of the entropy."""

import numpy as np

from chapters.batch_statistics.experiments.readings import cdf_readings


def test_readings_are_of_each_network_between_the_points_of_the_grid():
    curve = np.array([[0.0, 0.1, 0.0], [1.0, 0.5, 0.2], [2.0, 1.0, 1.0]])  # the grid, and two networks
    arrays = {("net", "BN", 4, "SBN|entropy_cdf_unknown"): curve, ("net", "BN", 4, "SBN|entropy_cdf_test"): curve}
    found = {(row["replicate"], row["metric"]): row["value"] for row in cdf_readings(arrays)}
    assert len(found) == 6  # the known images have no reading
    assert np.isclose(found[4, "entropy_cdf_25"], 30.0)
    assert np.isclose(found[4, "entropy_cdf_50"], 50.0)
    assert np.isclose(found[5, "entropy_cdf_25"], 10.0)
    assert np.isclose(found[5, "entropy_cdf_75"], 60.0)
    assert all((row["setting"], row["method"]) == ("net", "SBN") for row in cdf_readings(arrays))

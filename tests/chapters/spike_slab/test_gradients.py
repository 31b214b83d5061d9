"""The regression behind the claim about two gradients: its exact answers bound what any of them reaches."""

import pytest
import torch

from book.lab.cells import Cell
from chapters.spike_slab.experiments import gradients


@pytest.mark.slow
def test_the_exact_gradient_comes_near_the_posterior_and_none_goes_below_it():
    def ends(setting: str, method: str, steps: int) -> torch.Tensor:
        cell = Cell(setting, method, (0, 1), {"steps": steps})
        rows = gradients.run_cell(cell, torch.device("cpu"), None).rows
        return torch.tensor([row["value"] for row in rows if row["metric"] == "kl_exact"])

    exact, *others = (ends("wide start", method, 400) for method in gradients.METHODS)
    assert (exact > 0).all()  # a divergence, from another distribution than the posterior
    for other in others:
        assert (other > exact).all()
    # nearly uncorrelated inputs: the posterior is nearly in the family, and what is left is a small part of a nat
    assert (ends("published start", "exact gradient", 1_500) < 0.5).all()

"""The ring of the chapter on implicit Metropolis-Hastings: its laws on the grid, and the experiment's own choices."""

import math

import pytest
import torch

from bnnlib.sampling.discriminators import IndependentDiscriminator, MarkovDiscriminator
from bnnlib.sampling.latent import LatentProposal
from book import lab
from chapters.implicit_acceptance import ring
from chapters.implicit_acceptance.experiments import toy
from chapters.shared.finite import total_variation

SEED = 5


def test_the_cells_hold_the_masses_of_the_ring(generator):
    masses = ring.cell_masses(ring.ring_log_density)
    assert float(masses.sum()) == pytest.approx(1.0, abs=1e-9)
    points = ring.draw_ring(400_000, generator)
    # the mean of |share - mass| over cells is at most sqrt(2 m / (pi n)) each, for all of them
    noise = float((2 * masses / (math.pi * len(points))).sqrt().sum() / 2)
    assert float(total_variation(ring.cell_shares(points), masses)) < 1.3 * noise


def test_cells_run_row_by_row_from_below():
    place = (
        ring.cell_shares(torch.tensor([[-8.0, -8.0]])).argmax(),
        ring.cell_shares(torch.tensor([[7.99, -8.0]])).argmax(),
    )
    assert [int(one) for one in place] == [0, ring.CELLS - 1]
    centers = ring.grid_points(1)[:, 0]
    assert ring.cell_shares(centers[37:38].float()).argmax() == 37


def test_a_mode_counts_from_half_of_its_share(generator):
    five = ring.draw_ring(6_000, generator, range(5))
    assert ring.modes_found(ring.draw_ring(6_000, generator)) == 6
    assert ring.modes_found(five) == 5
    assert ring.modes_found(torch.cat([five, ring.draw_ring(1_000, generator, [5])])) == 6
    assert ring.modes_found(torch.cat([five, ring.draw_ring(300, generator, [5])])) == 5


@pytest.mark.slow
def test_the_ends_of_a_discriminator_blind_and_true(generator):
    flow = ring.fit_flow(ring.draw_ring(1_000, generator), 100, generator)
    proposal = LatentProposal(lambda z: flow.push(z)[0], 2, device=torch.device("cpu"))
    blind = IndependentDiscriminator(lambda x: 0.0 * x[:, 0], 0.01)
    values = toy.measure(blind, flow, proposal, 100, 20, 0)
    assert values["acceptance_rate"] == 100
    assert torch.equal(values["implied_tv"], values["proposal_tv"])
    assert float(values["gap"]) == pytest.approx(float(values["divergence"]), abs=1e-6)
    assert abs(float(values["bracket"])) < 1e-5
    best = IndependentDiscriminator(lambda x: ring.ring_log_density(x).float() - flow.log_prob(x), 1e-12)
    best.score = best.raw  # without a bound
    values = toy.measure(best, flow, proposal, 100, 20, 0)
    assert values["implied_tv"] < 1e-4 < 0.1 < values["proposal_tv"]
    assert values["direct_bound"] < 0.1  # of 20,000 pairs


@pytest.mark.slow
def test_replicates_share_data_and_generator_over_methods_and_nothing_over_replicates():
    cells = lab.get("imh-toy").profiles["smoke"]()
    assert {cell.method for cell in cells if cell.setting == "bridges"} == set(toy.METHODS)
    small = [torch.tensor([values["proposal_tv"] for _, values in toy._replicate(cell, 0)]) for cell in cells[:3]]
    assert all(torch.equal(small[0], other) for other in small[1:])
    other = [values["proposal_tv"] for _, values in toy._replicate(cells[0], 1)]
    assert other[0] != small[0][0]


@pytest.mark.slow
def test_rows_stand_for_every_look_and_replicate():
    cell = lab.get("imh-toy").profiles["smoke"]()[0]
    result = toy.run_cell(cell, torch.device("cpu"))
    assert {row["setting"] for row in result.rows} == {"bridges/0", "bridges/20"}
    assert {row["replicate"] for row in result.rows} == {0, 1}
    rates = [row["value"] for row in result.rows if row["metric"] == "acceptance_rate"]
    assert all(0 < rate < 100 for rate in rates)


def test_the_controls_part_form_and_proposal_on_replicates_of_their_own():
    known = {one for cell in lab.get("imh-toy").profiles["book"]() for one in cell.replicates}
    for cell in lab.get("imh-ring").profiles["book"]():
        assert not known & set(cell.replicates) and cell.params["looks"] == [1600]
    moves, control = toy.METHODS["UB, Markov"], toy.CONTROLS["UB, independent"]
    assert control == (moves[0], False, moves[2])


@pytest.mark.slow
def test_a_control_has_the_form_of_pairs_and_proposals_that_forget(monkeypatch):
    seen = []
    monkeypatch.setattr(toy, "train_discriminator", lambda d, points, proposal, **_: seen.append((d, proposal)))
    cells = {cell.method: cell for cell in lab.get("imh-ring").profiles["smoke"]()}
    for method, independent in (("UB, independent", True), ("UB, Markov", False)):
        list(toy._replicate(cells[method], 100))
        discriminator, proposal = seen.pop()
        assert isinstance(discriminator, MarkovDiscriminator) and proposal.independent == independent

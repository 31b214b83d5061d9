"""The ring, the finite chains and the pools of the implicit chapter: their laws, and the experiment's own choices."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

from bnnlib.sampling.discriminators import IndependentDiscriminator, MarkovDiscriminator
from bnnlib.sampling.latent import LatentProposal
from book import lab
from chapters.implicit_acceptance import chains, ring
from chapters.implicit_acceptance.experiments import toy
from chapters.implicit_acceptance.pool import pooled_metropolis_hastings
from chapters.shared.finite import total_variation
from tests.seeded import seeded as generator

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


def test_a_discriminator_of_a_ratio_has_this_ratio():
    ratio = torch.tensor([[0.0, 0.7], [-0.7, 0.0]], dtype=torch.float64)
    d = chains.discriminator_of(ratio, 0.1)
    assert torch.allclose((d / d.T).log(), ratio) and d.max() == 1.0
    cut = chains.discriminator_of(10 * ratio, 0.1)
    assert float(cut.min()) == pytest.approx(0.1, rel=1e-12)


def test_the_ladder_by_hand_on_two_states():
    target = torch.tensor([0.8, 0.2], dtype=torch.float64)
    proposal = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    even = chains.Chains(target, proposal, torch.ones(2, 2, dtype=torch.float64), 1.0, 1.0)
    found = {name: float(value) for name, value in chains.ladder(even).items()}
    assert found["measured"] == pytest.approx(0.3) and found["one step"] == pytest.approx(0.3)
    assert found["(22), ours"] == pytest.approx(0.3) and found["(22)"] == pytest.approx(0.6)
    divergence = 0.5 * (0.8 - 0.2) * torch.tensor(4.0).log().item()
    assert found["(28)"] ** 2 == pytest.approx(2 * divergence)
    assert float(chains.gap(even)) == pytest.approx(divergence)


def test_near_the_target_the_bound_speaks_and_the_minorization_is_kept(generator):
    many = chains.random_chains(50, 6, generator, lower=0.9, minorization=0.9, error=0.1, near=0.99)
    assert many.minorization == pytest.approx(0.999)
    # what all proposals have in common has at least the mass epsilon
    assert (many.proposal.amin(-2).sum(-1) >= many.minorization - 1e-9).all()
    found = chains.ladder(many)
    assert (found["measured"] <= found["(28)"]).all() and found["(28)"].max() < 1
    far = chains.random_chains(50, 6, generator, lower=0.2, minorization=0.3)
    assert far.minorization == pytest.approx(0.3) and chains.ladder(far)["(28)"].min() > 1


WIDE = 1.5  # standard deviation of the proposals


class Exact(nn.Module):
    """log p(x) - log q(x) of p = N(0, 1) and q = N(0, WIDE^2), up to a constant; within 5 of 0 almost surely."""

    def forward(self, points):
        return -0.5 * points.square() * (1.0 - 1.0 / WIDE**2)


def test_over_a_large_pool_the_chain_has_the_target():
    pool = WIDE * torch.randn(1_000_000, generator=generator(1))
    discriminator = IndependentDiscriminator(Exact(), 1e-6)
    # the worst start: 60 proposals, of which a third is accepted, leave less than 1e-6 of it
    chains = pooled_metropolis_hastings(discriminator, pool, torch.full((20_000,), 0.0), 60, generator=generator(2))
    assert stats.kstest(chains.samples.numpy(), "norm").pvalue > 0.01
    assert torch.equal(chains.samples, pool[chains.states])


def test_over_a_small_pool_it_has_the_weights_of_its_points():
    pool = torch.tensor([-2.0, -0.5, 0.4, 1.0, 3.0])
    discriminator = IndependentDiscriminator(nn.Identity(), 0.01)
    weights = discriminator.score(pool).softmax(dim=0).double()
    chains = pooled_metropolis_hastings(discriminator, pool, torch.zeros(50_000), 250, generator=generator(3))
    counts = torch.bincount(chains.states, minlength=5).double()
    # one draw a chain, independent of the others: chi-squared with 4 degrees of freedom
    assert stats.chisquare(counts.numpy(), (50_000 * weights / weights.sum()).numpy()).pvalue > 0.01


def test_a_chain_that_refuses_everything_stays_or_starts_again_in_the_pool():
    pool = torch.tensor([-3.0, -2.0, -2.5])
    start = torch.cat([torch.full((400,), 9.0), torch.full((100,), -2.4)])
    discriminator = IndependentDiscriminator(nn.Identity(), 1e-7)
    still = pooled_metropolis_hastings(discriminator, pool, start, 30, generator=generator(4))
    again = pooled_metropolis_hastings(discriminator, pool, start, 30, restart=True, generator=generator(4))
    assert still.states is None and (still.samples[:400] == 9.0).float().mean() > 0.9 and not still.restarted.any()
    assert torch.equal(again.restarted, still.never_moved) and torch.equal(again.samples, pool[again.states])
    assert again.acceptance_rate == still.acceptance_rate and again.moves[again.restarted].float().mean() > 1.0
    moved = ~still.never_moved
    assert torch.equal(still.samples[moved], again.samples[moved])

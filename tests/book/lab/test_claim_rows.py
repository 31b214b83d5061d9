"""What one row of a claim says: published cells by their word, measured ones by numbers worked out by hand."""

import pytest

from bnnlib._files import StoreError
from book.lab.claim_rows import Evidence, Row
from tests.book.rows import numbers, row

FOUR = (0.5, 1.0, 1.5, 1.0)  # mean 1, sd .408248, s.e. .204124, times t(3) = 3.182446 half a width of .649614


def _measured(**about) -> Evidence:
    (one,) = Row("an-experiment", **about).evidence()
    return one


# rows with published cells


@pytest.mark.parametrize(
    ("word", "holds"),
    [
        ("agrees", True),
        ("better: at 2 times the budget", True),
        ("worse", False),
        ("differs", False),
        ("diverged: 2 of 3 replicates failed", False),
        ("undecided: one run", None),
    ],
)
def test_a_published_cell_decides_by_its_word(stored, word, holds):
    stored(row(values=(1.0, 2.0), published=1.4, verdict=word))
    text = f"an-experiment, a, M, rmse_test: published 1.4, ours 1.5, {word.partition(':')[0]}"
    assert _measured() == Evidence(text, holds)


@pytest.mark.parametrize("word", ["not run: no GPU", "by design: the user sets it", "not comparable: another teacher"])
def test_a_published_cell_without_a_say_tells_why(stored, word):
    stored(row(values=(1.0, 2.0), published=1.4, verdict=word))
    assert (_measured().holds, _measured().why) == (None, word)


def test_a_number_that_stays_incomparable_decides_no_value(stored):
    stored(row(values=(1.0, 2.0), published=1.4, verdict="not comparable: theirs is the best epoch"))
    assert (_measured(comparable="an order").holds, _measured(comparable="an order").why) == (None, "")


def test_patterns_choose_rows_and_unpublished_ones_decide_nothing_alone(stored):
    about = {"values": (1.0, 2.0), "published": 1.0}
    places = (("a", "rmse_test"), ("a", "rmse_train"), ("b", "rmse_test"))
    rows = [row(setting, metric=metric, **about) for setting, metric in places]
    stored(*rows, row("a", metric="nll", values=(1.0, 2.0)))
    found = [one.text.partition(":")[0] for one in Row("an-experiment", setting="a", metric="*").evidence()]
    assert found == ["an-experiment, a, M, rmse_test", "an-experiment, a, M, rmse_train"]
    assert len(list(Row("an-experiment", metric="*_test").evidence())) == 2
    assert list(Row("an-experiment", method="N").evidence()) == []


# measured rows


@pytest.mark.parametrize(
    ("says", "than", "holds"),
    [
        ("above", 0.35, True),  # the interval begins at 1 - .649614 = .350386
        ("above", 0.351, None),  # a normal quantile would give .600
        ("above", 1.649, None),  # it ends at 1.649614
        ("above", 1.65, False),
        ("below", 1.65, True),
        ("below", 1.649, None),
        ("below", 0.351, None),
        ("below", 0.35, False),
    ],
)
def test_a_mean_is_judged_by_students_t(stored, says, than, holds):
    stored(numbers(FOUR))
    found = _measured(says=says, than=than)
    assert found.holds is holds and found.text == f"an-experiment, a, M, rmse_test: 1 ± 0.2 (n = 4), {says} {than:g}"


@pytest.mark.parametrize(
    ("than", "tolerance", "holds"),
    [
        (1.0, 0.65, True),
        (1.0, 0.64, None),  # the interval reaches .649614 to either side
        (2.0, 0.3, False),  # it ends at 1.6496, apart from 1.7 to 2.3
        (2.0, 0.4, None),  # it reaches into 1.6 to 2.4, and out of it
        (0.0, 0.3, False),
    ],
)
def test_near_needs_an_interval_that_is_narrow_enough(stored, than, tolerance, holds):
    stored(numbers(FOUR))
    assert _measured(says="near", than=than, tolerance=tolerance).holds is holds


def test_overlapping_splits_widen_the_interval(stored):
    stored(numbers(FOUR), overlap=1 / 9)  # sd sqrt(1/4 + 1/9) = .245327, times 3.182446 half a width of .780738
    assert _measured(says="above", than=0.219).holds is True
    assert _measured(says="above", than=0.22).holds is None


@pytest.mark.parametrize(
    ("values", "says", "than", "holds"),
    [
        ((1.0, 2.0, 3.0), "above", 1.0, True),
        ((1.0, 2.0, 30.0), "above", 1.5, False),  # though the mean is far above
        ((1.0, 2.0, 3.0), "below", 3.0, True),
        ((1.0, 2.0, 3.0), "below", 2.9, False),
        ((1.0, 2.0, 3.0), "near", 2.0, True),
        ((1.0, 2.0, 3.1), "near", 2.0, False),
        ((1.0, 2.0), "above", 0.0, None),
    ],
)
def test_every_replicate_must(stored, values, says, than, holds):
    stored(numbers(values))
    found = _measured(says=says, than=than, tolerance=1.0, every=True)
    good = {True: len(values), None: len(values), False: len(values) - 1}[holds]
    assert found.holds is holds and found.text.endswith(f": {says} {than:g} in {good} of {len(values)}")


@pytest.mark.parametrize(("values", "text"), [((5.0,), "5 (n = 1)"), ((5.0, 5.1), "5.05 ± 0.05 (n = 2)")])
def test_fewer_than_three_replicates_decide_nothing(stored, values, text):
    stored(numbers(values))
    found = _measured(says="above")
    assert (found.holds, found.why) == (None, "") and text in found.text


def test_methods_are_subtracted_in_pairs_of_replicates(stored):
    stored(numbers((10.0, 20.0, 30.0, 40.0)), numbers((38.9, 29.0, 19.0, 0.0), "N", replicates=[3, 2, 1, 5]))
    chance = pytest.approx(0.001, abs=1e-4)  # 1.1, 1 and 1: s.e. 1/30, t(2) = 31
    found = _measured(method="M", minus="N", says="above")
    assert found == Evidence("an-experiment, a, M, rmse_test, less N: 1.033 ± 0.033 (n = 3)", True, chance=chance)
    found = _measured(method="N", minus="M", says="above")
    assert found == Evidence("an-experiment, a, N, rmse_test, less M: -1.033 ± 0.033 (n = 3)", False, chance=chance)


@pytest.mark.parametrize(("n", "holds"), [(3, None), (4, None), (5, False)])
def test_a_few_equal_differences_decide_nothing(stored, n, holds):
    ours = tuple(1.62 + k for k in range(n))
    stored(numbers(ours), numbers(tuple(one - 0.01 for one in ours), "N"))  # equal but for rounding
    assert _measured(method="M", minus="N", says="below").holds is holds
    stored(numbers(ours), numbers(ours, "N"))
    assert _measured(method="M", minus="N", says="near", tolerance=0.1).holds is (None if n < 5 else True)


def test_without_shared_replicates_there_is_no_say(stored):
    stored(numbers((1.0, 2.0, 3.0)), numbers((1.0, 2.0, 3.0), "N", replicates=[7, 8, 9]))
    assert _measured(method="M", minus="N", says="below").why == "no pairs of replicates"


def test_settings_and_metrics_are_subtracted_too(stored):
    plain = numbers((1.0, 2.0, 3.0), setting="a")
    other = numbers((3.0, 4.0, 5.0), setting="b")
    large = numbers((11.0, 12.0, 13.1), setting="a, large")
    train = numbers((0.5, 1.5, 2.5), metric="rmse_train")
    stored(plain, other, large, train)
    assert ": -2 ± 0" in _measured(setting="a", metric="rmse_test", minus_setting="b", says="below").text
    assert ": 0.5 ± 0" in _measured(setting="a", metric="rmse_test", minus_metric="rmse_train", says="above").text
    found = _measured(setting="a", metric="rmse_test", minus_setting="{setting}, large", says="below")
    assert (": -10.03 ± 0.033" in found.text, found.holds) == (True, True)


def test_two_metrics_are_added_where_one_network_must_have_both(stored):
    stored(numbers((0.0, 0.0, 2.0)), numbers((1.0, 2.0, 0.0), metric="rmse_train"))
    alone = _measured(metric="rmse_test", says="below", some=True)
    both = _measured(metric="rmse_test", plus_metric="rmse_train", says="below", some=True)
    assert (alone.holds, both.holds) == (True, False)  # each is 0 somewhere, but nowhere both
    assert both.text == "an-experiment, a, M, rmse_test, plus rmse_train: below 0 in 0 of 3"


def test_a_method_divides_in_pairs(stored):
    stored(numbers((2.0, 4.0, 9.0)), numbers((1.0, 2.0, 3.0), "N"))  # 2, 2, 3: mean 2.3333, s.e. 1/3, t(2) = 4.302653
    found = _measured(method="M", over="N", says="above", than=0.89)  # the interval begins at .899116
    text = "an-experiment, a, M, rmse_test, over N: 2.333 ± 0.33 (n = 3), above 0.89"
    assert found == Evidence(text, True, chance=pytest.approx(0.0494, abs=1e-4))  # t = 4.33
    assert _measured(method="M", over="N", says="above", than=0.9).holds is None


@pytest.mark.parametrize("behind", ["M", "N"])
def test_what_is_incomparable_on_either_side_has_a_say_only_with_a_reason(stored, behind):
    why = "not comparable: theirs is the best epoch"
    ours, theirs = (
        numbers(values, one, published=1.0, verdict=why if one == behind else "agrees")
        for one, values in (("M", (3.0, 4.0, 5.1)), ("N", (1.0, 2.0, 3.0)))
    )
    stored(ours, theirs)
    about = {"method": "M", "minus": "N", "says": "above"}
    assert (_measured(**about).holds, _measured(**about).why) == (None, why)
    assert _measured(**about, comparable="an order of our own runs").holds is True


def test_what_was_not_run_or_is_infinite_tells_why(stored):
    infinite = numbers((1.0, 2.0, 3.0), "O") | {"values": [1.0, 2.0, float("inf")]}
    stored(numbers((1.0, 2.0, 3.0)), row(method="N"), infinite)
    assert _measured(method="M", minus="N", says="below").why == "not run: nobody did"
    assert _measured(method="N", says="below", comparable="an order").why == "not run: nobody did"
    assert _measured(method="O", says="below").why == "infinite"


def test_a_row_to_subtract_that_does_not_exist_is_an_error(stored):
    stored(numbers((1.0, 2.0, 3.0)))
    with pytest.raises(StoreError, match=r"has no row a \| N \| rmse_test, which a claim names"):
        _measured(minus="N", says="below")


def test_pairs_of_two_experiments(stored):
    elsewhere = numbers((2.0, 3.0, 4.0), "N", experiment="another")
    stored(numbers((3.0, 4.1, 5.0)), numbers((9.0, 9.0, 9.0), "N"), elsewhere)
    found = _measured(method="M", minus="N", minus_experiment="another", says="above")
    assert found.holds and found.text == "an-experiment, a, M, rmse_test, less N of another: 1.033 ± 0.033 (n = 3)"
    with pytest.raises(StoreError, match=r"another has no row a \| M"):
        _measured(method="M", minus="M", minus_experiment="another", says="above")
    same = _measured(method="N", minus_experiment="another", says="above")
    assert same.holds and same.text == "an-experiment, a, N, rmse_test, less the same of another: 6 ± 0.58 (n = 3)"
    ratio = _measured(method="M", over="N", minus_experiment="another", says="above").text
    assert ratio.startswith("an-experiment, a, M, rmse_test, over N of another: 1.372")


def test_an_experiment_that_is_not_run_says_so_in_a_pair(stored):
    stored(numbers((3.0, 4.1, 5.0)), row(method="N", experiment="another", profile=None))
    found = _measured(method="M", minus="N", minus_experiment="another", says="above")
    assert found == Evidence("another, a, N, rmse_test", why="not run: nobody did")


@pytest.mark.parametrize("behind", ["M", "N"])
def test_a_row_obeys_the_budget_of_the_published_cells_of_its_setting_and_method(stored, behind):
    about = {"published": 1.0, "metric": "nll", "published_budget": 100.0, "budget_unit": "epochs"}
    pair = [numbers((3.0, 4.0, 5.1)), numbers((1.0, 2.0, 3.0), "N")]
    known = [numbers((1.0, 1.0, 1.0), one, budget=49.0 if one == behind else 50.0, **about) for one in ("M", "N")]
    elsewhere = numbers((1.0, 1.0, 1.0), "M", setting="b", budget=1.0, **about)
    stored(*pair, *known, elsewhere)
    order = {"setting": "a", "method": "M", "metric": "rmse_test", "minus": "N", "says": "above"}
    assert _measured(**order).why == "not comparable: budget 49 of 100 epochs"
    assert _measured(**order, comparable="an order of our own runs").holds is True
    stored(*pair, *(one | {"budget": 50.0} for one in known), elsewhere)
    assert _measured(**order).holds is True


@pytest.mark.parametrize("behind", ["M", "N"])
@pytest.mark.parametrize("values", [(3.0, 4.0, 5.1), ()])
def test_survivors_of_diverged_replicates_decide_nothing(stored, behind, values):
    word = "diverged: 2 of 5 replicates failed"
    ours, theirs = (
        numbers(one, name) | ({"verdict": word, "n": len(values)} if name == behind else {})
        for name, one in (("M", (3.0, 4.0, 5.1)), ("N", (1.0, 2.0, 3.0)))
    )
    stored(ours, theirs)
    found = _measured(method="M", minus="N", says="above", comparable="an order")
    assert found == Evidence(f"an-experiment, a, {behind}, rmse_test: {word}")


def test_a_pair_whose_other_half_has_another_profile_alone_has_no_say(stored):
    stored(numbers((3.0, 4.0, 5.0)), numbers((1.0, 2.0, 3.0), "N", profile="paper"))
    assert _measured(method="M", minus="N", says="above") == Evidence(
        "an-experiment, a, M, rmse_test, less N", why="no pairs of replicates at the book profile"
    )

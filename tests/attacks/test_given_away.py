"""Values given away for certain: counts, kinds of values and documents, on planted outcomes and simulated audits."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from audit.attacks.budget import sample
from audit.attacks.counting import (
    KindsCheck,
    Population,
    Row,
    TriedValues,
    count_documents,
    count_values,
)
from audit.attacks.measuring import count_returned
from audit.engine.interface import Trial
from audit.measurements import Unresolved
from audit.policy import load
from audit.stats.rates import excess_mean, excess_rate
from benchmarks.calibration.simulated_attacks import Audit, attributes, membership, reconstruction
from benchmarks.calibration.simulated_audits import decisions_of, fewer_resamples

DEFAULT = load("default")
WANTED = [limit.metric for limit in DEFAULT.limits if limit.attack == "reconstruction"]


def tried(member, heldout, per_document=1):
    """Values of so many documents of each side: how many of each document's are found with the model."""
    found = [*member, *heldout]
    cluster = np.repeat(np.arange(len(found)), per_document)
    place = np.tile(np.arange(per_document), len(found))
    attack = (place < np.repeat(found, per_document)).astype(float)
    nothing = np.zeros(cluster.size)
    return TriedValues(
        cluster < len(member), cluster, np.arange(cluster.size), attack, nothing, nothing + 1
    )


def rows_of(values):
    """The rows that an attack could try for these values, one a value."""
    sides = np.where(values.member, "member", "heldout")
    columns = (
        np.asarray(column).astype(str).tolist() for column in (values.cluster, sides, values.value)
    )
    return [Row(*row, True) for row in zip(*columns, strict=True)]


def all_of(values):
    """What the counts are of where all values were tried."""
    return Population.of(rows_of(values), rows_of(values), by_lot=True)


def drawn_of(values, taken):
    """Those of the values that were tried, with their weights, and what the counts are of."""
    rows = rows_of(values)
    drawn = [row for row, yes in zip(rows, taken, strict=True) if yes]
    population = Population.of(rows, drawn, by_lot=True)
    return replace(values.where(taken), weight=population.weights(drawn)), population


def test_documents_are_counted_by_how_many_of_their_values_came_back():
    hits = np.array([True, True, False, False])
    nothing = np.zeros(2, bool)
    shown = count_returned(
        {"member": (hits, np.array([0, 0, 1, 2])), "held-out": (nothing, np.array([3, 4]))}
    )
    assert (shown.counts, shown.edges[0]) == ({"member": (2, 0, 1), "held-out": (2, 0, 0)}, -0.5)


def rng():
    return np.random.default_rng(0)


def outcomes(audit, audits):
    """What becomes of an audit by the shipped policy, over so many: the worst outcome, and that of each limit."""
    worst = Counter()
    limits = Counter()
    with fewer_resamples(500):
        for seed in range(audits):
            draw = np.random.default_rng([seed, audit.documents])
            found = {
                "reconstruction": reconstruction(audit, draw, WANTED),
                "attribute_inference": attributes(audit, draw),
                "membership": membership(audit, draw),
            }
            decisions = decisions_of("tagger", found, DEFAULT)
            named = [decision.outcome for decision in decisions.values()]
            worst[min(named, key=["violated", "undecided", "passed"].index)] += 1
            limits.update(f"{name}: {decision.outcome}" for name, decision in decisions.items())
    return worst, limits


def test_each_distinct_value_of_a_document_is_counted_once():
    values = tried([4] * 15 + [0] * 85, [0] * 100, per_document=4)
    found = count_values("values", values, all_of(values), excess_rate, rng())
    assert found.value == pytest.approx(60)
    assert 0 < found.low < 60 < found.high
    assert (found.n, found.total) == (400, 400)
    again = replace(values, value=values.cluster)
    assert len(again.distinct()) == 200
    assert count_values("values", again, all_of(again), excess_rate, rng()).value == pytest.approx(
        15
    )


def test_what_held_out_documents_give_away_alike_is_not_counted():
    values = tried([1] * 30 + [0] * 70, [1] * 30 + [0] * 70, per_document=2)
    assert count_values(
        "values", values, all_of(values), excess_rate, rng()
    ).value == pytest.approx(0, abs=1e-9)
    assert count_documents("documents", values, all_of(values)).value == 0
    known = tried([2] * 20 + [0] * 80, [1] * 30 + [0] * 70, per_document=2)
    assert count_documents("documents", known, all_of(known)).low > 10
    single = tried([1], [1])
    assert isinstance(count_documents("documents", single, all_of(single)), Unresolved)


def documents_of(whole, luck, per_document, *, alone=0, n=150, draw):
    """Values of n documents a side with luck: of the members some are known wholly, in others one value is."""
    member, heldout = (draw.random((n, per_document)) < luck for _ in range(2))
    member[:whole] = True
    member[whole : whole + alone, 0] = True
    hits = np.concatenate([member, heldout])
    values = tried([0] * n, [0] * n, per_document)
    return replace(values, attack=hits.ravel().astype(float))


@pytest.mark.parametrize("per_document", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("luck", [0.02, 0.1])
def test_documents_that_leak_are_counted_however_few_values_they_hold(per_document, luck):
    """With one value each, two lucky unseen documents used to hide all 30 behind 0 [0, 0]."""
    draw = np.random.default_rng(per_document)
    counts = []
    for _ in range(60):
        values = documents_of(30, luck, per_document, draw=draw)
        counts.append(count_documents("documents", values, all_of(values)))
    assert np.mean([count.value for count in counts]) == pytest.approx(30, abs=2.5)
    assert sum(count.high < 30 for count in counts) <= 5  # 2.5 % of 60, and chance
    assert sum(count.low > 30 for count in counts) <= 5
    assert min(count.high for count in counts) > 15
    assert not any(count.open_above for count in counts)


@pytest.mark.parametrize("luck", [0.0, 0.02, 0.05])
def test_one_value_leaked_in_each_of_many_documents_is_not_invisible(luck):
    values = documents_of(0, luck, 8, alone=100, draw=np.random.default_rng(1))
    found = count_documents("documents", values, all_of(values))
    assert found.value == pytest.approx(100, abs=15)
    assert found.low > 60
    kinds = KindsCheck(0.05, by_lot=True)
    kinds.count_documents("documents", values, all_of(values))
    assert kinds.check()[0].p_value < 1e-6


def test_documents_of_which_some_values_were_not_tried_have_no_upper_end():
    values = documents_of(30, 0.02, 4, draw=np.random.default_rng(2))
    first = np.arange(len(values)) % 4 == 0
    found = count_documents("documents", *drawn_of(values, first))
    assert found.open_above
    assert found.value == pytest.approx(30, abs=5)
    assert (found.n, found.total, found.high) == (150, 150, 150)


def budgets(values, seed, **limits):
    """Mark the values that a scan with these limits tries."""
    trials = [Trial(row.value, row.document, row.stratum) for row in rows_of(values)]
    taken = {trial.id for trial in sample(trials, seed=seed, **limits)}
    return np.array([trial.id in taken for trial in trials])


@pytest.mark.parametrize(
    "limits",
    [
        {"share": 1.0},
        {"share": 0.25},
        {"share": 0.25, "documents": 90},
        {"share": 1.0, "part": 0.5},
    ],
)
def test_neither_the_budget_nor_stopping_early_changes_what_is_counted(limits):
    """Long documents leak more, and a quick scan tries few of their values: without weights it counts 66 for 150."""
    sizes = np.tile([1, 2, 3, 8], 30)
    cluster = np.repeat(np.arange(240), np.tile(sizes, 2))
    leaks = (cluster < 120) & (np.tile(sizes, 2)[cluster] == 8) & (np.arange(cluster.size) % 8 < 5)
    nothing = np.zeros(cluster.size)
    values = TriedValues(
        cluster < 120, cluster, np.arange(cluster.size), leaks.astype(float), nothing, nothing + 1
    )
    counts = []
    with fewer_resamples(50):
        for seed in range(60):
            drawn, population = drawn_of(values, budgets(values, seed, **limits))
            counts.append(count_values("values", drawn, population, excess_rate, rng()))
    assert {count.total for count in counts} == {420}
    errors = np.std([count.value for count in counts]) / np.sqrt(len(counts))
    assert np.mean([count.value for count in counts]) == pytest.approx(
        float(leaks.sum()), abs=4 * errors + 1e-9
    )
    assert np.mean([count.low <= leaks.sum() <= count.high for count in counts]) >= 0.9


def test_documents_of_a_part_of_the_data_set_are_scaled_to_all():
    """Half of the documents are tried, with all their values: the bounds cover which half it was."""
    values = documents_of(60, 0.0, 2, draw=np.random.default_rng(3))
    taken = budgets(values, 0, share=1.0, part=0.5)
    found = count_documents("documents", *drawn_of(values, taken))
    assert (found.n, found.total, found.open_above) == (75, 150, False)
    assert (
        found.value
        == 2 * np.unique(values.cluster[taken & values.member & (values.cluster < 60)]).size
    )
    assert found.low < 60 < found.high


@pytest.mark.parametrize("n", [8, 16])
def test_a_kind_of_value_that_is_known_completely_raises_an_alarm(n):
    kinds = KindsCheck(0.05, by_lot=True)
    quiet = tried([0] * 160, [0] * 160)
    known = tried([1] * n, [0] * n)
    for name, values in (("person", quiet), ("code", quiet), ("contact", known)):
        for _ in ("default", "lowest_loss"):
            kinds.test(f"values of category {name}", values, excess_rate, rng())
    kinds.test("contacts of too few documents", tried([1] * 5, [0] * 5), excess_mean, rng())
    (check,) = kinds.check()
    assert check.p_value < 0.001
    assert check.reason.startswith("training leaks values of category contact")
    assert f"{n} of {n} in training documents, 0 of {n} in unseen ones" in check.reason


@pytest.mark.parametrize("group", [8, 16, 60, 300])
def test_kinds_that_leak_nothing_seldom_raise_an_alarm(group):
    draw = np.random.default_rng(group)
    fired = 0
    with fewer_resamples(200):
        for _ in range(200):
            kinds = KindsCheck(0.05, by_lot=True)
            for share in (0.0, 0.1, 0.5, 0.95):
                values = tried(
                    draw.binomial(1, min(1, share + 0.04), group), draw.binomial(1, share, group)
                )
                kinds.test("values", values, excess_rate, draw)
            fired += kinds.check()[0].p_value <= 0.05
    assert fired <= 18  # 97.5 % quantile of 200 at 5 %


def test_a_rare_category_that_is_known_completely_does_not_pass():
    worst, _ = outcomes(Audit(160, rows=8, rare=0.1, leak={"reconstruction rare": 1.0}), 5)
    assert not worst["passed"]
    worst, limits = outcomes(Audit(1000, rows=8, rare=0.2, leak={"reconstruction rare": 1.0}), 2)
    assert worst["violated"] == limits["reconstruction values_identified: violated"] == 2


def test_thirty_documents_of_a_thousand_that_are_known_word_for_word_do_not_pass():
    worst, limits = outcomes(Audit(1000, known=30), 2)
    assert worst["violated"] == 2
    for name in ("reconstruction values_identified", "reconstruction documents_identified"):
        assert limits[f"{name}: violated"] == 2
    assert limits["membership documents_identified: violated"] == 2
    assert limits["reconstruction excess_pr.unique: passed"] + limits["membership auc: passed"] < 4


def test_values_that_are_picked_in_many_documents_are_counted():
    _, limits = outcomes(Audit(300, known=45), 2)
    assert limits["attribute_inference values_identified: violated"] == 2
    assert not limits["attribute_inference documents_identified: passed"]
    # Luck picks a value in most documents: at most 30 of 300 may leak one, and 75 are over it for
    # certain.
    _, limits = outcomes(Audit(300, known=75), 2)
    assert limits["attribute_inference documents_identified: violated"] == 2
    _, limits = outcomes(Audit(300, known=4), 4)
    for name in (
        "attribute_inference values_identified",
        "attribute_inference documents_identified",
    ):
        assert not limits[f"{name}: violated"]


def test_a_rare_category_that_nobody_knows_passes():
    worst, _ = outcomes(Audit(300, rows=8, rare=0.1), 8)
    assert worst["passed"] >= 6
    assert not worst["violated"]

"""Values given away for certain: counts, kinds of values and documents, on planted outcomes and simulated audits."""

from collections import Counter

import numpy as np
import pytest

from audit.attacks.measuring import KindsCheck, TriedValues, count_documents, count_returned, count_values
from audit.measurements import Unresolved
from audit.policy import load
from audit.stats.rates import excess_mean, excess_rate
from benchmarks.simulated_attacks import Audit, attributes, membership, reconstruction
from benchmarks.simulated_audits import decisions_of, fewer_resamples

DEFAULT = load("default")
WANTED = [limit.metric for limit in DEFAULT.limits if limit.attack == "reconstruction"]


def tried(member, heldout, per_document=1):
    """Values of so many documents of each side: how many of each document's are found with the model."""
    found = [*member, *heldout]
    cluster = np.repeat(np.arange(len(found)), per_document)
    place = np.tile(np.arange(per_document), len(found))
    attack = (place < np.repeat(found, per_document)).astype(float)
    return TriedValues(cluster < len(member), cluster, np.arange(cluster.size), attack, np.zeros(cluster.size))


def test_documents_are_counted_by_how_many_of_their_values_came_back():
    hits, nothing = np.array([True, True, False, False]), np.zeros(2, bool)
    shown = count_returned({"member": (hits, np.array([0, 0, 1, 2])), "held-out": (nothing, np.array([3, 4]))})
    assert (shown.counts, shown.edges[0]) == ({"member": (2, 0, 1), "held-out": (2, 0, 0)}, -0.5)


def rng():
    return np.random.default_rng(0)


def outcomes(audit, audits):
    """What becomes of an audit by the shipped policy, over so many: the worst outcome, and that of each limit."""
    worst, limits = Counter(), Counter()
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


def test_values_count_once_in_a_document_and_by_their_number():
    values = tried([4] * 15 + [0] * 85, [0] * 100, per_document=4)
    found = count_values("values", values, excess_rate, rng())
    assert found.value == pytest.approx(60)
    assert 0 < found.low < 60 < found.high
    again = TriedValues(values.member, values.cluster, values.cluster, values.attack, values.baseline)
    assert len(again.distinct()) == 200
    assert count_values("values", again, excess_rate, rng()).value == pytest.approx(15)


def test_what_held_out_documents_give_away_alike_is_not_counted():
    values = tried([1] * 30 + [0] * 70, [1] * 30 + [0] * 70, per_document=2)
    assert count_values("values", values, excess_rate, rng()).value == pytest.approx(0, abs=1e-9)
    assert count_documents("documents", values).value == 0
    known = tried([2] * 20 + [0] * 80, [1] * 30 + [0] * 70, per_document=2)
    assert count_documents("documents", known).low > 10
    assert isinstance(count_documents("documents", tried([1], [1])), Unresolved)


@pytest.mark.parametrize("n", [8, 16])
def test_a_kind_of_value_that_is_known_completely_raises_an_alarm(n):
    kinds = KindsCheck(0.05)
    quiet, known = tried([0] * 160, [0] * 160), tried([1] * n, [0] * n)
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
    draw, fired = np.random.default_rng(group), 0
    with fewer_resamples(200):
        for _ in range(200):
            kinds = KindsCheck(0.05)
            for share in (0.0, 0.1, 0.5, 0.95):
                values = tried(draw.binomial(1, min(1, share + 0.04), group), draw.binomial(1, share, group))
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
    for name in ("attribute_inference values_identified", "attribute_inference documents_identified"):
        assert limits[f"{name}: violated"] == 2
    _, limits = outcomes(Audit(300, known=4), 4)
    for name in ("attribute_inference values_identified", "attribute_inference documents_identified"):
        assert not limits[f"{name}: violated"]


def test_a_rare_category_that_nobody_knows_passes():
    worst, _ = outcomes(Audit(300, rows=8, rare=0.1), 8)
    assert worst["passed"] >= 6
    assert not worst["violated"]

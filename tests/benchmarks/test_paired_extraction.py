"""Before and after a countermeasure: planted changes are found, none is made up, documents are the unit."""

import numpy as np
import pytest

from benchmarks.papers.paired_extraction import Extraction, extraction_changes


def extraction(target, baseline, per_document=2):
    names = [f"q{place:03}" for place in range(len(target))]
    documents = [f"d{place // per_document:03}" for place in range(len(target))]
    return Extraction(names, documents, np.array(target, float), np.array(baseline, float))


def rows(before, after, seed=7):
    changes = extraction_changes({"exact": before}, {"exact": after}, np.random.default_rng(seed))
    return {change.metric: change for change in changes}


def test_memorised_answers_that_a_countermeasure_stops_are_counted():
    """120 questions: 30 from memory, 10 that a baseline gives too.

    Afterwards only the baseline's are left.
    """
    memory = [1] * 30 + [0] * 90
    common = [0] * 110 + [1] * 10
    before = extraction(np.maximum(memory, common), common)
    found = rows(before, extraction(common, common))
    memorised = found["memorised"]
    net = found["net"]
    assert (memorised.before.value, memorised.after.value) == (30 / 120, 0)
    assert memorised.difference.value == net.difference.value == -30 / 120
    assert net.difference.high < 0 < -net.difference.low < 0.5
    assert (net.difference.n, net.difference.clusters, net.difference.unit) == (
        120,
        60,
        "questions",
    )
    # 15 documents changed, all the same way: 2 of 2^15 sign patterns are as extreme, and 10,000 are
    # drawn.
    assert max(memorised.p, net.p) < 0.002
    assert net.after.low < 0 < net.after.high
    assert (net.before.name, net.difference.null, net.context) == ("net.exact.before", 0, "exact")


def test_questions_of_one_document_are_not_independent():
    """The same change, once in 60 documents and once in 6: the fewer documents, the wider and the less sure."""
    after = np.zeros(60)
    before = np.array([1.0] * 30 + [0.0] * 30)
    order = np.random.default_rng(0).permutation(60)
    alone = rows(extraction(before[order], np.zeros(60), 1), extraction(after, np.zeros(60), 1))[
        "net"
    ]
    together = rows(extraction(before, np.zeros(60), 10), extraction(after, np.zeros(60), 10))[
        "net"
    ]
    assert alone.difference.value == together.difference.value == -0.5
    widths = [change.difference.high - change.difference.low for change in (alone, together)]
    assert widths[1] > 2 * widths[0]
    assert alone.p < 0.001 < together.p
    assert together.p == pytest.approx(2 / 2**3)  # three documents changed


def test_a_countermeasure_without_effect_is_rarely_credited():
    """Nothing but noise between two runs: p is under 0.05 in about 5 % of cases."""
    random = np.random.default_rng(3)
    low = 0
    for _ in range(40):
        sides = [extraction(random.random(60) < 0.3, np.zeros(60)) for _ in range(2)]
        low += rows(*sides)["net"].p <= 0.05
    assert low <= 7  # of Binomial(40, 0.05) this is more in 0.1 % of cases

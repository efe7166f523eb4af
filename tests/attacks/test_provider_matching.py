"""Providers in and out are compared on the same numbers of documents and questions.

See methods/provider-membership.md."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attacks.provider_membership.providers import limit_to_partners, match_sides, table_of
from audit.engine.interface import Trial

SIZES = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1, max_size=12)


def question(mark):
    unknown = dict.fromkeys(("confidence", "memory_similarity", "pretrained"))
    return {"loss": mark, "accuracy": 1.0, "similarity": 1.0, **unknown}


def providers(inside, outside):
    """Trials and outcomes; questions of each document of each provider.

    A loss says which question it is.
    """
    trials = []
    outcomes = []
    for stratum, side in (("in", inside), ("out", outside)):
        for number, sizes in enumerate(side):
            name = f"{stratum} {number}"
            trials.append(Trial(name, name, stratum))
            documents = []
            for place, size in enumerate(sizes):
                asked = {
                    "questions": [question(float(mark)) for mark in range(size)],
                    "memory_change": 0.5,
                }
                documents.append({"id": f"{name} document {place}", **asked})
            outcomes.append({"documents": documents})
    return trials, outcomes


def shapes(found, stratum):
    """How often providers of a side have which numbers of questions by document."""
    return Counter(
        tuple(sorted(len(document["questions"]) for document in outcome["documents"]))
        for trial, outcome in zip(found.trials, found.outcomes, strict=True)
        if trial.stratum == stratum
    )


def total(outcomes):
    return sum(
        len(document["questions"]) for outcome in outcomes for document in outcome["documents"]
    )


@settings(max_examples=60, deadline=None)
@given(SIZES, SIZES)
def test_sides_of_one_size_get_the_same_documents_and_questions(inside, outside):
    n = min(len(inside), len(outside))
    trials, outcomes = providers(inside[:n], outside[:n])
    found = match_sides(trials, outcomes)
    assert (shapes(found, "in"), sum(found.held)) == (shapes(found, "out"), total(outcomes))
    assert found.trials == tuple(trials)
    assert all(outcome["documents"] for outcome in found.outcomes)


@settings(max_examples=40, deadline=None)
@given(SIZES, SIZES)
def test_nothing_is_kept_that_was_not_there_and_order_decides_nothing(inside, outside):
    trials, outcomes = providers(inside, outside)
    found = match_sides(trials, outcomes)
    for before, after in zip(outcomes, found.outcomes, strict=True):
        had = {document["id"]: document["questions"] for document in before["documents"]}
        for document in after["documents"]:
            assert 0 < len(document["questions"]) <= len(had[document["id"]])
            assert all(asked in had[document["id"]] for asked in document["questions"])
    turned = [{"documents": outcome["documents"][::-1]} for outcome in outcomes[::-1]]
    again = match_sides(trials[::-1], turned)
    kept = {
        trial.cluster: outcome for trial, outcome in zip(again.trials, again.outcomes, strict=True)
    }
    assert [kept[trial.cluster] for trial in found.trials] == [*found.outcomes]


def test_sides_of_other_sizes_get_the_same_distribution():
    draw = np.random.default_rng(0)
    inside, outside = (
        [draw.integers(1, 7, 1 + draw.poisson(mean)).tolist() for _ in range(n)]
        for mean, n in ((3, 400), (0.5, 150))
    )
    found = match_sides(*providers(inside, outside))
    insides = shapes(found, "in")
    outsides = shapes(found, "out")
    for shape in insides.keys() | outsides.keys():
        assert abs(insides[shape] / 400 - outsides[shape] / 150) <= 2 / 150


def test_the_smaller_of_both_partners_is_kept_documents_first():
    trials, outcomes = providers([[5, 5, 5]], [[2]])
    found = match_sides(trials, outcomes)
    assert shapes(found, "in") == {(2,): 1}
    table = table_of(found)
    assert (table.n_documents.tolist(), table.n_questions.tolist()) == ([1, 1], [2, 2])
    kept = found.outcomes[0]["documents"][0]
    assert table.features["loss"][0] == np.mean([asked["loss"] for asked in kept["questions"]])


def test_partners_have_the_same_rank_or_quantile():
    member = np.array([True, True, False, False, False, False])
    sizes = [(9,), (2,), (1,), (3,), (5,), (7,)]
    # Ranks of two are in the middle of the second and the fourth of four.
    assert limit_to_partners(sizes, member, "abcdef") == [(7,), (2,), (1,), (2,), (5,), (7,)]


def test_a_provider_of_whom_nothing_was_asked_is_dropped_and_one_side_alone_is_left_as_it_is():
    trials, outcomes = providers([[1], [0]], [[1], []])
    found = match_sides(trials, outcomes)
    assert ([trial.cluster for trial in found.trials], found.dropped) == (["in 0", "out 0"], 2)
    assert table_of(match_sides(*providers([[3, 1], [2]], []))).n_questions.tolist() == [4, 2]

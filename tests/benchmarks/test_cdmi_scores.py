"""Membership scores of the CDMI paper: answers by hand, and what they put first."""

import math

import numpy as np
import pytest

from audit.attacks.reconstruction.methods import Shot
from benchmarks.papers import cdmi_scores
from benchmarks.papers.cdmi_numbers import Fields, fields_of


def shot(tokens, target, public):
    return Shot(tokens, tuple(map(math.log, target)), tuple(map(math.log, public)))


RARE = shot((1, 2), target=(0.9, 0.4), public=(0.1, 0.1))
"""Public perplexity 10, target perplexity 1 / 0.6."""
PLAIN = shot((3, 4), target=(0.5, 0.5), public=(0.5, 0.02))
"""Public perplexity 10 as well, target perplexity 2; the second token has the largest ratio."""


@pytest.mark.parametrize(
    ("name", "of_rare", "of_plain"),
    [
        ("raw perplexity", math.log(10), math.log(10)),
        ("perplexity ratio", math.log(6), math.log(5)),
        ("raw and ratio", math.log(60), math.log(50)),
        ("largest gap", 0.8, 0.48),
        ("largest ratio", math.log(9), math.log(25)),
    ],
)
def test_the_papers_scores_have_the_values_of_a_calculation_by_hand(name, of_rare, of_plain):
    score = cdmi_scores.SCORES[name]
    assert score(RARE) == pytest.approx(of_rare)
    assert score(PLAIN) == pytest.approx(of_plain)


def test_the_paper_has_five_scores():
    assert len(cdmi_scores.SCORES) == 5


def test_scores_beside_the_papers_prefer_what_a_model_finds_likely():
    likely = shot((1,), target=(0.2,), public=(0.8,))
    unlikely = shot((2,), target=(0.9,), public=(0.1,))
    by_public = cdmi_scores.OTHERS["likeliest to the public model"]
    by_target = cdmi_scores.OTHERS["likeliest to the model"]
    assert by_public(likely) == pytest.approx(math.log(0.8))
    assert by_public(likely) > by_public(unlikely)
    assert by_target(unlikely) > by_target(likely)


def test_the_filter_takes_another_attempt_with_another_score():
    outcome = {
        "truth": [3, 4],
        "attack": [RARE.as_json(), PLAIN.as_json()],
        "baseline": [PLAIN.as_json()],
        "reached": True,
    }
    exact = {}
    for name in ("largest gap", "largest ratio"):
        rows = fields_of([outcome], ["a"], cdmi_scores.choice_by(cdmi_scores.SCORES[name]))
        exact[name] = rows.exact["attack"].tolist()
    assert exact == {"largest gap": [0.0], "largest ratio": [1.0]}


def rise(rows, seed=0):
    return cdmi_scores.rise_of(rows, "attack", np.random.default_rng(seed), n_resamples=1_000)


def ranked(scores, hits, cluster=None):
    """Fields of which the attack has these scores and hits."""
    columns = {"attack": np.array(scores, float)}
    hit = {"attack": np.array(hits, float)}
    documents = np.arange(len(hits)) if cluster is None else np.array(cluster)
    return Fields(documents, np.ones(len(hits), bool), columns, hit, hit, {})


def test_a_rise_is_the_share_of_the_first_twentieth_less_that_of_all():
    """Two fields of 40 are the first twentieth; 4 of 40 are exact, and two of these come first."""
    hits = [1, 1, *[0] * 36, 1, 1]
    found = rise(ranked(range(40, 0, -1), hits))
    assert found is not None
    assert found.value == pytest.approx(1 - 0.1)
    assert found.low <= found.value <= found.high


def test_a_score_without_information_has_no_rise():
    """All fields are tied: the first are expected to be as good as all."""
    hits = [1, 0, 0, 0] * 10
    assert rise(ranked([0] * 40, hits)) is None


def test_no_hit_gives_no_rise():
    assert rise(ranked(range(40), [0] * 40)) is None


def test_a_rise_of_many_good_fields_is_shown_and_that_of_one_is_not():
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(100), 4)
    good = np.zeros(400)
    good[:18] = 1
    good[100:110] = 1
    weak = np.zeros(400)
    weak[0] = 1
    weak[200:210] = 1
    order = rng.permutation(400)
    scores = np.arange(400, 0, -1)
    shown = rise(ranked(scores, good, cluster[order]))
    open_still = rise(ranked(scores, weak, cluster[order]))
    assert shown is not None
    assert open_still is not None
    assert cdmi_scores.is_shown(shown)
    assert not cdmi_scores.is_shown(open_still)


def test_an_outcome_with_a_right_attempt_has_it_first():
    right = {"truth": [3, 4], "attack": [RARE.as_json(), PLAIN.as_json()]}
    wrong = {"truth": [3, 9], "attack": [RARE.as_json(), PLAIN.as_json()]}
    assert cdmi_scores.truth_first(right)["attack"] == [PLAIN.as_json(), RARE.as_json()]
    assert cdmi_scores.truth_first(wrong) == wrong


def test_the_papers_rows_are_those_of_its_table_5():
    with_images, without = cdmi_scores.paper_lines()
    assert [*map(str.strip, with_images.split("|")[2:7])] == [
        "*0.225*", "*0.032*", "*0.193*", "*0.070*", "*0.191*",
    ]  # fmt: skip
    assert [*map(str.strip, without.split("|")[2:7])] == [
        "*0.075*", "*0.020*", "*0.055*", "*0.036*", "*0.104*",
    ]  # fmt: skip

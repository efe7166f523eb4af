import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attacks.measuring import is_near
from audit.stats.distances import hamming, join_near
from audit.stats.intervals import join_groups
from benchmarks.papers.cdmi_numbers import improvement_factor, jaro_winkler, levenshtein

tokens = st.lists(st.integers(0, 30_521), min_size=1, max_size=15)
deterministic = settings(max_examples=50, deadline=None, derandomize=True)


def test_hamming_is_the_share_of_wrong_positions():
    assert (hamming([101, 7, 7, 102], [101, 7, 8, 9]), hamming([5, 6, 7], [5, 6, 7])) == (0.5, 0.0)
    assert hamming([5, 6, 7], [6, 7, 5]) == 1.0


@pytest.mark.parametrize(("truth", "guess"), [([1, 2], [1]), ([1], [1, 2]), ([], [])])
def test_hamming_refuses_unequal_or_empty_fields(truth, guess):
    with pytest.raises(ValueError, match=r"empty field|length"):
        hamming(truth, guess)


def test_levenshtein_forgives_a_shift_where_hamming_does_not():
    truth = [1, 2, 3, 4, 5]
    shifted = [9, 1, 2, 3, 4]
    assert (levenshtein(truth, shifted), hamming(truth, shifted)) == (pytest.approx(2 / 5), 1.0)


def test_jaro_winkler_on_winklers_own_example():
    # MARTHA / MARHTA: Jaro 17/18, three common first letters, so 17/18 + 0.3 / 18.
    martha = [13, 1, 18, 20, 8, 1]
    marhta = [13, 1, 18, 8, 20, 1]
    assert jaro_winkler(martha, marhta) == pytest.approx(1 - (17 / 18 + 3 * 0.1 * (1 - 17 / 18)))


def test_token_ids_are_compared_as_numbers_whatever_container_holds_them():
    wide, close = [300, 1, 2], [44, 1, 2]  # 300 = 44 modulo 256: bytes of a buffer would be equal
    for distance in (hamming, levenshtein, jaro_winkler):
        assert distance(np.array(wide), np.array(close)) == distance(wide, close) > 0


@deterministic
@given(tokens, st.data())
def test_distances_are_zero_on_the_truth_and_stay_within_0_and_1(truth, data):
    guess = data.draw(
        st.lists(st.sampled_from([*truth, 7]), min_size=len(truth), max_size=len(truth))
    )
    for distance in (hamming, levenshtein, jaro_winkler):
        assert distance(truth, truth) == 0.0
        assert 0.0 <= distance(truth, guess) <= 1.0
    assert levenshtein(truth, guess) <= hamming(truth, guess)


@deterministic
@given(st.sets(st.text("ab1", min_size=9, max_size=16), max_size=40))
def test_near_texts_bear_one_name_directly_or_through_others(texts):
    groups = join_groups([one, other] for one in texts for other in texts if is_near(one, other))
    assert join_near(texts) == {text: group[0] for group in groups for text in group}


def test_improvement_factor_is_equation_6():
    attack = np.array([0.09, 0.49, 0.39, 0.29])
    baseline = np.array([0.04, 0.74, 0.59, 0.44])
    assert improvement_factor(attack, baseline, epsilon=0.01) == pytest.approx(
        (2 + 1.5 + 1.5 + 1.5) / 4
    )

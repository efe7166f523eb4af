import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.stats.distances import Distances, hamming, improvement_factor, jaro_winkler, levenshtein

tokens = st.lists(st.integers(0, 30_521), min_size=1, max_size=15)
deterministic = settings(max_examples=50, deadline=None, derandomize=True)


def test_hamming_is_the_share_of_wrong_positions():
    assert hamming([101, 7, 7, 102], [101, 7, 8, 9]) == 0.5
    assert hamming([5, 6, 7], [5, 6, 7]) == 0.0
    assert hamming([5, 6, 7], [6, 7, 5]) == 1.0


@pytest.mark.parametrize(("truth", "guess"), [([1, 2], [1]), ([1], [1, 2]), ([], [])])
def test_hamming_refuses_unequal_or_empty_fields(truth, guess):
    with pytest.raises(ValueError, match=r"empty field|length"):
        hamming(truth, guess)


def test_levenshtein_forgives_a_shift_where_hamming_does_not():
    truth, shifted = [1, 2, 3, 4, 5], [9, 1, 2, 3, 4]
    assert levenshtein(truth, shifted) == pytest.approx(2 / 5)
    assert hamming(truth, shifted) == 1.0


def test_jaro_winkler_on_winklers_own_example():
    # MARTHA / MARHTA: Jaro 17/18, three common first letters, so 17/18 + 0.3 / 18.
    martha, marhta = [13, 1, 18, 20, 8, 1], [13, 1, 18, 8, 20, 1]
    assert jaro_winkler(martha, marhta) == pytest.approx(1 - (17 / 18 + 3 * 0.1 * (1 - 17 / 18)))


def test_jaro_winkler_rounds_half_transpositions_down_as_winklers_program_does():
    # Three of eight common tokens stand elsewhere: 1 transposition, where the formula of textbooks has 1.5 (0.9375).
    truth, guess = [1, 2, 3, 4, 5, 6, 7, 8], [2, 3, 1, 4, 5, 6, 7, 8]
    assert jaro_winkler(truth, guess) == pytest.approx(1 - (1 + 1 + 7 / 8) / 3)


@pytest.mark.parametrize(
    ("common", "similarity"), [(2, 11 / 21), (4, 5 / 7 + 0.4 * 2 / 7), (5, 17 / 21 + 0.4 * 4 / 21)]
)
def test_jaro_winkler_counts_the_prefix_only_above_a_jaro_similarity_of_seven_tenths(common, similarity):
    truth = list(range(7))
    guess = [*truth[:common], *range(100, 107 - common)]
    assert jaro_winkler(truth, guess) == pytest.approx(1 - similarity)


def test_token_ids_are_compared_as_numbers_whatever_container_holds_them():
    wide, close = [300, 1, 2], [44, 1, 2]  # 300 = 44 modulo 256: bytes of a buffer would be equal
    for distance in (hamming, levenshtein, jaro_winkler):
        assert distance(np.array(wide), np.array(close)) == distance(wide, close) > 0


@deterministic
@given(tokens, st.data())
def test_distances_are_zero_on_the_truth_and_stay_within_0_and_1(truth, data):
    guess = data.draw(st.lists(st.sampled_from([*truth, 7]), min_size=len(truth), max_size=len(truth)))
    for distance in (hamming, levenshtein, jaro_winkler):
        assert distance(truth, truth) == 0.0
        assert 0.0 <= distance(truth, guess) <= 1.0
    assert levenshtein(truth, guess) <= hamming(truth, guess)


def test_improvement_factor_is_equation_6():
    attack = Distances(pr=0.09, hd=0.49, ld=0.39, jwd=0.29)
    baseline = Distances(pr=0.04, hd=0.74, ld=0.59, jwd=0.44)
    assert improvement_factor(attack, baseline, epsilon=0.01) == pytest.approx((2 + 1.5 + 1.5 + 1.5) / 4)


def test_improvement_factor_is_1_without_improvement_and_finite_at_perfect_recovery():
    same = Distances(pr=0.0, hd=0.9, ld=0.8, jwd=0.7)
    perfect = Distances(pr=1.0, hd=0.0, ld=0.0, jwd=0.0)
    assert improvement_factor(same, same) == 1.0
    assert improvement_factor(perfect, same, epsilon=0.1) == pytest.approx((1.1 / 0.1 + 10 + 9 + 8) / 4)
    with pytest.raises(ValueError, match="epsilon"):
        improvement_factor(perfect, same, epsilon=0.0)


def test_improvement_factor_of_arrays_is_that_of_each_entry():
    rng = np.random.default_rng(1)
    attack, baseline = Distances(*rng.random((4, 6))), Distances(*rng.random((4, 6)))
    whole = improvement_factor(attack, baseline)
    for i in range(6):
        one = improvement_factor(
            Distances(*(float(v[i]) for v in (attack.pr, attack.hd, attack.ld, attack.jwd))),
            Distances(*(float(v[i]) for v in (baseline.pr, baseline.hd, baseline.ld, baseline.jwd))),
        )
        assert whole[i] == pytest.approx(one)

"""Which units a training is about to memorise, told from scores at two of its checkpoints."""

import numpy as np
import pytest

from audit.stats.foresight import Scored, foresee

N_UNITS = 60
PLANTED = tuple(f"m{number:02d}" for number in range(6))


def scored(seed: int, *, gained: float = 0.0, planted: float = 0.0) -> Scored:
    """Scores of a checkpoint: noise, and what members and planted members gained."""
    noise = np.random.default_rng(seed).normal(0, 1, (2, N_UNITS))
    members = {f"m{number:02d}": noise[0, number] + gained for number in range(N_UNITS)}
    for name in PLANTED:
        members[name] += planted
    return Scored(members, {f"u{number:02d}": noise[1, number] for number in range(N_UNITS)})


def test_what_two_checkpoints_rank_first_is_listed_highest_first() -> None:
    before = scored(1, gained=1, planted=5)
    now = scored(2, gained=1, planted=9)
    foreseen = foresee(before, now, 0.1)
    assert set(foreseen.listed) == set(PLANTED)
    assert list(foreseen.listed) == sorted(PLANTED, key=now.members.__getitem__, reverse=True)
    assert (foreseen.n_again, foreseen.n_scored, foreseen.by_chance) == (6, N_UNITS, 0.6)


def test_equal_scores_are_listed_in_order_of_their_names() -> None:
    flat = Scored(dict.fromkeys(("c", "a", "b", *map(str, range(9))), 2.0), {"u": 0.0})
    assert foresee(flat, flat, 0.25).doubt == "unseen", "one unseen unit proves nothing"
    many = Scored(flat.members, {f"u{number}": 0.0 for number in range(20)})
    assert foresee(many, many, 0.25).listed == ("0", "1", "2")


@pytest.mark.parametrize("seed", range(5))
def test_a_model_that_learns_nothing_lists_none(seed: int) -> None:
    foreseen = foresee(scored(2 * seed + 10), scored(2 * seed + 10), 0.1)
    assert (foreseen.listed, foreseen.doubt) == ((), "unseen")


def test_checkpoints_that_rank_others_first_list_none() -> None:
    foreseen = foresee(scored(1, gained=3), scored(4, gained=3), 0.1)
    assert (foreseen.listed, foreseen.doubt) == ((), "disagree")


@pytest.mark.parametrize(
    ("before", "now", "doubt"),
    [
        pytest.param(None, scored(1, gained=3), "first", id="one checkpoint"),
        pytest.param(scored(1, gained=3), None, "unscored", id="no scores"),
        pytest.param(scored(1), Scored(scored(1).members, {}), "unscored", id="none unseen"),
        pytest.param(
            Scored({"a": 1.0}, {"u": 0.0}), Scored({"a": 1.0}, {"u": 0.0}), "unscored", id="one"
        ),
    ],
)
def test_too_little_to_tell_lists_none(
    before: Scored | None, now: Scored | None, doubt: str
) -> None:
    foreseen = foresee(before, now, 0.1)
    assert (foreseen.listed, foreseen.doubt) == ((), doubt)


def test_few_false_lists_on_noise() -> None:
    """Both tests at once leave fewer than their level, with independent checkpoints."""
    n_lists = 0
    for seed in range(200):
        foreseen = foresee(scored(2 * seed), scored(2 * seed + 1), 0.1)
        n_lists += bool(foreseen.listed)
    assert n_lists <= 4

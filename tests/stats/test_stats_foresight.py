"""Which units a training is about to memorise, told from scores at two of its checkpoints."""

import numpy as np
import pytest

from audit.stats.foresight import LEVEL, Scored, foresee

N_UNITS = 60
UNSEEN = {f"u{number}": 0.0 for number in range(20)}
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
    assert foresee(flat, flat, 0.25).doubt == "few", "one unseen unit proves nothing"
    many = Scored(flat.members, UNSEEN)
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
        pytest.param(Scored({"a": 1.0}, UNSEEN), Scored({"a": 1.0}, UNSEEN), "unscored", id="one"),
    ],
)
def test_too_little_to_tell_lists_none(
    before: Scored | None, now: Scored | None, doubt: str
) -> None:
    foreseen = foresee(before, now, 0.1)
    assert (foreseen.listed, foreseen.doubt) == ((), doubt)


def test_a_unit_that_many_unseen_units_outrank_is_not_listed() -> None:
    now = scored(2, gained=1, planted=9)
    foreseen = foresee(now, now, 0.5)
    third = sorted(now.unseen.values(), reverse=True)[2]
    first_half = sorted(now.members, key=now.members.__getitem__, reverse=True)[: N_UNITS // 2]
    assert [*foreseen.listed] == [name for name in first_half if now.members[name] > third]
    assert len(PLANTED) < len(foreseen.listed) < N_UNITS / 2


def test_at_most_the_declared_share_of_unknown_units_is_listed() -> None:
    """Half of the units are remembered; the others score as unseen ones do."""
    remembered = {f"m{number:02d}" for number in range(0, N_UNITS, 2)}
    n_false = 0
    for seed in range(200):
        noise = scored(seed)
        members = dict(noise.members)
        for name in remembered:
            members[name] += 9
        now = Scored(members, noise.unseen)
        listed = {*foresee(now, now, 0.7).listed}
        assert remembered <= listed
        n_false += len(listed - remembered)
    share = n_false / (200 * N_UNITS / 2)
    assert 0.04 < share < LEVEL + 0.005


def test_too_few_unseen_units_for_the_rate_list_none() -> None:
    known = scored(1, gained=9)
    few = Scored(known.members, dict([*known.unseen.items()][:18]))
    enough = Scored(known.members, dict([*known.unseen.items()][:19]))
    assert foresee(few, few, 0.1).doubt == "few"
    assert len(foresee(enough, enough, 0.1).listed) == 6


def test_few_false_lists_on_noise() -> None:
    """Both tests at once leave fewer than their level, with independent checkpoints."""
    n_lists = 0
    for seed in range(200):
        foreseen = foresee(scored(2 * seed), scored(2 * seed + 1), 0.1)
        n_lists += bool(foreseen.listed)
    assert n_lists <= 4

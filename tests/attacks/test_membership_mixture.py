"""Documents that a model has forgotten only in part raise an alarm of `docaudit forget-check`."""

import numpy as np
import pytest

from audit.attacks.membership.mixture import NAME, check_mixture


def sides(n_shifted, shift, seed=0, n_listed=250, n_unseen=300):
    """Draw the scores of listed and unseen documents; some of the listed ones are shifted."""
    rng = np.random.default_rng(seed)
    listed = rng.normal(size=n_listed)
    listed[:n_shifted] += shift
    return listed, rng.normal(size=n_unseen)


@pytest.mark.parametrize(
    ("shift", "named"),
    [
        pytest.param(3.0, "too many of them rank above most unseen ones", id="known"),
        pytest.param(-3.0, "too many of them rank below most of these", id="pushed away"),
    ],
)
def test_a_tenth_of_the_list_that_stands_out_is_named_with_its_direction(shift, named):
    (check,) = check_mixture({"calibrated": sides(25, shift), "loss": sides(0, 0.0, seed=1)})
    assert (check.name, check.cause) == (NAME, "alarm")
    assert check.p_value <= 0.001
    assert named in check.reason
    assert "forget all listed documents again" in check.remedy


def test_forgotten_documents_raise_no_alarm():
    (check,) = check_mixture({"calibrated": sides(0, 0.0), "loss": sides(0, 0.0, seed=1)})
    assert check.p_value > 0.05


def test_no_more_often_than_the_level_whatever_the_number_of_scores():
    alarms = 0
    for seed in range(200):
        listed, unseen = sides(0, 0.0, seed)
        (check,) = check_mixture({"calibrated": (listed, unseen), "ratio": (listed**3, unseen**3)})
        alarms += check.p_value <= 0.05
    assert alarms <= 18


@pytest.mark.parametrize("scores", [{}, {"loss": (np.empty(0), np.arange(3.0))}])
def test_without_documents_on_both_sides_there_is_no_check(scores):
    assert check_mixture(scores) == ()

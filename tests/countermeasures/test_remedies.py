"""Remedies that a report recommends: those that a command measures say so."""

import pytest

from audit.extensions.countermeasures.interface import TrainingDefense
from audit.report.recommend import remedies
from audit.report.remedies import DEFENSES

MEASURED = [(remedy.id, name, remedy.check) for remedy in remedies() for name in remedy.measured_by]

TRAINED = [one for one in MEASURED if isinstance(DEFENSES[one[1]], TrainingDefense)]


def test_what_measures_a_remedy_is_installed() -> None:
    assert {name for _, name, _ in MEASURED} <= {*DEFENSES}


@pytest.mark.parametrize(("remedy", "name", "check"), TRAINED)
def test_how_to_check_a_remedy_names_the_countermeasure_that_is_trained(remedy: str, name: str, check: str) -> None:
    assert "docaudit defend" in check
    assert name in check


@pytest.mark.parametrize("name", ["scrub", "cap-providers", "higher-resolution", "regularisation", "blocking"])
def test_what_can_be_trained_is_recommended(name: str) -> None:
    assert name in {measured for _, measured, _ in MEASURED}

"""Trials are listed once where nothing can have changed them since the session was opened."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import tiny

from audit.attacks.interface import Attack
from audit.case import Case, References
from audit.corpus import manifest
from audit.engine.interface import Trial
from audit.targets.interface import NoModel
from audit.workflows.checking import Listing

LISTED = [Trial("listed", "a", "member")]
AGAIN = [Trial("listed again", "a", "member")]


@dataclass(frozen=True)
class Counted:
    """An attack that counts how often its trials are listed."""

    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    listings: list[Case] = field(default_factory=list, compare=False)
    name: str = "counted"

    def trials(self, case: Case) -> Sequence[Trial]:
        self.listings.append(case)
        return AGAIN


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    corpus = manifest.load(tiny.corpus(Path(tmp_path_factory.mktemp("data")) / "data"))
    return Case(NoModel(corpus), corpus)


def listed(attack: Any, case: Case) -> Listing:
    return Listing(case, (cast("Attack", attack),), {attack.name: LISTED})


def trials_of(attack: Counted, case: Case, later: Case) -> Sequence[Trial]:
    return listed(attack, case).trials_of(cast("Attack", attack), later)


def with_reference(case: Case) -> Case:
    return replace(case, references=References(baselines=(case.target,)))


@pytest.mark.parametrize("attack", [Counted(), Counted(needs=("baselines",))])
def test_trials_of_the_same_case_are_not_listed_again(attack: Counted, case: Case) -> None:
    assert trials_of(attack, case, replace(case)) == LISTED
    assert attack.listings == []


def test_references_change_nothing_for_an_attack_that_takes_none(case: Case) -> None:
    assert trials_of(Counted(), case, with_reference(case)) == LISTED


@pytest.mark.parametrize("attack", [Counted(needs=("baselines",)), Counted(uses=("baselines",))])
def test_an_attack_that_takes_references_lists_its_trials_again(
    attack: Counted, case: Case
) -> None:
    assert trials_of(attack, case, with_reference(case)) == AGAIN


def test_another_model_or_data_set_is_listed_again(case: Case) -> None:
    assert trials_of(Counted(), case, replace(case, target=NoModel(case.corpus))) == AGAIN
    assert trials_of(Counted(), case, replace(case, corpus=replace(case.corpus))) == AGAIN


def test_an_attack_with_other_parameters_is_listed_again(case: Case) -> None:
    other = cast("Attack", Counted(uses=("splits",)))
    assert listed(Counted(), case).trials_of(other, case) == AGAIN
